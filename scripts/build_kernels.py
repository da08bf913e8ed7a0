"""Compile the CPU kernels: run as a script for a source tree, or by pip through hatchling's build hook.

Only a C++17 compiler is needed, no headers of Python or torch. Without one the package installs all the same.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "rmsrepro" / "kernels" / "cpu"
LIBRARY = "libkernels.so"
# No optimisation that changes results: a * b + c may be fused, sums keep their order, NaN and infinities count.
FLAGS = [
    *("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-math-errno"),
    *("-ffp-contract=fast", "-Wall", "-Wno-psabi", "-Wno-unknown-pragmas"),
]
X86_SETS = {"avx2": "-march=x86-64-v3", "avx512": "-march=x86-64-v4 -mprefer-vector-width=512"}


class BuildError(Exception):
    """The kernels could not be compiled; the text says why in one line."""


def build(target: Path) -> None:
    """Compile the library to `target`, replacing it only when every step went well."""
    compiler = find_compiler()
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    common = [*FLAGS, f'-DRR_SOURCE_HASH="{source_hash()}"', *(["-DRR_X86"] if is_x86 else [])]
    with tempfile.TemporaryDirectory() as scratch:
        jobs: list[tuple[str, list[str]]] = []
        for source in sorted(SOURCES.glob("*.cpp")):
            if source.name == "library.cpp":
                jobs.append((source.name, []))
                continue
            for name, flags in {"portable": "", **(X86_SETS if is_x86 else {})}.items():
                jobs.append((source.name, [f"-DRR_KERNELS={source.stem}_{name}", *flags.split()]))
        objects = [Path(scratch) / f"{i}.o" for i in range(len(jobs))]
        commands = [
            [*compiler, *common, *flags, "-c", str(SOURCES / name), "-o", str(out)]
            for (name, flags), out in zip(jobs, objects, strict=True)
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_run, commands))
        linked = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            _run([*compiler, "-shared", *map(str, objects), "-o", str(linked)])
            linked.replace(target)
        finally:
            linked.unlink(missing_ok=True)


def find_compiler() -> list[str]:
    """Return the command of the first C++ compiler that is there: $CXX, c++, g++ or clang++."""
    for command in (os.environ.get("CXX", "").split(), ["c++"], ["g++"], ["clang++"]):
        if command and shutil.which(command[0]):
            return command
    raise BuildError("no C++ compiler was found ($CXX, c++, g++, clang++)")


def source_hash() -> str:
    """Return a digest of the sources, which tells a library from one built of older sources."""
    digest = hashlib.sha256()
    for source in sorted([*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stderr + done.stdout).splitlines() or ["no message"]
        told = next((line for line in output if "error" in line), output[0])
        raise BuildError(f"{Path(command[0]).name} failed: {told.strip()}")


def build_or_explain() -> bool:
    """Build in the source tree; on failure print one line and go on."""
    try:
        build(SOURCES / LIBRARY)
    except (BuildError, OSError) as error:
        print(
            f"rmsrepro: CPU kernels were not built: {error}; norms will use torch's own operations"
            " (after installing a C++ compiler, run: python scripts/build_kernels.py)",
            file=sys.stderr,
        )
        return False
    return True


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:
    pass
else:

    class KernelBuildHook(BuildHookInterface):
        """Puts the compiled library into wheels, editable ones included; a wheel without it stays pure."""

        PLUGIN_NAME = "custom"

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Compile before the files of the wheel are collected."""
            if self.target_name != "wheel" or not build_or_explain():
                return
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["artifacts"].append(f"/rmsrepro/kernels/cpu/{LIBRARY}")


def build_node() -> None:
    """Build the optional autograd node too where torch is at hand, which it is not in pip's build environment."""
    if importlib.util.find_spec("torch"):
        subprocess.run([sys.executable, "-m", "rmsrepro.kernels.cpu.node.build"], cwd=ROOT, check=False)


if __name__ == "__main__":
    if not build_or_explain():
        sys.exit(1)
    build_node()
