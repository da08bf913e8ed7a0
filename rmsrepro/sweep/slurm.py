"""Runs as Slurm jobs through submitit, one job a run; its local executor does the same on one machine.

The folder of all runs must be on a file system that the nodes share, and one whose locks hold between them.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmsrepro.errors import ConfigError, single_line
from rmsrepro.sweep.launcher import PROGRAM, Job, console_of
from rmsrepro.sweep.options import Options, whole_number
from rmsrepro.sweep.specs import Spec

#: Below the folder of all runs: submitit's own files.
FOLDER = ".slurm"
#: What `slurm.KEY=` may be called shortly -> submitit's parameter, its value a whole number or text.
_SHORT: dict[str, tuple[str, type]] = {
    "time": ("timeout_min", int),
    "cpus": ("cpus_per_task", int),
    "gpus": ("gpus_per_node", int),
    "mem_gb": ("mem_gb", int),
    "partition": ("slurm_partition", str),
}
_DAY_MIN = 24 * 60
_POLL_S = 0.1


class RunOnNode:
    """What a job does: one run in a process of its own, which saves when Slurm wants the node back."""

    def __init__(self, words: list[str], folder: Path, console: Path) -> None:
        self._words, self._folder, self._console = words, folder, console
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """Run to the end and return the exit code, 128 + n where signal n killed it."""
        with self._console.open("wb") as console:
            self._process = process = subprocess.Popen(
                self._words, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT
            )
        code = None
        while code is None:
            try:
                # Not `wait`: it would hold the lock that `checkpoint`, called by a signal, needs.
                time.sleep(_POLL_S)
                code = process.poll()
            except KeyboardInterrupt:  # how the local executor cancels
                process.send_signal(signal.SIGINT)
        return code if code >= 0 else 128 - code

    def checkpoint(self) -> Any:
        """Let the run save, and hand the job back to the queue; submitit calls this before time is up."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        return _submitit().helpers.DelayedSubmission(RunOnNode(self._words, self._folder, self._console))


class SubmititLauncher:
    """Submits each run as a job; `limit` bounds how many are queued or running at once."""

    def __init__(
        self, options: Options, folder: Path, *, limit: int, gpu: bool, program: Sequence[str] = PROGRAM
    ) -> None:
        submitit, self.limit, self._program = _submitit(), limit, tuple(program)
        cluster = "local" if options.launcher == "submitit_local" else "slurm"
        try:
            self._executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        except RuntimeError as error:
            raise ConfigError(f"launcher={options.launcher}: {error}; start the sweep on a Slurm login node") from error
        self._executor.update_parameters(**slurm_parameters(options.slurm, gpu=gpu and cluster == "slurm"))

    def start(self, spec: Spec) -> Job:
        """Queue one run; raises ConfigError with what the queue says where it refuses the job."""
        run = RunOnNode([*self._program, *spec.overrides], Path.cwd(), console_of(spec))
        utils = importlib.import_module("submitit.core.utils")
        try:
            return _SubmittedJob(self._executor.submit(run))
        except (utils.FailedJobError, utils.FailedSubmissionError) as error:
            raise ConfigError(
                f"launcher=slurm: the job was refused ({single_line(error) or 'sbatch does not say why'});"
                " see to slurm.KEY= or, where it is one job too many, workers=N, then repeat the sweep"
            ) from error


class _SubmittedJob:
    def __init__(self, job: Any) -> None:
        self.lost = ""
        self._job, self._signalled = job, 0

    def poll(self) -> int | None:
        if not self._job.done():
            return None
        try:
            code = self._job.result()
        except Exception as error:  # submitit's errors, and whatever the job's process raised
            self.lost = f"{type(error).__name__}: {last_words(error)}; see {self._job.paths.stderr}"
            return 128 + self._signalled if self._signalled else 1
        return int(code)

    def send_signal(self, number: int) -> None:
        """Cancel the job: Slurm, too, asks its processes to end before it kills them."""
        self._signalled = number
        self._job.cancel(check=False)


def slurm_parameters(given: dict[str, str], *, gpu: bool) -> dict[str, Any]:
    """Return submitit's parameters; a key that has no short name here goes to sbatch under its own."""
    parameters: dict[str, Any] = {"name": "rmsrepro", "timeout_min": _DAY_MIN, "gpus_per_node": int(gpu)}
    additional = {}
    for key, value in given.items():
        if key not in _SHORT:
            additional[key] = value
            continue
        name, kind = _SHORT[key]
        parameters[name] = whole_number(f"slurm.{key}", value, "a whole number") if kind is int else value
    return parameters | ({"slurm_additional_parameters": additional} if additional else {})


def last_words(error: Exception) -> str:
    """Return the last line of what submitit quotes of a job, or the job's state where it has nothing to quote."""
    text = str(error)
    for hint in ("You can check full logs", "No output/error stream produced"):  # where to look follows
        text = text.partition(hint)[0]
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip(" -")), "it does not say why")


def _submitit() -> Any:
    try:
        return importlib.import_module("submitit")
    except ImportError as error:
        raise ConfigError("launcher=slurm needs submitit; install it with: pip install submitit") from error
