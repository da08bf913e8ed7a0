"""The fused norms as registered operators: what torch.compile, fake tensors and tracing see.

`torch.ops.rmsrepro.norm` and `add_norm` return the row statistics too, which `norm_backward` reads. Eager code goes
past them (see autograd.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rmsrepro.kernels import choice, reference
from rmsrepro.kernels.spec import NormSpec

_FORMULA = "bool centre, SymInt k, float eps, bool eps_outside, float gain_offset"

torch.library.define("rmsrepro::norm", f"(Tensor x, Tensor? gain, Tensor? bias, {_FORMULA}) -> (Tensor, Tensor)")
torch.library.define(
    "rmsrepro::add_norm",
    f"(Tensor x, Tensor residual, Tensor? gain, Tensor? bias, {_FORMULA}) -> (Tensor, Tensor, Tensor)",
)
torch.library.define(
    "rmsrepro::norm_backward",
    "(Tensor dy, Tensor? dsum, Tensor x, Tensor? gain, Tensor stat, ScalarType? bias_dtype, bool[3] wanted,"
    f" {_FORMULA}) -> (Tensor, Tensor, Tensor)",
)


def norm(x: Tensor, gain: Tensor | None, bias: Tensor | None, spec: NormSpec) -> Tensor:
    """Normalise `x` [..., n] through the operator."""
    return torch.ops.rmsrepro.norm(x, gain, bias, *spec)[0]


def add_norm(
    x: Tensor, residual: Tensor, gain: Tensor | None, bias: Tensor | None, spec: NormSpec
) -> tuple[Tensor, Tensor]:
    """Normalise x + residual [..., n] through the operator; returns the norm and the sum."""
    y, added, _ = torch.ops.rmsrepro.add_norm(x, residual, gain, bias, *spec)
    return y, added


def _plan(x: Tensor, gain: Tensor | None, bias_dtype: torch.dtype | None, formula: tuple[Any, ...]) -> Any:
    module = choice.backend(x.device.type)
    if module is None:
        raise RuntimeError(f"rmsrepro::norm has no kernels for tensors on {x.device.type} here")
    return module.plan(NormSpec(*formula), x.shape[-1], x.dtype, None if gain is None else gain.dtype, bias_dtype)


@torch.library.impl("rmsrepro::norm", ("CPU", "CUDA"))
def _norm(x: Tensor, gain: Tensor | None, bias: Tensor | None, *formula: Any) -> tuple[Tensor, Tensor]:
    y, _, stat = _plan(x, gain, None if bias is None else bias.dtype, formula).forward(x, gain, bias)
    return y, stat


@torch.library.impl("rmsrepro::add_norm", ("CPU", "CUDA"))
def _add_norm(
    x: Tensor, residual: Tensor, gain: Tensor | None, bias: Tensor | None, *formula: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return _plan(x, gain, None if bias is None else bias.dtype, formula).forward(x, gain, bias, residual)


@torch.library.impl("rmsrepro::norm_backward", ("CPU", "CUDA"))
def _norm_backward(
    dy: Tensor,
    dsum: Tensor | None,
    x: Tensor,
    gain: Tensor | None,
    stat: Tensor,
    bias_dtype: torch.dtype | None,
    wanted: list[bool],
    *formula: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    plan = _plan(x, gain, bias_dtype, formula)
    dx, dgain, dbias = plan.backward(dy, x, gain, stat, *wanted, dsum)
    # An operator cannot answer None: what is not wanted is an empty tensor.
    return (
        stat.new_empty(0) if dx is None else dx,
        stat.new_empty(0) if dgain is None else dgain,
        stat.new_empty(0) if dbias is None else dbias,
    )


@torch.library.register_fake("rmsrepro::norm")
def _norm_fake(x: Tensor, gain: Tensor | None, bias: Tensor | None, *formula: Any) -> tuple[Tensor, Tensor]:
    return _like(x), _stat_like(x, formula)


@torch.library.register_fake("rmsrepro::add_norm")
def _add_norm_fake(
    x: Tensor, residual: Tensor, gain: Tensor | None, bias: Tensor | None, *formula: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return _like(x), _like(x), _stat_like(x, formula)


@torch.library.register_fake("rmsrepro::norm_backward")
def _norm_backward_fake(
    dy: Tensor,
    dsum: Tensor | None,
    x: Tensor,
    gain: Tensor | None,
    stat: Tensor,
    bias_dtype: torch.dtype | None,
    wanted: list[bool],
    *formula: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    n = x.shape[-1]
    return (
        _like(x) if wanted[0] else stat.new_empty(0),
        gain.new_empty(n) if wanted[1] and gain is not None else stat.new_empty(0),
        x.new_empty(n, dtype=bias_dtype) if wanted[2] else stat.new_empty(0),
    )


def _like(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _stat_like(x: Tensor, formula: tuple[Any, ...]) -> Tensor:
    return x.new_empty((x.numel() // x.shape[-1] if x.shape[-1] else 0, 1 + formula[0]), dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, gain, bias, *formula = inputs
    ctx.save_for_backward(x, gain, output[-1])
    ctx.bias_dtype, ctx.formula = None if bias is None else bias.dtype, formula


def _keep_sum(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _keep(ctx, (output[1], *inputs[2:]), output)


def _gradients(
    ctx: Any, dy: Tensor, dsum: Tensor | None, needs: tuple[bool, bool, bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    x, gain, stat = ctx.saved_tensors
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        dx, dgain, dbias = reference.backward(NormSpec(*ctx.formula), dy, x, gain, needs, ctx.bias_dtype)
        return dx if dx is None or dsum is None else dx + dsum, dgain, dbias
    dx, dgain, dbias = torch.ops.rmsrepro.norm_backward(dy, dsum, x, gain, stat, ctx.bias_dtype, needs, *ctx.formula)
    return dx if needs[0] else None, dgain if needs[1] else None, dbias if needs[2] else None


def _norm_gradients(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return (*_gradients(ctx, dy, None, tuple(ctx.needs_input_grad[:3])), *(None,) * 5)


def _add_norm_gradients(ctx: Any, dy: Tensor, dsum: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    x, residual, gain, bias = ctx.needs_input_grad[:4]
    dx, dgain, dbias = _gradients(ctx, dy, dsum, (x or residual, gain, bias))
    return (dx if x else None, dx if residual else None, dgain, dbias, *(None,) * 5)


torch.library.register_autograd("rmsrepro::norm", _norm_gradients, setup_context=_keep)
torch.library.register_autograd("rmsrepro::add_norm", _add_norm_gradients, setup_context=_keep_sum)
