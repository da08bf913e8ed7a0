"""What a timing was taken on."""

from __future__ import annotations

import os
import platform
import subprocess
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


def conditions(device: str) -> dict[str, Any]:
    """Return what changes from minute to minute and a timing depends on: load, clocks, temperature."""
    now: dict[str, Any] = {}
    if hasattr(os, "getloadavg"):
        now["load_average_1min"] = round(os.getloadavg()[0], 2)
    if device == "cuda":
        return now | _gpu_conditions()
    megahertz = _processor_megahertz()
    return now if megahertz is None else now | {"cpu_mhz": megahertz}


def _processor_megahertz() -> float | None:
    """Return the mean clock of the processors, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    clocks = [float(line.split(":", 1)[1]) for line in lines if line.startswith("cpu MHz")]
    return round(sum(clocks) / len(clocks), 1) if clocks else None


def _gpu_conditions() -> dict[str, Any]:
    fields = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    device = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    try:
        told = subprocess.run([*query, f"--id=GPU-{device}"], capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return {}
    names = ("sm_mhz", "memory_mhz", "temperature_c", "power_w")
    return {name: _number(text) for name, text in zip(names, told.stdout.split(","), strict=False)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
