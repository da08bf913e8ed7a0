"""The CPU kernel of a linear map and its cross-entropy on tensors: allocation, and one foreign call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int64, c_void_p

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import library


class _Call(ctypes.Structure):
    """CrossEntropyCall of cross_entropy.h."""

    _fields_ = (
        ("rows", c_int64),
        ("depth", c_int64),
        ("classes", c_int64),
        *((name, c_void_p) for name in ("x", "weight", "bias", "targets", "row_weights")),
        ("wanted", c_float),
        *((name, c_void_p) for name in ("losses", "dx", "dweight", "dbias")),
    )


def linear_cross_entropy(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    row_weights: Tensor | None,
    wanted: float,
    wants: Sequence[bool],
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Return the losses [N] and the gradients of their weighted sum by x, weight and bias, where `wants` asks for them.

    A loss is the log of the sum of exponentials less `wanted` times the wanted class's logit. x [N, D], weight [V, D],
    bias [V], targets int64 [N], row_weights [N]. Raises IndexError for a target that is no class.
    """
    classes = len(weight)
    if len(targets):
        least, most = (int(end) for end in targets.aminmax())
        if least < 0 or most >= classes:
            raise IndexError(f"targets from {least} to {most} for {classes} classes")
    x, weight, targets = x.contiguous(), weight.contiguous(), targets.contiguous()
    bias = None if bias is None else bias.contiguous()
    row_weights = None if row_weights is None else row_weights.to(torch.float32).contiguous()
    losses = x.new_empty(len(x))
    dx = torch.empty_like(x) if wants[0] else None
    dweight = torch.zeros_like(weight) if wants[1] else None
    dbias = torch.zeros_like(bias) if wants[2] and bias is not None else None
    call = _Call(
        *(len(x), x.shape[1], classes, *map(_address, (x, weight, bias, targets, row_weights)), wanted),
        *map(_address, (losses, dx, dweight, dbias)),
    )
    assert library.library is not None, library.missing
    library.library.rr_linear_cross_entropy(ctypes.byref(call))
    return losses, dx, dweight, dbias


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
