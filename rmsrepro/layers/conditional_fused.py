"""The conditional GRU's fast path: all steps in one autograd function over its CPU kernels."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import conditional_gru as kernels
from rmsrepro.kernels.cpu.conditional_gru import (
    AttentionTensors,
    ConditionalPanels,
    ConditionalSaved,
    ConditionalSpec,
)
from rmsrepro.kernels.cpu.panels import pack
from rmsrepro.kernels.recurrent import RecurrentSaved, RecurrentTensors
from rmsrepro.layers.additive_attention import Memory
from rmsrepro.layers.conditional_cell import ConditionalCell
from rmsrepro.layers.formula import row_formula
from rmsrepro.layers.fused import norm_gains, outer_bias, recurrent_spec, recurrent_tensors, why_not_fused

#: Tensors of a cell (RecurrentTensors without mask and direction) and of the attention.
_CELL, _ATTENTION = len(fields(RecurrentTensors)) - 2, len(fields(AttentionTensors))


def why_not_fused_conditional(x: Tensor, h: Tensor, cell: ConditionalCell, memory: Memory) -> str | None:
    """Say why the kernels cannot run this conditional GRU on this input, or return None where they can."""
    if x.device.type != "cpu":
        return "the conditional GRU has kernels for the CPU only"
    for part, options, given in (
        (cell.first, cell.first_options, x),
        (cell.second, cell.second_options, memory.context),
    ):
        # These kernels normalise the input's projection inside the time loop, whether that was asked for or not.
        reason = why_not_fused(given, (h,), part, replace(options, hoist_input=True))
        if reason is not None:
            return reason
    if any(t.dtype != torch.float32 for t in (memory.keys, cell.score, cell.query.weight)):
        return "the recurrent kernels take float32"
    if any(row_formula(site.norm) is None for site in cell.query.norms):
        return "the recurrent kernels know none, layernorm, rmsnorm, prmsnorm, l2norm and norms of weights"
    return None


def pack_conditional(cell: ConditionalCell) -> ConditionalPanels:
    """Pack the weights of a cell that the kernels can run."""
    parts = (cell.first.input, cell.first.hidden, cell.query, cell.second.input, cell.second.hidden)
    return ConditionalPanels(*(pack(part.weight) for part in parts))


@torch.compiler.disable
def fused_conditional(
    x: Tensor,
    h: Tensor,
    cell: ConditionalCell,
    memory: Memory,
    mask: Tensor | None,
    panels: ConditionalPanels | None = None,
) -> tuple[Tensor, Tensor]:
    """Run over `x` [T, B, in]; as `conditional_loop`. With `panels` of the same weights there are no gradients."""
    first, second = recurrent_spec(cell.first), recurrent_spec(cell.second)
    assert first is not None
    assert second is not None
    query = row_formula(cell.query.norms[0].norm) if cell.query.norms else None
    attention = AttentionTensors(
        memory.lengths,
        memory.keys.contiguous(),
        memory.context.contiguous(),
        cell.score,
        cell.query.weight,
        norm_gains(cell.query),
        outer_bias(cell.query),
    )
    nothing = x.new_empty(0)
    spec, mask = ConditionalSpec(first, query, second), None if mask is None else mask.contiguous()
    inputs = (
        *recurrent_tensors(x, (h,), cell.first),
        *(getattr(attention, field.name) for field in fields(attention)),
        *recurrent_tensors(nothing, (nothing,), cell.second),
    )
    if panels is not None:
        saved = kernels.forward(spec, *_parts(inputs, mask), keep=False, panels=panels)
        return saved.states[2::2], saved.contexts
    return _ConditionalGRU.apply(spec, mask, *inputs)


class _ConditionalGRU(torch.autograd.Function):
    """All steps: (spec, mask, *RecurrentTensors, *AttentionTensors, *RecurrentTensors) to (states, contexts)."""

    @staticmethod
    def forward(ctx: Any, spec: ConditionalSpec, mask: Tensor | None, *inputs: Any) -> Any:
        """Run all steps and keep what the way back needs."""
        saved = kernels.forward(spec, *_parts(inputs, mask), any(ctx.needs_input_grad))
        ctx.spec, ctx.count = spec, len(inputs)
        ctx.set_materialize_grads(False)
        cells = [(part.input, part.hidden, part.gates, *part.stats) for part in (saved.first, saved.second)]
        kept = (saved.states, saved.contexts, saved.weights, saved.query, saved.query_stat)
        ctx.save_for_backward(mask, *inputs, *kept, *cells[0], *cells[1])
        return saved.states[2::2], saved.contexts

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Run all steps back; the outputs' gradients are None where nobody used them."""
        if torch.is_grad_enabled():
            raise RuntimeError("the fused recurrent layers have no second derivative; use impl=composed or torch")
        mask, *rest = ctx.saved_tensors
        inputs, kept = tuple(rest[: ctx.count]), rest[ctx.count :]
        states, contexts, weights, query, query_stat, *cells = kept
        first, second = (
            RecurrentSaved(a, states, None, hidden, gates, tuple(stats))
            for a, hidden, gates, *stats in (cells[:6], cells[6:])
        )
        saved = ConditionalSaved(states, contexts, weights, query, query_stat, first, second)
        dstates, dcontexts = grad_outputs
        parts = kernels.backward(ctx.spec, *_parts(inputs, mask), saved, dstates, dcontexts)
        values = [getattr(part, field.name) for part in parts for field in fields(part)]
        wanted = ctx.needs_input_grad[2:]
        return None, None, *(grad if want else None for want, grad in zip(wanted, values, strict=True))


def _parts(inputs: tuple[Any, ...], mask: Tensor | None) -> tuple[RecurrentTensors, AttentionTensors, RecurrentTensors]:
    split = _CELL + _ATTENTION
    return (
        RecurrentTensors(*inputs[:_CELL], mask=mask, reverse=False),
        AttentionTensors(*inputs[_CELL:split]),
        RecurrentTensors(*inputs[split:], mask=mask, reverse=False),
    )
