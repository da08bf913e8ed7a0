"""The fast path: all steps of a layer in one autograd function over the recurrent kernels."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import library
from rmsrepro.kernels.cpu import recurrent as cpu
from rmsrepro.kernels.recurrent import RecurrentSaved, RecurrentSpec, RecurrentTensors
from rmsrepro.kernels.spec import NormSpec
from rmsrepro.kernels.watched import is_watched
from rmsrepro.layers.formula import row_formula, row_gain, row_shift
from rmsrepro.layers.generic import Cell, State
from rmsrepro.layers.options import CellOptions
from rmsrepro.layers.projection import Projection

#: Set to 1, it lets the layers replay CUDA graphs. Off by default: it has not been run on a GPU yet.
CUDA_GRAPHS_VARIABLE = "RMSREPRO_CUDA_GRAPHS"


def why_not_fused(x: Tensor, state: State, cell: Cell, options: CellOptions) -> str | None:
    """Say why the kernels cannot run this layer on this input, or return None where they can."""
    tensors = [x, *state, cell.input.weight, cell.hidden.weight]
    device = x.device.type
    if any(t.device != x.device for t in tensors) or device not in ("cpu", "cuda"):
        return "the recurrent kernels take tensors of one device, a CPU or a CUDA one"
    if device == "cpu" and library.library is None:
        return library.missing
    if device == "cuda" and importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if is_watched():
        return "the recurrent kernels read plain tensors, not those of a function transform"
    if any(t.dtype != torch.float32 for t in tensors) or torch.is_autocast_enabled(device):
        return "the recurrent kernels take float32"
    if not options.hoist_input and cell.input.norms:
        return "cell.hoist_input=false asks for the norm of the input inside the time loop"
    if getattr(options, "reset", "after") == "before":
        return "cell.reset=before needs two products a step"
    if recurrent_spec(cell) is None:
        return "the recurrent kernels know none, layernorm, rmsnorm, prmsnorm, l2norm and norms of weights"
    return None


def recurrent_spec(cell: Cell) -> RecurrentSpec | None:
    """Describe `cell` to the kernels, or return None where they do not know one of its norms."""
    gates = cell.hidden.weight.shape[0] // cell.size
    parts: list[tuple[NormSpec | None, ...]] = []
    for projection in (cell.input, cell.hidden):
        formulas = tuple(row_formula(site.norm) for site in projection.norms)
        if None in formulas:
            return None
        parts.append(formulas or (None,) * (1 if gates == 4 else 2))
    inner = None if cell.cell_norm is None else row_formula(cell.cell_norm.norm)
    if cell.cell_norm is not None and inner is None:
        return None
    return RecurrentSpec(gates, parts[0], parts[1], inner)


@torch.compiler.disable
def fused_run(
    x: Tensor, state: State, cell: Cell, mask: Tensor | None, reverse: bool, extra: Tensor | None = None
) -> tuple[Tensor, State]:
    """Run a layer over `x` [T, B, in]; `extra` [n] is one more bias behind the norms. As the loops of generic.py."""
    spec = recurrent_spec(cell)
    assert spec is not None
    tensors = recurrent_tensors(x, state, cell, extra)
    y, h, c = _Recurrence.apply(spec, None if mask is None else mask.contiguous(), reverse, *tensors)
    return y, (h,) if c is None else (h, c)


def recurrent_tensors(x: Tensor, state: State, cell: Cell, extra: Tensor | None = None) -> tuple[Tensor | None, ...]:
    """Return what the kernels compute with, in the order of RecurrentTensors: without mask and direction."""
    input_bias, hidden_bias = outer_bias(cell.input), outer_bias(cell.hidden)
    candidate_bias = None
    if hidden_bias is not None and len(hidden_bias) == 3 * cell.size:
        first = 2 * cell.size
        candidate_bias = hidden_bias[first:]
        hidden_bias = torch.cat([hidden_bias[:first], torch.zeros_like(candidate_bias)])
    cell_norm = None if cell.cell_norm is None else cell.cell_norm.norm
    return (
        x,
        cell.input.weight,
        cell.input.inner_bias,
        cell.hidden.weight,
        state[0],
        state[1] if len(state) > 1 else None,
        _sum([input_bias, hidden_bias, extra]),
        candidate_bias,
        cell.hidden.inner_bias,
        norm_gains(cell.input),
        norm_gains(cell.hidden),
        None if cell_norm is None else row_gain(cell_norm, x),
        None if cell_norm is None else row_shift(cell_norm),
    )


class _Recurrence(torch.autograd.Function):
    """All steps of a layer: (spec, mask, reverse, *RecurrentTensors in order) to (y, last h, last c)."""

    @staticmethod
    def forward(ctx: Any, spec: RecurrentSpec, mask: Tensor | None, reverse: bool, *inputs: Any) -> Any:
        """Run all steps and keep what the way back needs."""
        saved = _kernels(inputs[0]).forward(
            spec, RecurrentTensors(*inputs, mask=mask, reverse=reverse), any(ctx.needs_input_grad)
        )
        ctx.spec, ctx.reverse, ctx.count = spec, reverse, len(inputs)
        ctx.set_materialize_grads(False)
        kept = (saved.input, saved.h, saved.c, saved.hidden, saved.gates, *saved.stats)
        ctx.save_for_backward(mask, *inputs, *kept)
        y = saved.h[:-1] if reverse else saved.h[1:]
        end = 0 if reverse else -1
        return y, saved.h[end].clone(), None if saved.c is None else saved.c[end].clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Run all steps back; the outputs' gradients are None where nobody used them."""
        if torch.is_grad_enabled():
            raise RuntimeError("the fused recurrent layers have no second derivative; use impl=composed or torch")
        mask, *rest = ctx.saved_tensors
        inputs, (a, h, c, hidden, gates, *stats) = rest[: ctx.count], rest[ctx.count :]
        tensors = RecurrentTensors(*inputs, mask=mask, reverse=ctx.reverse)
        saved = RecurrentSaved(a, h, c, hidden, gates, tuple(stats))
        grads = _kernels(h).backward(ctx.spec, tensors, saved, *grad_outputs, want_x=ctx.needs_input_grad[3])
        values = [getattr(grads, field.name) for field in fields(grads)]
        return None, None, None, *(None if t is None else grad for t, grad in zip(inputs, values, strict=True))


def _kernels(tensor: Tensor) -> Any:
    """Return the module with the kernels of the tensor's device."""
    if tensor.device.type == "cpu":
        return cpu
    from rmsrepro.kernels.triton import captured, recurrent

    return captured if os.environ.get(CUDA_GRAPHS_VARIABLE) == "1" else recurrent


def outer_bias(projection: Projection) -> Tensor | None:
    """Return the bias and the norms' shifts behind a projection, as one vector [n]."""
    shifts = [row_shift(site.norm) for site in projection.norms]
    return _sum([projection.outer_bias, _join(projection, shifts, 0.0)])


def norm_gains(projection: Projection) -> Tensor | None:
    """Return the gains of a projection's norms as one vector [n], None for ones."""
    return _join(projection, [row_gain(site.norm, projection.weight) for site in projection.norms], 1.0)


def _join(projection: Projection, parts: Sequence[Tensor | None], fill: float) -> Tensor | None:
    if all(part is None for part in parts):
        return None
    whole = [
        projection.weight.new_full((site.end - site.begin,), fill) if part is None else part
        for site, part in zip(projection.norms, parts, strict=True)
    ]
    return whole[0] if len(whole) == 1 else torch.cat(whole)


def _sum(parts: Sequence[Tensor | None]) -> Tensor | None:
    total: Tensor | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total
