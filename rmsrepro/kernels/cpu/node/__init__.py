"""The optional C++ autograd node of the CPU norms: loaded when it was built for this torch, Python and source.

Small norms spend most of their time in Python's autograd functions; `python -m rmsrepro.kernels.cpu.node.build` makes
the node that does without. Nothing else depends on it.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import sys
from pathlib import Path
from typing import Any

import torch

from rmsrepro.kernels.cpu import library

SOURCE = Path(__file__).with_name("node.cpp")


def built_for() -> str:
    """Return what a node must be built for to be used: versions and the digest of its source."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    return f"torch {torch.__version__}, python {sys.version_info.major}.{sys.version_info.minor}, source {digest}"


def _load() -> Any:
    if library.library is None:
        return None
    try:
        module: Any = importlib.import_module("rmsrepro.kernels.cpu.node._node")
    except ImportError:
        return None
    if module.built_for != built_for():
        return None
    kernels = (library.library.rr_norm_forward, library.library.rr_norm_backward)
    module.use_kernels(*(ctypes.cast(kernel, ctypes.c_void_p).value for kernel in kernels))
    return module.norm


#: norm(x, gain, bias, spec address, plan address, numbers per row) -> y, or None where no node was built.
norm: Any = _load()
