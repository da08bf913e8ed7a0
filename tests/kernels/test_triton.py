"""The Triton kernels without a GPU: the same source in Triton's interpreter, and compiled ahead of time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

triton = pytest.importorskip("triton")
ROOT = Path(__file__).resolve().parents[2]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


@pytest.mark.skipif(
    _release(triton.__version__) < (3, 7) and _release(numpy.__version__) >= (2, 4),
    reason="the interpreter of triton before 3.7 makes scalars of arrays, which numpy 2.4 refuses",
)
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
