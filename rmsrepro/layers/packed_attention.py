"""Attention over packed rows, forth and back: one kernel on a CPU, padding and torch's attention elsewhere.

Sentences have some twenty positions. torch's attention for a CPU takes several times as long as the arithmetic there,
and wants its operands padded and head by head; the kernel (`rmsrepro/kernels/cpu/packed_attention.cpp`) reads queries,
keys and values where the linear maps left them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rmsrepro.kernels.cpu.operands import serves
from rmsrepro.kernels.cpu.packed_attention import PackedAttention
from rmsrepro.layers.packing import Packing
from rmsrepro.layers.scaled_dot_product import attend, computed


def attend_within(qkv: Tensor, packing: Packing, heads: int, *, causal: bool, dropout: float = 0.0) -> Tensor:
    """Let every position of a sequence attend to its sequence, or with `causal` to what is not behind it: [N, D].

    qkv [N, 3 * D]: queries, keys and values of the rows of `packing`.
    """
    qkv = computed(qkv)
    if _kernel_serves(qkv, dropout):
        return _PackedAttention.apply(qkv, None, PackedAttention(packing.starts, packing.starts, heads, causal))
    q, k, v = packing.padded(qkv).chunk(3, -1)
    # Where only earlier positions are seen, no position sees the padding behind it.
    return packing.rows(attend(q, k, v, heads, None if causal else packing.mask, causal, dropout))


def attend_between(
    q: Tensor, kv: Tensor, queries: Packing, keys: Packing, heads: int, *, dropout: float = 0.0
) -> Tensor:
    """Let every position of a sequence attend to all positions of the other sequence of the same number: [N, D].

    q [N, D] are rows of `queries`; kv [M, 2 * D], keys and values, rows of `keys`.
    """
    q, kv = computed(q), computed(kv)
    if _kernel_serves(q, dropout) and serves(kv):
        return _PackedAttention.apply(q, kv, PackedAttention(queries.starts, keys.starts, heads, False))
    k, v = keys.padded(kv).chunk(2, -1)
    return queries.rows(attend(queries.padded(q), k, v, heads, keys.mask, False, dropout))


def _kernel_serves(x: Tensor, dropout: float) -> bool:
    return not torch.compiler.is_compiling() and not dropout and serves(x)


class _PackedAttention(torch.autograd.Function):
    """Attention of the queries, keys and values that lie side by side in one array, or the queries in their own."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor | None, attention: PackedAttention) -> Tensor:
        first, second = first.contiguous(), None if second is None else second.contiguous()
        y, stats = attention.forward(*_parts(first, second))
        ctx.save_for_backward(first, second, stats)
        ctx.attention = attention
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # pyrefly: ignore[bad-override]
        first, second, stats = ctx.saved_tensors
        grads = _like(first), None if second is None else _like(second)
        with torch.no_grad():
            ctx.attention.backward(_parts(first, second), stats, dy, _parts(*grads))
        if torch.is_grad_enabled():
            return *(None if g is None else _Once.apply(g, dy, first, second) for g in grads), None
        return *grads, None


class _Once(torch.autograd.Function):
    """A gradient as it is, which cannot be differentiated by what it depends on."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, *depends_on: Tensor | None) -> Tensor:
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> Any:  # pyrefly: ignore[bad-override]
        raise RuntimeError(
            "attention over packed rows is differentiated once; its second derivative is not implemented"
        )


def _like(x: Tensor) -> Tensor:
    """Return an array with the strides of `x`: contiguous ones may be odd where there is one row or none."""
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)


def _parts(first: Tensor, second: Tensor | None) -> tuple[Tensor, ...]:
    """Return q, k and v."""
    return first.chunk(3, -1) if second is None else (first, *second.chunk(2, -1))
