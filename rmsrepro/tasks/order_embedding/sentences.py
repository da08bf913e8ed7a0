"""The last state of a GRU over sentences of different lengths, with no step computed for a sentence that ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rmsrepro.layers import NormGRU
from rmsrepro.layers.step_norm import StepNorm

#: The batch is made smaller once this share of its sentences has ended: a shorter batch pays for the extra call.
_ENDED = 0.5


def last_states(gru: NormGRU, x: Tensor, lengths: Tensor) -> Tensor:
    """Return the state after each sentence's last token, [B, H].

    x [T, B, in]; lengths [B] on the CPU, longest first.
    """
    if any(isinstance(module, StepNorm) for module in gru.modules()):
        # Statistics by step belong to the steps of whole sentences.
        return gru(x, lengths=lengths)[1][-1]
    ends, state = [], None
    for first, last, rows in stretches(lengths.tolist()):
        piece = x[first:last, :rows]
        state = gru(piece, state, lengths=(lengths[:rows] - first).clamp_max(last - first))[1]
        left = int((lengths > last).sum())
        ends.append(state[-1, left:])
        state = state[:, :left]
    return torch.cat(ends[::-1])


def stretches(lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Cut time into stretches of one batch size each: (first step, step behind the last, sentences that go on).

    `lengths` has the longest sentence first. Each stretch ends once `_ENDED` of its sentences have, or all.
    """
    first, rows = 0, len(lengths)
    while rows:
        last = lengths[min(rows - 1, int(rows * (1 - _ENDED)))]
        last = max(last, first + 1)
        yield first, last, rows
        first, rows = last, sum(length > last for length in lengths[:rows])
