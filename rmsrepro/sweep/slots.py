"""What each worker of a sweep computes on: a share of the processors, and a GPU of its own where there are GPUs.

Threads are bound through the environment and the processors' affinity, never through `train.threads`, which is part
of a run's configuration: how many workers there are must not change which runs they make.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rmsrepro.errors import ConfigError, UserError
from rmsrepro.runs.lock import exclusive_lock, is_locked

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_NVIDIA_SMI_S = 20.0


@dataclass(frozen=True)
class Slot:
    """One worker's place."""

    cpus: tuple[int, ...] = ()
    """The processors that it is bound to; none to leave it unbound."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What its processes have beside the sweep's own environment."""
    gpus: tuple[str, ...] = ()
    """The GPUs that it may take, its own first."""

    def take_gpu(self) -> tuple[dict[str, str], ExitStack]:
        """Return what makes a process use the first GPU that no sweep holds, and what to close when it has ended.

        Sweeps of one user know of each other through locks below the temporary folder. The slot's own GPU is shared
        where all are held or there can be no locks.
        """
        held, folder = ExitStack(), Path(tempfile.gettempdir()) / f"rmsrepro-gpus-{os.getuid()}"
        for gpu in self.gpus:
            lock_file = folder / gpu.replace("/", "-")
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
                if is_locked(lock_file):  # asked first, since taking a lock waits for its holder a while
                    continue
                held.enter_context(exclusive_lock(lock_file))
            except (UserError, OSError):
                continue
            return {"CUDA_VISIBLE_DEVICES": gpu}, held
        return {"CUDA_VISIBLE_DEVICES": self.gpus[0]} if self.gpus else {}, held

    @contextmanager
    def bound(self) -> Generator[None]:
        """Bind the calling thread for the block: processes that it starts inherit that."""
        if not self.cpus or not hasattr(os, "sched_setaffinity"):
            yield
            return
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.cpus)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


def build_slots(workers: int | None, *, gpu: bool) -> list[Slot]:
    """Share processors and, if `gpu`, GPUs among `workers`; by default one for each GPU, or one.

    A single worker without a GPU is left as it is. Raises ConfigError for more workers than there is room for.
    """
    gpus = visible_gpus(os.environ) if gpu else []
    count = workers or len(gpus) or 1
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    if gpus and count > len(gpus):
        raise ConfigError(f"workers={count}: allowed are 1 to {len(gpus)}, a GPU for each (device=cpu leaves them out)")
    if count > len(cpus):
        raise ConfigError(f"workers={count}: allowed are 1 to {len(cpus)}, a processor for each")
    if count == 1:
        return [Slot(gpus=tuple(gpus))]
    slots = []
    for number in range(count):
        share = tuple(cpus[number * len(cpus) // count : (number + 1) * len(cpus) // count])
        environment = {name: _threads(os.environ.get(name), len(share)) for name in _THREAD_VARIABLES}
        slots.append(Slot(share, environment, (*gpus[number:], *gpus[:number])))
    return slots


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """Name the CUDA devices that a process may use, as CUDA_VISIBLE_DEVICES does; asks the driver, not torch."""
    allowed = environment.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None:
        return [name.strip() for name in allowed.split(",") if name.strip() not in ("", "-1")]
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, check=True, timeout=_NVIDIA_SMI_S)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in told.stdout.splitlines() if line.strip().isdecimal()]


def _threads(set_by_user: str | None, share: int) -> str:
    """Return the share, or less where the user asks for less."""
    fewer = set_by_user is not None and set_by_user.isdecimal() and 0 < int(set_by_user) < share
    return set_by_user if fewer and set_by_user else str(share)
