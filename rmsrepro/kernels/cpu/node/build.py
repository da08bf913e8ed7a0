"""Build the C++ autograd node against the installed torch: `python -m rmsrepro.kernels.cpu.node.build` (half a minute).

Needs a C++20 compiler and Python's headers. Small norms are faster with it, large ones the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import torch

from rmsrepro.kernels.cpu import library, node


def main() -> int:
    """Build beside the source; exit 1 with one line when that is not possible."""
    compilers = (os.environ.get("CXX", ""), "c++", "g++", "clang++")
    compiler = next((c.split() for c in compilers if c and shutil.which(c.split()[0])), None)
    if compiler is None:
        return _fail("no C++ compiler was found ($CXX, c++, g++, clang++)")
    if library.library is None:
        return _fail(library.missing)
    target = node.SOURCE.with_name(f"_node{sysconfig.get_config_var('EXT_SUFFIX')}")
    linked = target.with_name(f".{target.name}.{os.getpid()}")
    libraries = Path(torch.__file__).parent / "lib"
    command = [
        *(*compiler, "-std=c++20", "-O2", "-shared", "-fPIC", f'-DRR_BUILT_FOR="{node.built_for()}"'),
        *(f"-I{path}" for path in [*_torch_headers(), sysconfig.get_paths()["include"]]),
        *(str(node.SOURCE), "-o", str(linked), f"-L{libraries}", "-ltorch_python", "-ltorch_cpu", "-lc10"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            output = done.stderr.splitlines() or ["no message"]
            return _fail(next((line for line in output if "error" in line), output[0]).strip())
        linked.replace(target)
    except OSError as error:
        return _fail(str(error))
    finally:
        linked.unlink(missing_ok=True)
    print(f"rmsrepro: built {target.name} for {node.built_for()}")
    return 0


def _torch_headers() -> list[Path]:
    include = Path(torch.__file__).parent / "include"
    return [include, include / "torch" / "csrc" / "api" / "include"]


def _fail(reason: str) -> int:
    print(
        f"rmsrepro: the autograd node was not built: {reason}; norms record their gradients in Python", file=sys.stderr
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
