"""The compiled CPU library: how it is built, found, done without, and told what processor to use."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rmsrepro.errors import ConfigError
from rmsrepro.kernels import allocator, choice
from rmsrepro.kernels.cpu import library
from rmsrepro.norms import functional

ROOT = Path(__file__).resolve().parents[2]
needs_library = pytest.mark.skipif(library.library is None, reason="the CPU kernels are not built here")


@needs_library
@pytest.mark.parametrize("name", ["portable", "avx2", "avx512"])
def test_every_instruction_set_gives_the_same_numbers(name: str) -> None:
    generator = torch.Generator().manual_seed(0)

    def results(dtype: torch.dtype, n: int) -> list[torch.Tensor]:
        x, dy = (torch.randn(37, n, generator=generator.manual_seed(i)).to(dtype) for i in (0, 1))
        leaves = [x.requires_grad_(), torch.ones(n).requires_grad_(), torch.zeros(n).requires_grad_()]
        y = functional.layer_norm(*leaves, impl="fused")
        z = functional.rms_norm(leaves[0], leaves[1], partial=0.3, impl="fused")
        return [y, z, *torch.autograd.grad(y, leaves, dy), *torch.autograd.grad(z, leaves[:2], dy)]

    if not library.use_instruction_set(name):
        pytest.skip(f"this processor has no {name}")
    try:
        ours = [results(dtype, n) for dtype in (torch.float32, torch.bfloat16) for n in (7, 240, 651)]
        assert library.instruction_set() == name
    finally:
        library.use_instruction_set(None)
    best = [results(dtype, n) for dtype in (torch.float32, torch.bfloat16) for n in (7, 240, 651)]
    for some, other in zip(ours, best, strict=True):
        for a, b in zip(some, other, strict=True):
            tolerance = 1e-5 if a.dtype == torch.float32 else 2e-2
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def run_in(code: str, source: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def unbuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package without its compiled library."""
    target = tmp_path_factory.mktemp("unbuilt")
    shutil.copytree(ROOT / "rmsrepro", target / "rmsrepro", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copytree(ROOT / "scripts", target / "scripts")
    return target


def test_without_the_library_norms_run_and_say_so_once(unbuilt: Path) -> None:
    code = (
        "import torch; from rmsrepro.norms.functional import rms_norm, explain\n"
        "x = torch.ones(2, 8)\n"
        "for p in (1.0, 0.5, 0.25): assert rms_norm(x, partial=p, eps=0.0).eq(1).all()\n"
        "print(explain('rms_norm', x)[0])"
    )
    done = run_in(code, unbuilt)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "torch"
    assert done.stderr.count("not built") == 1
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_the_library_asking_for_it_is_a_configuration_error(unbuilt: Path) -> None:
    code = (
        "import torch; from rmsrepro.norms.functional import rms_norm; from rmsrepro.errors import ConfigError\n"
        "try: rms_norm(torch.ones(2, 8), impl='fused')\n"
        "except ConfigError as error: print(error)"
    )
    done = run_in(code, unbuilt)
    assert "impl=fused" in done.stdout
    assert "build_kernels.py" in done.stdout


def test_a_build_without_a_compiler_says_one_line(unbuilt: Path) -> None:
    script = unbuilt / "scripts" / "build_kernels.py"
    environment = {"PATH": str(unbuilt)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no C++ compiler" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_library_of_other_sources_is_not_used(unbuilt: Path, tmp_path: Path) -> None:
    if library.library is None:
        pytest.skip("the CPU kernels are not built here")
    package = tmp_path / "rmsrepro"
    shutil.copytree(unbuilt / "rmsrepro", package)
    shutil.copy(ROOT / "rmsrepro" / "kernels" / "cpu" / "libkernels.so", package / "kernels" / "cpu")
    with (package / "kernels" / "cpu" / "norm.h").open("a") as header:
        header.write("// changed\n")
    done = run_in("from rmsrepro.kernels.cpu import library; print(library.missing)", tmp_path)
    assert "built from other sources" in done.stdout


@needs_library
def test_auto_says_what_it_takes_and_why() -> None:
    rows = torch.empty(64, 240, device="meta")
    assert functional.explain("rms_norm", rows)[0] == "fused"
    assert functional.explain("layer_norm", rows.half(), rows[0].half()) == (
        "torch",
        "no fused kernel: there is none for float16 on cpu",
    )
    impl, reason = functional.explain("rms_norm", rows.double(), partial=0.5)
    assert impl == "composed"
    assert "partial" in reason
    assert functional.explain("rms_norm", rows.bfloat16(), rows[0])[0] == "fused"
    impl, reason = functional.explain("rms_norm", rows.bfloat16(), cast_before_gain=True)
    assert impl == "composed"
    assert "rounding before the gain" in reason


def test_fused_refuses_what_it_cannot_do_by_name() -> None:
    with pytest.raises(ConfigError, match=r"impl=fused.*L2 norm"):
        functional.l2_norm(torch.ones(2, 8), impl="fused")
    with pytest.raises(ConfigError, match=r"impl=quick: allowed are auto"):
        functional.rms_norm(torch.ones(2, 8), impl="quick")


def test_the_choice_knows_no_kernels_for_other_devices() -> None:
    assert choice.backend("mps") is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="an option of glibc")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="only glibc 2.33 and newer can be asked")
def test_large_blocks_are_kept_when_asked_for() -> None:
    fields = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    code = (
        "import ctypes, torch; from rmsrepro.kernels.allocator import keep_large_blocks\n"
        "class Info(ctypes.Structure):\n"
        f"    _fields_ = [(name, ctypes.c_size_t) for name in {fields!r}.split()]\n"
        "mallinfo2 = ctypes.CDLL(None).mallinfo2; mallinfo2.restype = Info\n"
        "assert keep_large_blocks()\n"
        "mapped = mallinfo2().hblks\n"
        "block = torch.empty(16 << 20).fill_(1.0); mapped = mallinfo2().hblks - mapped\n"
        "del block; print(mapped, mallinfo2().fordblks)"
    )
    done = run_in(code, ROOT)
    assert done.returncode == 0, done.stderr
    mapped, free_bytes = map(int, done.stdout.split())
    assert mapped == 0, "64 MiB come from the heap and not from a mapping of their own"
    assert free_bytes >= 64 << 20, "and stay in the process when they are freed"


def test_allocator_is_harmless_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert allocator.keep_large_blocks() is False
