"""The Triton kernels without a GPU: the same source in Triton's interpreter, and compiled ahead of time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
ROOT = Path(__file__).resolve().parents[2]


def test_interpreted_kernels_agree_with_the_formulas() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/kernels/interpreted_triton.py"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [80, 90, 100])
def test_compiled_kernels_spill_no_registers(
    architecture: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmsrepro.kernels.triton import ahead_of_time

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    builds = [b for b in ahead_of_time.table((240, 8192)) if b.row == "fp32" or b.flags.get("CENTRE")]
    spilling = [b.name for b in builds if ahead_of_time.usage(b.compile(architecture)).spilled_bytes]
    assert spilling == []
