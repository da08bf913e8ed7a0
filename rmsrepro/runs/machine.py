"""What a run was made on: processor, memory, GPU and the settings that decide about threads."""

import os
import platform
import sys
from pathlib import Path
from typing import Any

_THREAD_PREFIXES = (
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "NUMEXPR_",
    "MALLOC_",
    "PYTORCH_",
    "CUBLAS_",
)
_THREAD_NAMES = ("CUDA_VISIBLE_DEVICES", "LD_PRELOAD")


def hardware() -> dict[str, Any]:
    """Describe the machine: cores, memory in bytes, load average over 1 minute, GPUs (see `gpus`)."""
    import psutil

    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "cpu": _cpu_model(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(logical=True),
        "usable_cores": affinity,
        "cgroup_cores": _cgroup_cores(Path("/sys/fs/cgroup/cpu.max")),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "gpus": gpus(),
        "gpu_driver": _gpu_driver(Path("/proc/driver/nvidia/version")),
    }


def threads() -> dict[str, Any]:
    """Return the environment variables that set threads and allocators, and torch's thread counts."""
    environment = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_THREAD_PREFIXES) or name in _THREAD_NAMES
    }
    torch = _torch()
    return {
        "environment": environment,
        "torch_threads": None if torch is None else torch.get_num_threads(),
        "torch_interop_threads": None if torch is None else torch.get_num_interop_threads(),
    }


def gpus() -> list[str] | None:
    """Name the GPUs that torch sees; None when torch is not imported or cannot say."""
    torch = _torch()
    if torch is None:
        return None
    try:
        return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    except (RuntimeError, AssertionError):  # a driver that is too old or a CPU-only build
        return None


def _torch() -> Any:
    """Torch if the program has it already: describing a machine is no reason to import it."""
    return sys.modules.get("torch")


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else (platform.processor() or None)


def _cgroup_cores(cpu_max: Path) -> float | None:
    """Return the container's processor quota in cores, or None if it has no limit."""
    try:
        quota, period = cpu_max.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _gpu_driver(version_file: Path) -> str | None:
    try:
        return version_file.read_text(errors="replace").splitlines()[0]
    except (OSError, IndexError):
        return None
