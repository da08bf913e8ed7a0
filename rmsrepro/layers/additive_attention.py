"""Attention by a small network over queries and keys (Bahdanau et al. 2015), with both projections normalised."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rmsrepro.layers.packing import Packing, length_mask
from rmsrepro.layers.projection import Projection
from rmsrepro.layers.step_linear import StepLinear
from rmsrepro.norms.factory import NormFactory


class Memory(NamedTuple):
    """What is attended to: the same at every step."""

    keys: Tensor
    """[B, S, A], projected and normalised; zero where there is no position."""
    context: Tensor
    """[B, S, C], what the weighted sums are taken of."""
    lengths: Tensor
    """[B], int64 from 1 to S: the positions that each sequence has."""

    @property
    def mask(self) -> Tensor:
        """[B, S], true where there is a position."""
        return length_mask(self.lengths, self.context.shape[1])

    def repeated(self, times: int) -> Memory:
        """Return the memory with every row `times` times side by side."""
        return self if times == 1 else Memory(*(part.repeat_interleave(times, 0) for part in self))


class AdditiveAttention(nn.Module):
    """score_s = v . tanh(norm(W context_s + b) + norm(U query)); a softmax over the positions weighs the context.

    Source: Nematus, as in paper section 2.1: the bias belongs to the keys; the score vector v has neither norm nor
    bias (a softmax would not see one).
    """

    def __init__(self, context_size: int, query_size: int, size: int, *, norm: NormFactory) -> None:
        super().__init__()
        self.key = norm.linear(context_size, size, bias=True)
        self.query = StepLinear(query_size, size, norm)
        self.score = nn.Parameter(torch.empty(size).uniform_(-(size**-0.5), size**-0.5))

    def memory(self, context: Tensor, lengths: Tensor) -> Memory:
        """Prepare `context` [B, S, C], of which `lengths` [B] positions count, for all steps at once."""
        positions = context.shape[1]
        if lengths.numel() and not 1 <= int(lengths.min()) <= int(lengths.max()) <= positions:
            raise ValueError(f"lengths must be from 1 to {positions}, got {lengths.tolist()}")
        packing = Packing.of(lengths, positions)
        return Memory(packing.padded(self.key(packing.rows(context))), context, lengths)


def attend(
    query: Tensor,
    projection: Projection,
    score: Tensor,
    memory: Memory,
    mask: Tensor,
    step: int = 0,
    rows: Tensor | None = None,
) -> Tensor:
    """Return the weighted context [B, C] for `query` [B, H], which `projection` is of, one torch operation at a time.

    `score` [A] and `mask` [B, S] are the attention's and the memory's; `rows` [B] is true for the rows that count.
    """
    projected = projection.finish(projection.linear(query), step, rows)
    scores = (memory.keys + projected.unsqueeze(1)).tanh() @ score  # [B, S]
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return torch.bmm(weights.unsqueeze(1), memory.context).squeeze(1)
