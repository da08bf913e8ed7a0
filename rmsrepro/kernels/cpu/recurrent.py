"""The recurrent layers' CPU kernels on tensors: allocation, and one foreign call per pass over all steps."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from functools import lru_cache

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import library
from rmsrepro.kernels.cpu.structures import CNormSpec
from rmsrepro.kernels.recurrent import RecurrentGrads, RecurrentSaved, RecurrentSpec, RecurrentTensors
from rmsrepro.kernels.spec import NormSpec

#: Sequences that share one block of partial sums, at most: as many as one tile of the product holds.
_BLOCK_ROWS = 12
#: Bytes from which memory is asked for in large pages.
_HUGE = 4 << 20


_POINTERS = (
    *("weight", "mask", "input", "input_gain", "hidden_gain", "hidden_inner_bias", "bias", "candidate_bias"),
    *("cell_gain", "cell_shift", "h", "c", "hidden", "gates", "input_stat", "hidden_stat", "cell_stat"),
    *("dy", "dh", "dc", "dinput", "dhidden", "partials"),
)


class RecurrentCall(ctypes.Structure):
    """The structure of that name in recurrent.h."""

    _fields_ = (
        ("steps", c_int64),
        ("batch", c_int64),
        ("size", c_int64),
        ("blocks", c_int64),
        ("reverse", c_int64),
        ("input_norm", CNormSpec * 2),
        ("hidden_norm", CNormSpec * 2),
        ("cell_norm", CNormSpec),
        *((name, c_void_p) for name in _POINTERS),
    )


class _Product(ctypes.Structure):
    """Product of recurrent.h."""

    _fields_ = (
        ("rows", c_int64),
        ("depth", c_int64),
        ("columns", c_int64),
        ("a", c_void_p),
        ("a_row", c_int64),
        ("a_depth", c_int64),
        ("b", c_void_p),
        ("b_depth", c_int64),
        ("b_column", c_int64),
        ("bias", c_void_p),
        ("c", c_void_p),
        ("panels", c_void_p),
    )


def multiply(a: Tensor, b: Tensor, bias: Tensor | None = None, panels: Tensor | None = None) -> Tensor:
    """Return a [m, k] times b [k, n], of any strides, plus `bias` [n]; `panels` is the transpose of b, packed."""
    rows, depth, columns = a.shape[0], a.shape[1], b.shape[1]
    c = empty(a, rows, columns)
    product = _Product(
        *(rows, depth, columns, a.data_ptr(), *a.stride(), b.data_ptr(), *b.stride()),
        *(None if bias is None else bias.data_ptr(), c.data_ptr(), None if panels is None else panels.data_ptr()),
    )
    assert library.library is not None, library.missing
    library.library.rr_multiply(ctypes.byref(product))
    return c


def forward(spec: RecurrentSpec, t: RecurrentTensors, keep: bool) -> RecurrentSaved:
    """Run all steps; without `keep` only the states are filled in."""
    steps, batch, width = t.x.shape
    size = t.h0.shape[1]
    n = spec.gates * size
    a = multiply(t.x.reshape(steps * batch, width), t.input_weight.t(), t.input_bias).view(steps, batch, n)
    start = steps if t.reverse else 0
    h = empty(a, steps + 1, batch, size)
    h[start] = t.h0
    c = None
    if t.c0 is not None:
        c = torch.empty_like(h)
        c[start] = t.c0
    none = a.new_empty(0)
    keep_hidden = keep and (spec.gates == 3 or spec.hidden[0] is not None)
    saved = RecurrentSaved(
        a,
        h,
        c,
        empty(a, steps, batch, n) if keep_hidden else none,
        empty(a, steps, batch, n) if keep else none,
        tuple(a.new_empty(steps, batch, 2, 2) if keep else none for _ in range(3)),
    )
    _run(spec, "forward", describe(spec, t, saved))
    return saved


def backward(
    spec: RecurrentSpec,
    t: RecurrentTensors,
    saved: RecurrentSaved,
    dy: Tensor | None,
    dh: Tensor | None,
    dc: Tensor | None,
    want_x: bool,
) -> RecurrentGrads:
    """Return all gradients from those of the outputs `dy` [T, B, H] and of the last states, each None where zero."""
    steps, batch, n = saved.input.shape
    size = t.h0.shape[1]
    dh = t.h0.new_zeros(batch, size) if dh is None else dh.clone(memory_format=torch.contiguous_format)
    if t.c0 is not None:
        dc = t.c0.new_zeros(batch, size) if dc is None else dc.clone(memory_format=torch.contiguous_format)
    dinput = empty(t.x, steps, batch, n)
    plain = spec.gates == 4 and spec.input[0] is None and spec.hidden[0] is None
    dhidden = dinput if plain else empty(t.x, steps, batch, n)
    partials = t.x.new_zeros(block_count(batch), 4 * n + 2 * size)
    call = describe(spec, t, saved)
    for name, tensor in (("dh", dh), ("dc", dc), ("dinput", dinput), ("dhidden", dhidden), ("partials", partials)):
        setattr(call, name, None if tensor is None else tensor.data_ptr())
    if dy is not None:
        dy = dy.contiguous()
        call.dy = dy.data_ptr()
    _run(spec, "backward", call)
    before = saved.h[1:] if t.reverse else saved.h[:-1]
    return gradients(t, before, dh, dc, dinput, dhidden, partials, want_x)


def gradients(
    t: RecurrentTensors,
    before: Tensor,
    dh: Tensor,
    dc: Tensor | None,
    dinput: Tensor,
    dhidden: Tensor,
    partials: Tensor,
    want_x: bool,
) -> RecurrentGrads:
    """Return all gradients from what a walk back leaves: those of the projections and the sums over steps and rows.

    `before` [T, B, H] are the states that the steps started from.
    """
    n, size = dinput.shape[-1], before.shape[-1]
    dinput, dhidden = dinput.view(-1, n), dhidden.view(-1, n)
    dinput_gain, dhidden_gain, dbias, _, dcandidate_bias, dcell_gain, dcell_shift = partials.sum(0).split(
        [n, n, n, n - size, size, size, size]
    )
    return RecurrentGrads(
        x=multiply(dinput, t.input_weight).view(t.x.shape) if want_x else None,
        input_weight=multiply(dinput.t(), t.x.reshape(len(dinput), t.x.shape[-1])),
        input_bias=None if t.input_bias is None else dinput.sum(0),
        weight=multiply(dhidden.t(), before.reshape(len(dhidden), size)),
        h0=dh,
        c0=dc,
        bias=dbias,
        candidate_bias=dcandidate_bias,
        hidden_bias=None if t.hidden_bias is None else dhidden.sum(0),
        input_gain=dinput_gain,
        hidden_gain=dhidden_gain,
        cell_gain=dcell_gain,
        cell_shift=dcell_shift,
    )


def empty(like: Tensor, *shape: int) -> Tensor:
    """Allocate float32 memory, in large pages where it is large: touching small ones first costs more than the work."""
    new = like.new_empty(shape)
    if new.numel() * new.element_size() >= _HUGE and library.library is not None:
        library.library.rr_use_large_pages(c_void_p(new.data_ptr()), c_int64(new.numel() * new.element_size()))
    return new


def block_count(batch: int) -> int:
    """Return the number of blocks that the sequences are cut into; it depends on nothing but their number."""
    even = 2 * -(-batch // (2 * _BLOCK_ROWS))
    return max(1, min(batch, even))


def describe(spec: RecurrentSpec, t: RecurrentTensors, saved: RecurrentSaved) -> RecurrentCall:
    """Build the structure that the kernels read; the tensors it points to live as long as it does."""
    steps, batch, n = saved.input.shape
    size = t.h0.shape[1]
    call = RecurrentCall(steps, batch, size, block_count(batch), t.reverse)
    for target, norms in ((call.input_norm, spec.input), (call.hidden_norm, spec.hidden)):
        for group, norm in enumerate(norms):
            first, last = spec.groups[group]
            target[group] = norm_struct(norm, (last - first) * size)
    call.cell_norm = norm_struct(spec.cell, size)
    ones, zeros = constants(n)
    tensors = {
        "weight": t.weight.contiguous(),
        "mask": t.mask,
        "input": saved.input,
        "input_gain": ones if t.input_gain is None else t.input_gain,
        "hidden_gain": ones if t.hidden_gain is None else t.hidden_gain,
        "hidden_inner_bias": t.hidden_bias,
        "bias": zeros if t.bias is None else t.bias,
        "candidate_bias": zeros if t.candidate_bias is None else t.candidate_bias,
        "cell_gain": ones if t.cell_gain is None else t.cell_gain,
        "cell_shift": zeros if t.cell_shift is None else t.cell_shift,
        "h": saved.h,
        "c": saved.c,
        "hidden": saved.hidden,
        "gates": saved.gates,
        "input_stat": saved.stats[0],
        "hidden_stat": saved.stats[1],
        "cell_stat": saved.stats[2],
    }
    for name, tensor in tensors.items():
        if tensor is not None and tensor.numel():
            setattr(call, name, tensor.data_ptr())
    call.tensors = tensors  # the addresses are good for as long as this structure lives
    return call


@lru_cache(maxsize=16)
def constants(n: int) -> tuple[Tensor, Tensor]:
    """Return ones [n] and zeros [n], which stand for gains and biases that are not there."""
    return torch.ones(n), torch.zeros(n)


def norm_struct(norm: NormSpec | None, n: int) -> CNormSpec:
    """Describe a norm over rows of `n`, or none, to the kernels."""
    if norm is None:
        return CNormSpec()
    return CNormSpec(n, norm.k, norm.eps, 0.0, norm.centre, norm.eps_outside)


def _run(spec: RecurrentSpec, direction: str, call: RecurrentCall) -> None:
    assert library.library is not None, library.missing
    cell = "lstm" if spec.gates == 4 else "gru"
    getattr(library.library, f"rr_{cell}_{direction}")(ctypes.byref(call))
