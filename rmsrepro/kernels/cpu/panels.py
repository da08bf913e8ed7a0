"""Weights in the order in which the CPU kernels' products read them, packed once for many calls."""

from __future__ import annotations

from ctypes import CDLL, c_int64, c_void_p

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import library


def pack(weight: Tensor) -> Tensor:
    """Return weight [n, k], float32, as the kernels in use read it where they multiply by its transpose."""
    kernels, (rows, depth) = _kernels(), (c_int64(size) for size in weight.shape)
    weight, panels = weight.detach().contiguous(), weight.new_empty(kernels.rr_packed_floats(rows, depth))
    kernels.rr_pack(c_void_p(weight.data_ptr()), rows, depth, c_void_p(panels.data_ptr()))
    return panels


def has_bfloat16_product() -> bool:
    """Say whether the kernels in use multiply in bfloat16."""
    return library.library is not None and bool(library.library.rr_has_bfloat16_product())


def pack_bfloat16(weight: Tensor) -> Tensor:
    """Return weight [n, k], float32, rounded to bfloat16 and packed for products in it."""
    kernels, (rows, depth) = _kernels(), (c_int64(size) for size in weight.shape)
    bytes_ = kernels.rr_packed_bfloat16_bytes(rows, depth)
    weight, panels = weight.detach().contiguous(), weight.new_empty(bytes_ // 2, dtype=torch.bfloat16)
    kernels.rr_pack_bfloat16(c_void_p(weight.data_ptr()), rows, depth, c_void_p(panels.data_ptr()))
    return panels


def _kernels() -> CDLL:
    assert library.library is not None, library.missing
    return library.library
