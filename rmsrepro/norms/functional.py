"""Normalisation as functions: one signature for every implementation.

`impl` is `composed` (torch operations one by one), `torch` (the stock fused operation where torch has one),
`fused` (this project's kernels), `compile` (operations for torch.compile to fuse) or `auto` (the fastest that is
available and correct for the input); `explain` says what is taken and why.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

from rmsrepro.kernels import choice, ops
from rmsrepro.kernels.autograd import FusedAddNorm
from rmsrepro.kernels.choice import Decision, Request
from rmsrepro.kernels.spec import NormSpec
from rmsrepro.kernels.watched import is_watched
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
    formula = Formula("rms_norm", eps, partial, rounding, eps_placement, compute_dtype, gain_offset, cast_before_gain)
    return _normalise(formula, impl, x, weight, bias)


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
    formula = Formula("layer_norm", eps, 1.0, "ceil", eps_placement, compute_dtype, gain_offset, cast_before_gain)
    return _normalise(formula, impl, x, weight, bias)


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

    `weight` and `bias` are [n]; the output has the shape and type of `x`. Neither torch nor the kernels have this
    placement of eps, so every implementation is the composed one.
    """
    formula = Formula("l2_norm", eps, 1.0, "ceil", eps_placement, compute_dtype, gain_offset, cast_before_gain)
    return _normalise(formula, impl, x, weight, bias)


def add_rms_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    partial: float = 1.0,
    impl: str = "auto",
    *,
    gain_offset: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return (rms_norm(x + residual), x + residual), in one pass where the kernels serve; both are [..., n]."""
    formula = Formula("rms_norm", eps, partial, gain_offset=gain_offset)
    return _add_normalise(formula, impl, x, residual, weight, bias)


def add_layer_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    impl: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Return (layer_norm(x + residual), x + residual), in one pass where the kernels serve; both are [..., n]."""
    return _add_normalise(Formula("layer_norm", eps), impl, x, residual, weight, bias)


class Formula(NamedTuple):
    """All that defines a norm beside its tensors; the fields are those of NormConfig."""

    op: str
    eps: float = 1e-5
    partial: float = 1.0
    rounding: str = "ceil"
    eps_placement: str = "inside"
    compute_dtype: str = "auto"
    gain_offset: float = 0.0
    cast_before_gain: bool = False

    def spec(self, n: int) -> NormSpec:
        """Return the formula for rows of `n` elements in the kernels' words."""
        k = partial_size(n, self.partial, self.rounding)
        return NormSpec(self.op == "layer_norm", k, self.eps, self.eps_placement == "outside", self.gain_offset)

    def special(self, n: int, row: torch.dtype) -> str:
        """Say what only the composed operations do; empty for most."""
        automatic = torch.float64 if row == torch.float64 else torch.float32
        if self.compute_dtype != "auto" and self.compute_dtype != str(automatic).removeprefix("torch."):
            return f"statistics in {self.compute_dtype} of {str(row).removeprefix('torch.')} rows"
        if self.cast_before_gain and row != automatic:
            return "rounding before the gain"
        return "" if n else "rows without elements"


def explain(
    op: str,
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    impl: str = "auto",
    *,
    device: str = "cpu",
    **fields: Any,
) -> tuple[str, str]:
    """Return (implementation, reason) for `op` on tensors like these; for meta tensors, on `device`.

    `fields` are those of the function called `op`: eps, partial, eps_placement and so on.
    """
    device = device if x.device.type == "meta" else x.device.type
    decision = _decide(
        Formula(op, **fields),
        impl,
        device,
        x.numel() >= choice.GPU_FUSED_FROM,
        x.shape[-1],
        x.dtype,
        None if weight is None else weight.dtype,
        None if bias is None else bias.dtype,
    )
    return decision.impl, decision.reason


def _normalise(formula: Formula, impl: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if not _is_eager(x):
        return _normalise_traced(formula, impl, x, weight, bias)
    decision = _decide_for(formula, impl, x, weight, bias)
    plan = decision.plan
    if plan is None:
        return _without_kernels(decision.impl, formula, x, weight, bias)
    weight, bias = _as_vector("weight", weight, x), _as_vector("bias", bias, x)
    if not torch.is_grad_enabled():
        return plan.forward(x, weight, bias)[0]
    return plan(x, weight, bias)


def _add_normalise(
    formula: Formula, impl: str, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    if _is_eager(x) and _is_eager(residual) and x.shape == residual.shape and x.dtype == residual.dtype:
        plan = _decide_for(formula, impl, x, weight, bias).plan
        if plan is not None:
            return FusedAddNorm.apply(x, residual, _as_vector("weight", weight, x), _as_vector("bias", bias, x), plan)
    added = x + residual
    return _normalise(formula, impl, added, weight, bias), added


def _normalise_traced(formula: Formula, impl: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Normalise under torch.compile, where the kernels are an operator, or under vmap and the like, where they are not.

    Stock operations are left to the compiler as composed ones: it fuses both alike, and these flag overflown rows.
    """
    if torch.compiler.is_compiling():
        types = (x.dtype, None if weight is None else weight.dtype, None if bias is None else bias.dtype)
        if _impl_in_graph(impl, x.device.type, x.shape[-1], *types, *formula) == "fused":
            return ops.norm(x, weight, bias, formula.spec(x.shape[-1]))
    return _without_kernels("composed", formula, x, weight, bias)


@torch.compiler.assume_constant_result
def _impl_in_graph(
    impl: str, device: str, n: int, row: torch.dtype, gain: torch.dtype | None, bias: torch.dtype | None, *formula: Any
) -> str:
    decision = _decide(Formula(*formula), impl, device, True, n, row, gain, bias)
    # On a GPU the compiler's own kernel is as good, and can be fused with what stands around it.
    return "composed" if device != "cpu" and impl == "auto" else decision.impl


def _is_eager(x: Tensor) -> bool:
    """Say whether `x` is a plain tensor that is computed now: memory, for the kernels to read."""
    return not (torch.compiler.is_compiling() or is_watched() or type(x) not in (Tensor, Parameter))


def _decide_for(formula: Formula, impl: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Decision:
    on_cpu = x.is_cpu  # much cheaper to ask for than the device's type
    return _decide(
        formula,
        impl,
        "cpu" if on_cpu else x.device.type,
        not on_cpu and x.numel() >= choice.GPU_FUSED_FROM,
        x.shape[-1],
        x.dtype,
        None if weight is None else weight.dtype,
        None if bias is None else bias.dtype,
    )


@cache
def _decide(
    formula: Formula,
    impl: str,
    device: str,
    large: bool,
    n: int,
    row: torch.dtype,
    gain: torch.dtype | None,
    bias: torch.dtype | None,
) -> Decision:
    special = formula.special(n, row)
    return choice.decide(Request(formula.op, impl, formula.spec(n), n, special, device, large, row, gain, bias))


def _as_vector(name: str, vector: Tensor | None, x: Tensor) -> Tensor | None:
    """Return a gain or shift as the kernels read it, refusing what would read past its end."""
    if vector is None:
        return None
    if vector.numel() != x.shape[-1] or vector.is_cpu != x.is_cpu:
        raise ValueError(
            f"{name} is {list(vector.shape)} on {vector.device};"
            f" x {list(x.shape)} on {x.device} needs [{x.shape[-1]}] there"
        )
    return vector if vector.is_contiguous() else vector.contiguous()


def _without_kernels(impl: str, formula: Formula, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    n = x.shape[-1]
    if impl == "torch" and not _may_overflow(x):
        return _stock(formula, x, weight, bias)
    a = x.to(composed.compute_type(x, formula.compute_dtype))
    if formula.op == "rms_norm":
        k = partial_size(n, formula.partial, formula.rounding)
        y = composed.rms_rows(a, formula.eps, k, formula.eps_placement)
    elif formula.op == "layer_norm":
        y = composed.layer_rows(a, formula.eps, formula.eps_placement)
    else:
        y = composed.l2_rows(a, formula.eps, formula.eps_placement)
    return composed.affine(
        y, weight, bias, x.dtype, gain_offset=formula.gain_offset, cast_before_gain=formula.cast_before_gain
    )


def _stock(formula: Formula, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    shape, eps = x.shape[-1:], formula.eps
    gain = weight if weight is None or not formula.gain_offset else weight + formula.gain_offset
    a, gain, bias = _one_type(x, gain, bias)
    if formula.op == "layer_norm":
        return F.layer_norm(a, shape, gain, bias, eps).to(x.dtype)
    y = F.rms_norm(a, shape, gain, eps)
    return (y if bias is None else y + bias).to(x.dtype)


def _one_type(x: Tensor, *parameters: Tensor | None) -> tuple[Any, ...]:
    """Widen all to the widest type among them, so that a stock operation rounds once, at the end."""
    widest = x.dtype
    for parameter in parameters:
        widest = widest if parameter is None else torch.promote_types(widest, parameter.dtype)
    return x.to(widest), *(None if p is None else p.to(widest) for p in parameters)


def _may_overflow(x: Tensor) -> bool:
    """Say whether squares of `x` could overflow where the stock operation would then answer zeros.

    Only asked where the answer is at hand without waiting for a device; the composed operations flag such rows.
    """
    if not x.is_cpu or x.dtype != torch.float32 or x.numel() == 0:
        return False
    limit = (torch.finfo(torch.float32).max / x.shape[-1]) ** 0.5
    return torch.linalg.vector_norm(x.detach(), ord=torch.inf).item() > limit
