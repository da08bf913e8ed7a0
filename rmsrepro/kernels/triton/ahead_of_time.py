"""Compile the Triton kernels for GPUs that are not there, and read registers and spills off the result.

`python -m rmsrepro.kernels.triton.ahead_of_time` goes through the whole heuristic table for sm_80, sm_90 and sm_100,
with the compiler and cuobjdump inside the triton package: no GPU and no CUDA installation is needed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton
import triton.backends.nvidia as nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from rmsrepro.kernels.triton import heuristics as h
from rmsrepro.kernels.triton.backward import backward_columns, backward_rows, backward_stream, finish
from rmsrepro.kernels.triton.forward import forward_rows, forward_stream

ARCHITECTURES = (80, 90, 100)
ROW_LENGTHS = (16, 64, 240, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True)
class Build:
    """One kernel with fixed flags: what the launcher would compile for a row length and types."""

    kernel: Any
    flags: dict[str, Any] = field(hash=False)
    warps: int
    row: str = "bf16"
    gain: str = "fp32"
    absent: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the kernel and its flags in one line."""
        flags = " ".join(f"{k}={v}" for k, v in self.flags.items() if v)
        return f"{self.kernel.__name__} rows={self.row} gain={self.gain} warps={self.warps} {flags}"

    def compile(self, architecture: int) -> bytes:
        """Return the machine code for sm_<architecture>."""
        float32 = {"stat_ptr", "partials_ptr"} | (
            {"dgain_ptr", "dbias_ptr"} if "backward" in self.kernel.__name__ else set()
        )
        constants = {**self.flags, **dict.fromkeys(self.absent)}
        signature, aligned = {}, {}
        for position, name in enumerate(self.kernel.arg_names):
            if name in constants:
                signature[name] = "constexpr"
            elif name.endswith("_ptr"):
                kind = "fp32" if name in float32 else self.gain if name in ("gain_ptr", "bias_ptr") else self.row
                signature[name] = f"*{kind}"
                aligned[(position,)] = [["tt.divisibility", 16]]
            elif name in ("eps", "gain_offset"):
                signature[name] = "fp32"
            else:
                signature[name] = "i32"
                if name == "n" or name.endswith("stride"):
                    aligned[(position,)] = [["tt.divisibility", 16]]
        source = ASTSource(self.kernel, signature, constants, aligned)
        target = GPUTarget("cuda", architecture, 32)
        return triton.compile(source, target=target, options={"num_warps": self.warps}).asm["cubin"]


@dataclass(frozen=True)
class Usage:
    """What a kernel takes per thread: registers, and bytes of local memory, which are spills."""

    registers: int
    spilled_bytes: int


def usage(cubin: bytes) -> Usage:
    """Read a kernel's resources with the cuobjdump that triton ships."""
    tool = Path(nvidia.__file__).parent / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        text = subprocess.run([str(tool), "-res-usage", str(path)], capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+) .*?LOCAL:(\d+)", text)
    if found is None:
        raise RuntimeError(f"no resource usage in cuobjdump's answer: {text.strip()[:200]}")
    registers, stack, local = map(int, found.groups())
    return Usage(registers, stack + local)


def table(lengths: tuple[int, ...] = ROW_LENGTHS) -> Iterator[Build]:
    """Yield the heaviest builds of the heuristic table: every row length and type, with all inputs and gradients."""
    for row, gain in (("bf16", "fp32"), ("fp32", "fp32")):
        for centre, partial in ((True, False), (False, False), (False, True)):
            formula = {"CENTRE": centre, "EPS_OUTSIDE": False, "HAS_GAIN": True}
            forward = {**formula, "PARTIAL": partial, "HAS_RESIDUAL": True, "HAS_BIAS": True}
            backward = {**formula, "HAS_DSUM": True}
            wants = {"WANT_GAIN": True, "WANT_BIAS": True}
            for n in lengths:
                if n <= h.FORWARD_ROW_LIMIT:
                    tile = h.forward_tile(n)
                    yield Build(
                        forward_rows, {**forward, "ROWS": tile.rows, "BLOCK": tile.block}, tile.warps, row, gain
                    )
                if n <= h.BACKWARD_ROW_LIMIT:
                    tile = h.backward_tile(n)
                    shape = {"PARTIAL": partial, "WANT_X": True, "ROWS": tile.rows, "BLOCK": tile.block}
                    yield Build(backward_rows, {**backward, **wants, **shape}, tile.warps, row, gain)
            yield Build(forward_stream, {**forward, "BLOCK": h.STREAM_BLOCK}, 8, row, gain)
            yield Build(backward_stream, {**backward, "BLOCK": h.STREAM_BLOCK}, 8, row, gain)
            columns = {"CENTRE": centre, **wants, "ROWS": h.COLUMN_ROWS, "BLOCK": h.COLUMN_TILE}
            yield Build(backward_columns, columns, 4, row, gain)
        yield Build(finish, {"ROWS": h.FINISH_ROWS, "BLOCK": h.FINISH_COLUMNS}, 4, row, gain)


def main() -> int:
    """Compile the whole table and print every build; exit 1 if one spills."""
    spilled = 0
    for build in table():
        for architecture in ARCHITECTURES:
            used = usage(build.compile(architecture))
            spilled += used.spilled_bytes > 0
            print(f"sm_{architecture} {used.registers:3d} registers, {used.spilled_bytes} bytes spilled: {build.name}")
    print(f"{spilled} builds spill")
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main())
