"""Multi-head attention over packed rows, and one position at a time with cached keys and values.

Source: Vaswani et al. 2017, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from rmsrepro.layers.packed_attention import attend_between, attend_within
from rmsrepro.layers.packing import Packing
from rmsrepro.layers.scaled_dot_product import KeysValues, attend_cached, attend_memory, computed


class SelfAttention(nn.Module):
    """Attention of a sequence's positions to one another, or, with `causal`, to those up to themselves."""

    def __init__(self, dim: int, heads: int, dropout: float = 0.0, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Map the rows x [N, D] of `packing` to rows [N, D]."""
        dropout = self.dropout if self.training else 0.0
        qkv = self.query_key_value(x)
        return self.out(attend_within(qkv, packing, self.heads, causal=self.causal, dropout=dropout))

    def step(self, x: Tensor, past: Sequence[KeysValues], rows: Tensor) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """Map the next position x [N, D] to [N, D]; `past` is of the positions before it, and grows by one.

        rows int64 [N, T]: the number of each sequence's row at T positions, the next one too, counted through all.
        """
        q, new = self.query_key_value(x).split([x.shape[-1], 2 * x.shape[-1]], -1)
        past = (*past, computed(new))
        return self.out(attend_cached(q, past, rows, self.heads)), past


class CrossAttention(nn.Module):
    """Attention of one sequence's positions to those of another."""

    def __init__(self, dim: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def memory(self, y: Tensor) -> KeysValues:
        """Return the keys and values of the other sequence's rows y [M, D]."""
        return computed(self.key_value(y))

    def forward(self, x: Tensor, packing: Packing, memory: KeysValues, others: Packing) -> Tensor:
        """Map the rows x [N, D] of `packing` to rows [N, D]; `memory` [M, 2 * D] are rows of `others`."""
        dropout = self.dropout if self.training else 0.0
        return self.out(attend_between(self.query(x), memory, packing, others, self.heads, dropout=dropout))

    def step(self, x: Tensor, memory: KeysValues, lengths: Tensor) -> Tensor:
        """Map x [N, D] to [N, D]: N / B rows for each of the B sequences of `lengths`, side by side.

        memory [B, S, 2 * D]: what `memory` gave, padded.
        """
        return self.out(attend_memory(self.query(x), memory, lengths, self.heads))
