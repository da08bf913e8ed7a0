"""Attention by scaled dot products: over whole sequences, and of single queries to what was computed before.

Search reorders its hypotheses at every token. The keys and values of earlier positions are not moved then: `rows` alone
says whose is what. Source: Vaswani et al. 2017, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from rmsrepro.kernels.cpu import cached_attention as kernel
from rmsrepro.kernels.cpu.operands import serves
from rmsrepro.layers.packing import length_mask

#: Keys and values of some positions, side by side: [..., 2 * D].
KeysValues = Tensor


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    heads: int,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Return softmax(q k^T / sqrt(d)) v for each of the heads that share the features evenly.

    q [B, T, D], k and v [B, S, D], mask [B, S] or None, result [B, T, D].
    """
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in (q, k, v))  # [B, H, T, d]
    keys = None if mask is None else mask[:, None, None]
    with torch.autocast("cpu", enabled=False) if q.is_cpu else nullcontext():
        q, k, v = computed(q), computed(k), computed(v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keys, dropout_p=dropout, is_causal=causal)
    return y.transpose(1, 2).flatten(2)


def computed(x: Tensor) -> Tensor:
    """Return `x` in the type that attention computes in: on a CPU bfloat16's backward pass takes ten times as long."""
    return x.to(torch.promote_types(x.dtype, torch.float32)) if x.is_cpu else x


def attend_cached(q: Tensor, cache: Sequence[KeysValues], rows: Tensor, heads: int) -> Tensor:
    """Return what each query q [N, D] finds at its row of every position: [N, D].

    cache: keys and values [_, 2 * D] for each of S positions; rows int64 [N, S]: the number of each query's row,
    counted through all positions. On a CPU one kernel reads them where they lie; elsewhere, and where a gradient is
    wanted, they are gathered first.
    """
    q = computed(q)
    if _kernel_serves(q, *cache):
        return kernel.cached_attention(q, cache, [0, *accumulate(map(len, cache[:-1]))], rows, heads)
    k, v = torch.cat(tuple(cache))[rows].chunk(2, -1)  # [N, S, D]
    return attend(q.unsqueeze(1), k, v, heads).squeeze(1)


def attend_memory(q: Tensor, memory: KeysValues, lengths: Tensor, heads: int) -> Tensor:
    """Return what queries q [N, D], N / B side by side for each of B sequences, find in their sequence: [N, D].

    memory [B, S, 2 * D], of which the first `lengths` [B] positions count.
    """
    q, (count, steps) = computed(q), memory.shape[:2]
    if _kernel_serves(q, memory):
        sequence = torch.arange(count).repeat_interleave(len(q) // max(count, 1))
        rows = sequence.unsqueeze(1).expand(-1, steps)
        return kernel.cached_attention(q, memory.unbind(1), [0] * steps, rows, heads, lengths[sequence])
    k, v = memory.chunk(2, -1)
    grouped = q.view(count, -1, q.shape[1])
    return attend(grouped, k, v, heads, length_mask(lengths, steps)).flatten(0, 1)


def _kernel_serves(*given: Tensor) -> bool:
    return serves(*given) and not (torch.is_grad_enabled() and any(t.requires_grad for t in given))
