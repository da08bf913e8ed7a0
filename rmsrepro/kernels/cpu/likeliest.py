"""The CPU kernel of the likeliest classes on tensors: allocation, and one foreign call."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import library


class _Call(ctypes.Structure):
    """LikeliestCall of likeliest.h."""

    _fields_ = (
        ("rows", c_int64),
        ("depth", c_int64),
        ("classes", c_int64),
        *((name, c_void_p) for name in ("x", "panels", "bias")),
        ("count", c_int64),
        ("forbidden_count", c_int64),
        ("forbidden", c_void_p),
        ("asked", c_int64),
        *((name, c_void_p) for name in ("log_probs", "ids", "asked_log_probs")),
        ("bfloat16", c_int64),
    )


def likeliest(
    x: Tensor, panels: Tensor, classes: int, bias: Tensor | None, count: int, forbidden: Tensor, asked: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities [N, n] and classes [N, n] of the likeliest, and the log-probability [N] of `asked`.

    x [N, D]; `panels`, the packed weight of all `classes`, in the type of the product; bias [V]; `forbidden` int64.
    Where fewer than `count` classes are left, the last columns are -inf, of class 0.
    """
    assert library.library is not None, library.missing
    rows, depth = x.shape
    x, forbidden = x.contiguous(), forbidden.contiguous()
    bias = None if bias is None else bias.contiguous()
    log_probs, ids = x.new_empty(rows, count), x.new_empty(rows, count, dtype=torch.int64)
    asked_log_probs = x.new_empty(rows)
    call = _Call(
        *(rows, depth, classes, x.data_ptr(), panels.data_ptr(), None if bias is None else bias.data_ptr()),
        *(count, len(forbidden), forbidden.data_ptr(), asked),
        *(log_probs.data_ptr(), ids.data_ptr(), asked_log_probs.data_ptr()),
        panels.dtype == torch.bfloat16,
    )
    library.library.rr_likeliest(ctypes.byref(call))
    return log_probs, ids, asked_log_probs
