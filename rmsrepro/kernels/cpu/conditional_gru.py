"""The conditional GRU's CPU kernels on tensors: allocation, and one foreign call per pass over all steps."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import library
from rmsrepro.kernels.cpu.recurrent import (
    RecurrentCall,
    block_count,
    constants,
    describe,
    empty,
    gradients,
    multiply,
    norm_struct,
)
from rmsrepro.kernels.cpu.structures import CNormSpec
from rmsrepro.kernels.recurrent import RecurrentGrads, RecurrentSaved, RecurrentSpec, RecurrentTensors
from rmsrepro.kernels.spec import NormSpec

_POINTERS = (
    *("lengths", "keys", "context", "score", "query_weight", "query_gain", "query_bias"),
    *("context_weight", "context_bias", "contexts", "weights", "query", "query_stat", "second_input"),
    *("first_panels", "query_panels", "context_panels", "second_panels"),
    *("dcontexts", "dkeys", "dquery", "partials"),
)


class _Call(ctypes.Structure):
    """ConditionalCall of conditional_gru.h."""

    _fields_ = (
        ("first", RecurrentCall),
        ("second", RecurrentCall),
        ("positions", c_int64),
        ("attention", c_int64),
        ("context_size", c_int64),
        ("beam", c_int64),
        ("query_norm", CNormSpec),
        *((name, c_void_p) for name in _POINTERS),
    )


class ConditionalSpec(NamedTuple):
    """The norms of a conditional GRU."""

    first: RecurrentSpec
    query: NormSpec | None
    second: RecurrentSpec


@dataclass
class AttentionTensors:
    """What the attention computes with, all float32 and contiguous but the lengths."""

    lengths: Tensor
    """[M], int64 from 1 to S: M is B, or for a forward pass alone a divisor of it."""
    keys: Tensor
    """[M, S, A]; the B / M sequences that attend to one memory lie side by side."""
    context: Tensor
    """[M, S, C]"""
    score: Tensor
    """[A]"""
    query_weight: Tensor
    """[A, H]"""
    query_gain: Tensor | None
    """[A]"""
    query_bias: Tensor | None
    """[A], added after the norm."""


@dataclass
class ConditionalSaved:
    """What the backward pass needs beside the tensors themselves; states and contexts are the results."""

    states: Tensor
    """[2 T + 1, B, H]: before the first cell, between the cells, and so on."""
    contexts: Tensor
    """[T, B, C]"""
    weights: Tensor
    """[T, B, S]"""
    query: Tensor
    """[T, B, A], before the norm."""
    query_stat: Tensor
    """[T, B, 2]"""
    first: RecurrentSaved
    second: RecurrentSaved


@dataclass(frozen=True)
class ConditionalPanels:
    """The weights of a conditional GRU, packed for many forward calls that share them."""

    input: Tensor
    first: Tensor
    query: Tensor
    context: Tensor
    second: Tensor


def forward(
    spec: ConditionalSpec,
    first: RecurrentTensors,
    attention: AttentionTensors,
    second: RecurrentTensors,
    keep: bool,
    panels: ConditionalPanels | None = None,
) -> ConditionalSaved:
    """Run all steps; without `keep` only states and contexts are of use. The second cell has no x and no state."""
    steps, batch, width = first.x.shape
    size, n = first.h0.shape[1], 3 * first.h0.shape[1]
    positions, context_size = attention.context.shape[1:]
    x = first.x
    packed = None if panels is None else panels.input
    projected = multiply(x.reshape(steps * batch, width), first.input_weight.t(), first.input_bias, packed)
    states = empty(x, 2 * steps + 1, batch, size)
    states[0] = first.h0
    none = x.new_empty(0)

    def saved_cell(projected: Tensor) -> RecurrentSaved:
        gates = empty(x, steps, batch, n) if keep else none
        stats = tuple(x.new_empty(steps, batch, 2, 2) if keep else none for _ in range(3))
        return RecurrentSaved(projected, states, None, empty(x, steps, batch, n), gates, stats)

    saved = ConditionalSaved(
        states,
        empty(x, steps, batch, context_size),
        empty(x, steps, batch, positions),
        empty(x, steps, batch, len(attention.score)),
        x.new_empty(steps, batch, 2) if keep else none,
        saved_cell(projected.view(steps, batch, n)),
        saved_cell(empty(x, steps, batch, n)),
    )
    call = _describe(spec, first, attention, second, saved)
    if panels is not None:
        for name in ("first", "query", "context", "second"):
            setattr(call, f"{name}_panels", getattr(panels, name).data_ptr())
    _run("forward", call)
    return saved


def backward(
    spec: ConditionalSpec,
    first: RecurrentTensors,
    attention: AttentionTensors,
    second: RecurrentTensors,
    saved: ConditionalSaved,
    dstates: Tensor | None,
    dcontexts: Tensor | None,
) -> tuple[RecurrentGrads, AttentionTensors, RecurrentGrads]:
    """Return all gradients from those of the states after each step [T, B, H] and of the contexts [T, B, C].

    The second cell's gradients of x and h0 mean nothing.
    """
    steps, batch, n = saved.first.input.shape
    size, units = first.h0.shape[1], len(attention.score)
    blocks = block_count(batch)
    dh = first.h0.new_zeros(batch, size)
    call = _describe(spec, first, attention, second, saved)
    walked: list[tuple[Tensor, Tensor, Tensor]] = []
    for cell in (call.first, call.second):
        sums = dh.new_zeros(blocks, 4 * n + 2 * size)
        walked.append((empty(dh, steps, batch, n), empty(dh, steps, batch, n), sums))
        for name, tensor in zip(("dinput", "dhidden", "partials"), walked[-1], strict=True):
            setattr(cell, name, tensor.data_ptr())
        cell.dh = dh.data_ptr()
    if dstates is not None:
        dstates = dstates.contiguous()
        call.second.dy = dstates.data_ptr()
    shape = saved.contexts.shape
    total = dh.new_zeros(shape) if dcontexts is None else dcontexts.clone(memory_format=torch.contiguous_format)
    dkeys, dquery = torch.zeros_like(attention.keys), empty(dh, steps, batch, units)
    sums = dh.new_zeros(blocks, 3 * units)
    for name, tensor in (("dcontexts", total), ("dkeys", dkeys), ("dquery", dquery), ("partials", sums)):
        setattr(call, name, tensor.data_ptr())
    _run("backward", call)
    between = saved.states[1::2]
    dgain, dbias, dscore = sums.sum(0).split(units)
    return (
        gradients(first, saved.states[:-1:2], dh, None, *walked[0], want_x=True),
        AttentionTensors(
            lengths=attention.lengths,
            keys=dkeys,
            context=torch.bmm(saved.weights.permute(1, 2, 0), total.transpose(0, 1)),
            score=dscore,
            query_weight=multiply(dquery.view(-1, units).t(), between.reshape(-1, size)),
            query_gain=dgain,
            query_bias=dbias,
        ),
        gradients(replace(second, x=saved.contexts), between, dh, None, *walked[1], want_x=False),
    )


def _describe(
    spec: ConditionalSpec,
    first: RecurrentTensors,
    attention: AttentionTensors,
    second: RecurrentTensors,
    saved: ConditionalSaved,
) -> _Call:
    units = len(attention.score)
    cells = describe(spec.first, first, saved.first), describe(spec.second, replace(second, h0=first.h0), saved.second)
    query_norm = norm_struct(spec.query, units)
    memories, positions, context_size = attention.context.shape
    call = _Call(*cells, positions, units, context_size, max(len(first.h0) // max(memories, 1), 1), query_norm)
    ones, zeros = constants(units)
    tensors = {
        "lengths": attention.lengths.contiguous(),
        "keys": attention.keys,
        "context": attention.context,
        "score": attention.score,
        "query_weight": attention.query_weight.contiguous(),
        "query_gain": ones if attention.query_gain is None else attention.query_gain,
        "query_bias": zeros if attention.query_bias is None else attention.query_bias,
        "context_weight": second.input_weight.contiguous(),
        "context_bias": second.input_bias,
        "contexts": saved.contexts,
        "weights": saved.weights,
        "query": saved.query,
        "query_stat": saved.query_stat,
        "second_input": saved.second.input,
    }
    for name, tensor in tensors.items():
        if tensor is not None and tensor.numel():
            setattr(call, name, tensor.data_ptr())
    # The addresses are good for as long as this structure lives; the cells' structures hold their own tensors.
    call.tensors = (tensors, cells)
    return call


def _run(direction: str, call: _Call) -> None:
    assert library.library is not None, library.missing
    getattr(library.library, f"rr_conditional_gru_{direction}")(ctypes.byref(call))
