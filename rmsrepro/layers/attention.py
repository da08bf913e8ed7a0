"""Multi-head attention over packed rows, and one position at a time with cached keys and values.

Source: Vaswani et al. 2017, section 3.2; computed by torch's scaled_dot_product_attention.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmsrepro.layers.packing import Packing

#: Keys and values of some positions, side by side: [B, S, 2 * D].
KeysValues = Tensor


class SelfAttention(nn.Module):
    """Attention of a sequence's positions to one another, or, with `causal`, to those up to themselves."""

    def __init__(self, dim: int, heads: int, dropout: float = 0.0, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Map the rows x [N, D] of `packing` to rows [N, D]."""
        q, k, v = packing.padded(self.query_key_value(x)).chunk(3, -1)
        # Where only earlier positions are seen, no position sees the padding behind it.
        mask = None if self.causal else packing.mask
        y = attend(q, k, v, self.heads, mask, self.causal, self.dropout if self.training else 0.0)
        return self.out(packing.rows(y))

    def step(self, x: Tensor, past: KeysValues) -> tuple[Tensor, KeysValues]:
        """Map the next position x [N, D] of N sequences to [N, D]; `past` is of those before it, and grows by one."""
        q, new = self.query_key_value(x).unsqueeze(1).split([x.shape[-1], 2 * x.shape[-1]], -1)
        past = torch.cat([past, new.to(past.dtype)], 1)
        k, v = past.chunk(2, -1)
        return self.out(attend_last(q, k, v, self.heads).squeeze(1)), past


class CrossAttention(nn.Module):
    """Attention of one sequence's positions to those of another."""

    def __init__(self, dim: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def memory(self, y: Tensor, packing: Packing) -> KeysValues:
        """Return the keys and values of the other sequence's rows y [M, D]."""
        return packing.padded(self.key_value(y))

    def forward(self, x: Tensor, packing: Packing, memory: KeysValues, mask: Tensor | None) -> Tensor:
        """Map the rows x [N, D] of `packing` to rows [N, D]; `mask` [B, S] is true where `memory` has a position."""
        q = packing.padded(self.query(x))
        k, v = memory.chunk(2, -1)
        return self.out(packing.rows(attend(q, k, v, self.heads, mask, False, self.dropout if self.training else 0.0)))

    def step(self, x: Tensor, memory: KeysValues, mask: Tensor | None) -> Tensor:
        """Map x [N, D] to [N, D]: N / B rows for each of the B sequences in `memory`, side by side."""
        q = self.query(x).view(len(memory), -1, x.shape[-1])
        k, v = memory.chunk(2, -1)
        return self.out(attend(q, k, v, self.heads, mask).flatten(0, 1))


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
    if q.is_cpu:
        # On a CPU the backward pass in bfloat16 takes ten times as long as in float32.
        with torch.autocast("cpu", enabled=False):
            at_least = torch.promote_types(q.dtype, torch.float32)
            q, k, v = q.to(at_least), k.to(at_least), v.to(at_least)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=keys, dropout_p=dropout, is_causal=causal)
    else:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keys, dropout_p=dropout, is_causal=causal)
    return y.transpose(1, 2).flatten(2)


def attend_last(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    """Return what `attend` returns for a single query, q [N, 1, D], in half the time on a CPU.

    One row a head is too little for a matrix product there; products element by element and their sums do better.
    """
    if not q.is_cpu:
        return attend(q, k, v, heads)
    with torch.autocast("cpu", enabled=False):
        q, k, v = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (q, k, v))
        width = q.shape[-1] // heads
        scores = (q * k).unflatten(-1, (heads, width)).sum(-1) * width**-0.5  # [N, S, H]
        weights = scores.softmax(1).unsqueeze(-1)
        return (weights * v.unflatten(-1, (heads, width))).sum(1, keepdim=True).flatten(2)
