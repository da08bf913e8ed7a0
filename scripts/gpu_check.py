"""Check the GPU kernels on the machine at hand: correctness, memory and speed, in at most eight minutes.

Needs only torch, triton, numpy, pytest and omegaconf. Writes results/published/gpu-<device>.json; without a CUDA device
it says so and exits 0.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NORM_TESTS = ("test_accuracy.py", "test_layouts.py", "test_special_rows.py", "test_properties.py", "test_operators.py")
TESTS = (
    *(f"tests/kernels/{name}" for name in NORM_TESTS),
    "tests/kernels/test_graphs.py",
    "tests/layers/interpreted_recurrent.py",
)
TEST_SECONDS, BENCH_SECONDS = 240, 180


def main() -> int:
    """Run all checks; exit 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "published", help="folder of the JSON file")
    out: Path = parser.parse_args().out
    import torch

    if not torch.cuda.is_available():
        print("gpu-check: no CUDA device is at hand; nothing was checked or measured")
        return 0
    sys.path.insert(0, str(ROOT))
    name = torch.cuda.get_device_name()
    report: dict[str, Any] = {"schema": 1, "device": name, "torch": torch.__version__, "started": time.time()}
    report["tests"] = run_tests()
    report["memory"] = [check_memory(torch.bfloat16, 8192, 4096), check_memory(torch.float32, 8192, 1024)]
    report["large"] = check_many_elements()
    report["norms"] = run_bench()
    report["seconds"] = round(time.time() - report.pop("started"), 1)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"gpu-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    failed = [key for key in ("tests", "large") if not report[key]["passed"]]
    failed += [f"memory {m['case']}" for m in report["memory"] if not m["passed"]]
    print(f"gpu-check: {'failed: ' + ', '.join(failed) if failed else 'passed'}; see {path}")
    return 1 if failed else 0


def run_tests() -> dict[str, Any]:
    """Run the kernel tests, which take the GPU where there is one."""
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    command += ["--confcutdir", "tests/kernels", *TESTS]  # other tests need more packages
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=_environment(), capture_output=True, text=True, timeout=TEST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"passed": False, "summary": f"not done after {TEST_SECONDS} s"}
    lines = done.stdout.strip().splitlines()
    print("\n".join(lines[-15:]))
    return {"passed": done.returncode == 0, "summary": lines[-1] if lines else done.stderr[-300:]}


def check_memory(dtype: Any, rows: int, n: int) -> dict[str, Any]:
    """Compare the peak memory of forward and backward with the tensors that must exist: y, dx and the statistics."""
    import torch

    from rmsrepro.norms.functional import rms_norm

    x = torch.randn(rows, n, device="cuda", dtype=dtype, requires_grad=True)
    gain = torch.ones(n, device="cuda", requires_grad=True)
    dy = torch.randn_like(x)
    torch.autograd.grad(rms_norm(x, gain, impl="fused"), (x, gain), dy)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    torch.autograd.grad(rms_norm(x, gain, impl="fused"), (x, gain), dy)
    taken = torch.cuda.max_memory_allocated() - before
    # Partial sums of the gain's gradient take 16384 floats per multiprocessor at most; the rest is rounding.
    partials = torch.cuda.get_device_properties(0).multi_processor_count * 16384 * 4
    allowed = 2 * x.nbytes + 4 * rows + partials + (1 << 22)
    case = f"{rows}x{n} {str(dtype).removeprefix('torch.')}"
    return {"case": case, "peak_bytes": taken, "allowed_bytes": allowed, "passed": taken <= allowed}


def check_many_elements() -> dict[str, Any]:
    """Normalise more than 2**31 elements, and two rows further apart than that."""
    import torch

    from rmsrepro.norms.functional import rms_norm

    rows, n, eps = (1 << 23) + 16, 256, 1e-5
    needed = 5 * rows * n * 2
    free, _ = torch.cuda.mem_get_info()
    if free < needed:
        return {"passed": True, "summary": f"left out: {needed >> 30} GiB are needed, {free >> 30} are free"}
    x = torch.zeros(rows, n, device="cuda", dtype=torch.bfloat16)
    x[-1] = 1
    x.requires_grad_()
    y = rms_norm(x, eps=eps, impl="fused")
    expected = torch.tensor(1 / math.sqrt(1 + eps), dtype=torch.bfloat16, device="cuda")
    right = bool((y[-1] == expected).all()) and not bool(y[:-1].any())
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
    right &= bool(dx[-1].isfinite().all()) and bool((dx[0] == dx[-2]).all())
    far = x.detach().view(-1).as_strided((2, n), ((rows - 1) * n, 1))
    right &= torch.equal(rms_norm(far, impl="fused"), rms_norm(far.contiguous(), impl="fused"))
    return {"passed": right, "summary": f"{rows}x{n} bfloat16"}


def run_bench() -> dict[str, Any]:
    """Time the norms on the device, as `python -m rmsrepro.bench norms --quick` does."""
    command = [sys.executable, "-m", "rmsrepro.bench", "norms", "--device", "cuda", "--quick"]
    target = ROOT / ".gpu_bench.json"
    command += ["--dtype", "bfloat16", "float32", "--json", str(target)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=_environment(), capture_output=True, text=True, timeout=BENCH_SECONDS, check=False
        )
        print(done.stdout[-6000:])
        return json.loads(target.read_text()) if done.returncode == 0 else {"error": done.stderr[-1000:]}
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {BENCH_SECONDS} s"}
    finally:
        target.unlink(missing_ok=True)


def _environment() -> dict[str, str]:

    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


if __name__ == "__main__":
    sys.exit(main())
