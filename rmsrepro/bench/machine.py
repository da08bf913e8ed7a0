"""What a timing was taken on."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch


def describe(device: str) -> dict[str, Any]:
    """Return the machine, versions and settings that a timing depends on."""
    about: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "malloc_settings": {k: v for k, v in os.environ.items() if k.startswith("MALLOC_")},
        "command": " ".join(["python -m rmsrepro.bench", *sys.argv[1:]]),
    }
    if hasattr(os, "getloadavg"):
        about["load_average_at_start"] = round(os.getloadavg()[0], 2)
    return about


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
