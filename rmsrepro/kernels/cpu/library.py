"""The compiled CPU kernels: found, checked and given torch's threads when this module is imported."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
from ctypes import c_char_p, c_int32, c_int64, c_void_p
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_REBUILD = "install a C++ compiler and reinstall the package (in a source tree: python scripts/build_kernels.py)"

#: The kernels, or None; `missing` then says why and what to do.
library: ctypes.CDLL | None = None
missing: str = ""


def _load() -> ctypes.CDLL:
    path = _HERE / "libkernels.so"
    if not path.is_file():
        raise OSError(f"the CPU kernels are not built; {_REBUILD}")
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise OSError(f"the CPU kernels cannot be loaded ({error}); {_REBUILD}") from error
    loaded.rr_source_hash.restype = c_char_p
    if loaded.rr_source_hash().decode() != _source_hash():
        raise OSError(f"the CPU kernels were built from other sources than these; {_REBUILD}")
    loaded.rr_instruction_set.restype = c_char_p
    loaded.rr_use_instruction_set.argtypes = [c_char_p]
    loaded.rr_use_instruction_set.restype = c_int32
    parallel_for = _torch_parallel_for()
    if parallel_for:
        loaded.rr_set_parallel(c_void_p(parallel_for))
    # spec, rows, x, x_stride, residual, residual_stride, gain, bias, y, sum, stat
    loaded.rr_norm_forward.argtypes = [c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_int64] + [c_void_p] * 5
    loaded.rr_norm_forward.restype = None
    # spec, rows, dy, dy_stride, dsum, dsum_stride, x, x_stride, gain, stat, dx, dgain, dbias
    loaded.rr_norm_backward.argtypes = [c_void_p, c_int64] + [c_void_p, c_int64] * 3 + [c_void_p] * 5
    loaded.rr_norm_backward.restype = None
    loaded.rr_packed_floats.restype = loaded.rr_packed_bfloat16_bytes.restype = c_int64
    loaded.rr_has_bfloat16_product.restype = c_int32
    return loaded


def _source_hash() -> str:
    """Return the digest that the build put into the library (see scripts/build_kernels.py)."""
    digest = hashlib.sha256()
    for source in sorted([*_HERE.glob("*.cpp"), *_HERE.glob("*.h")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _torch_parallel_for() -> int | None:
    """Return the address of torch's parallel_for: its thread pool serves our kernels too."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib"):
        path = Path(spec.submodule_search_locations[0]) / "lib" / name
        if path.is_file():
            try:
                return ctypes.cast(ctypes.CDLL(str(path)).torch_parallel_for, c_void_p).value
            except (OSError, AttributeError):
                return None
    return None


def instruction_set() -> str:
    """Name the kernels in use: avx512, avx2 or portable."""
    assert library is not None, missing
    return library.rr_instruction_set().decode().removeprefix("norm_")


def use_instruction_set(name: str | None) -> bool:
    """Use the kernels of this name (None: the best there are) and say whether the processor has them.

    Weights that were packed before (`panels.py`) are for the kernels of that time: pack them again.
    """
    assert library is not None, missing
    return bool(library.rr_use_instruction_set(name.encode() and f"norm_{name}".encode() if name else None))


try:
    library = _load()
except OSError as error:
    missing = str(error)
