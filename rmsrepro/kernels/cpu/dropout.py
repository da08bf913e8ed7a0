"""The CPU kernel of dropout on tensors: allocation, and one foreign call."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_uint64, c_void_p

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import library

#: Rates are multiples of one over this.
LEVELS = 1 << 16


class _Call(ctypes.Structure):
    """DropoutCall of dropout.h."""

    _fields_ = (
        ("n", c_int64),
        ("is_bfloat16", c_int64),
        ("x", c_void_p),
        ("y", c_void_p),
        ("seed", c_uint64),
        ("dropped", c_int64),
        ("scale", c_float),
    )


def dropout(x: Tensor, seed: int, dropped: int, scale: float) -> Tensor:
    """Return x times `scale`, but `dropped` of LEVELS elements times zero; which ones, `seed` and their places say.

    x: float32 or bfloat16, of any shape; the result is contiguous. seed: 64 bits.
    """
    x = x.contiguous()
    y = torch.empty_like(x)
    call = _Call(x.numel(), x.dtype == torch.bfloat16, x.data_ptr(), y.data_ptr(), seed, dropped, scale)
    assert library.library is not None, library.missing
    library.library.rr_dropout(ctypes.byref(call))
    return y
