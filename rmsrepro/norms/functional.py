"""Normalisation as functions: one signature for every implementation.

`impl` is `composed` (torch operations one by one), `torch` (the stock fused operation where torch has one),
`fused` (this project's kernels) or `auto` (the fastest that is available and correct for the input).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rmsrepro.errors import ConfigError
from rmsrepro.norms import composed
from rmsrepro.norms.config import partial_size


def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    partial: float = 1.0,
    impl: str = "auto",
    *,
    eps_placement: str = "inside",
    rounding: str = "ceil",
    compute_dtype: str = "auto",
    gain_offset: float = 0.0,
    cast_before_gain: bool = False,
) -> Tensor:
    """Divide every row of `x` [..., n] by the root mean square of its first ceil(n * partial) elements.

    `weight` and `bias` are [n]; the output has the shape and type of `x`.
    Source: paper equation 4, and section 5 for `partial`.
    """
    k = partial_size(x.shape[-1], partial, rounding)
    plain = not cast_before_gain and compute_dtype == "auto"
    impl = choose_impl("rms_norm", impl)
    if impl == "torch" and plain and k == x.shape[-1] and eps_placement == "inside" and not _may_overflow(x):
        gain = weight if weight is None or not gain_offset else weight + gain_offset
        a, gain, bias = _one_type(x, gain, bias)
        y = F.rms_norm(a, x.shape[-1:], gain, eps)
        return (y if bias is None else y + bias).to(x.dtype)
    a = x.to(composed.compute_type(x, compute_dtype))
    y = composed.rms_rows(a, eps, k, eps_placement)
    return composed.affine(y, weight, bias, x.dtype, gain_offset=gain_offset, cast_before_gain=cast_before_gain)


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    impl: str = "auto",
    *,
    eps_placement: str = "inside",
    compute_dtype: str = "auto",
    gain_offset: float = 0.0,
    cast_before_gain: bool = False,
) -> Tensor:
    """Centre every row of `x` [..., n] and divide it by its standard deviation.

    `weight` and `bias` are [n]; the output has the shape and type of `x`. Source: Ba et al. 2016, equation 3.
    """
    plain = not cast_before_gain and compute_dtype == "auto" and not gain_offset
    impl = choose_impl("layer_norm", impl)
    if impl == "torch" and plain and eps_placement == "inside" and not _may_overflow(x):
        a, weight, bias = _one_type(x, weight, bias)
        return F.layer_norm(a, x.shape[-1:], weight, bias, eps).to(x.dtype)
    a = x.to(composed.compute_type(x, compute_dtype))
    y = composed.layer_rows(a, eps, eps_placement)
    return composed.affine(y, weight, bias, x.dtype, gain_offset=gain_offset, cast_before_gain=cast_before_gain)


def l2_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    impl: str = "auto",
    *,
    eps_placement: str = "inside",
    compute_dtype: str = "auto",
    gain_offset: float = 0.0,
    cast_before_gain: bool = False,
) -> Tensor:
    """Divide every row of `x` [..., n] by its L2 norm (the paper's L2-Norm, Table 2).

    `weight` and `bias` are [n]; the output has the shape and type of `x`. Torch has no stock operation with this
    placement of eps, so every implementation is the composed one.
    """
    choose_impl("l2_norm", impl)
    a = x.to(composed.compute_type(x, compute_dtype))
    y = composed.l2_rows(a, eps, eps_placement)
    return composed.affine(y, weight, bias, x.dtype, gain_offset=gain_offset, cast_before_gain=cast_before_gain)


def choose_impl(op: str, impl: str) -> str:
    """Return the implementation that runs for `op` when `impl` is asked for."""
    if impl in ("auto", "compile"):
        return "torch"
    if impl in ("composed", "torch"):
        return impl
    if impl == "fused":
        raise ConfigError(f"impl=fused: no fused kernel is installed for {op}; use impl=auto, torch or composed")
    raise ConfigError(f"impl={impl}: allowed are auto, composed, torch, fused, compile")


def _one_type(x: Tensor, *parameters: Tensor | None) -> tuple[Any, ...]:
    """Widen all to the widest type among them, so that a stock operation rounds once, at the end."""
    widest = x.dtype
    for parameter in parameters:
        widest = widest if parameter is None else torch.promote_types(widest, parameter.dtype)
    return x.to(widest), *(None if p is None else p.to(widest) for p in parameters)


def _may_overflow(x: Tensor) -> bool:
    """Say whether squares of `x` could overflow where the stock operation would then answer zeros.

    Only asked where the answer is at hand without waiting for a device, and never while compiling.
    """
    if x.device.type != "cpu" or x.dtype != torch.float32 or x.numel() == 0 or torch.compiler.is_compiling():
        return False
    limit = (torch.finfo(torch.float32).max / x.shape[-1]) ** 0.5
    return torch.linalg.vector_norm(x.detach(), ord=torch.inf).item() > limit
