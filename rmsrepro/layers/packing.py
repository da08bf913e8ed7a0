"""Sequences of different lengths without their padding: one row per position, and the way to a padded array and back.

Whatever works on single positions (linear maps, norms, dropout, residual sums) reads the rows alone: padding costs
nothing there, enters no batch statistic, and cannot change a result. Only attention needs the padded form, and where a
CPU kernel serves not even that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """The layout of B sequences of up to T positions, N positions in all."""

    sequences: int
    """B"""
    steps: int
    """T"""
    places: Tensor | None
    """[N] int64: where each row stands in [B * T]; None where no sequence is shorter than T."""
    mask: Tensor | None
    """[B, T], true where there is a position; None as above."""
    starts: Tensor
    """[B + 1] int64: the first row of each sequence, and N."""

    @staticmethod
    def of(lengths: Tensor, steps: int) -> Packing:
        """Return the layout of sequences of `lengths` [B], padded on the right to `steps`."""
        mask = length_mask(lengths, steps)
        starts = F.pad(lengths.clamp(0, steps).cumsum(0), (1, 0))
        if bool(mask.all()):
            return Packing(len(lengths), steps, None, None, starts)
        return Packing(len(lengths), steps, mask.flatten().nonzero().squeeze(1), mask, starts)

    def rows(self, padded: Tensor) -> Tensor:
        """Return the rows [N, ...] of a padded array [B, T, ...]."""
        flat = padded.flatten(0, 1)
        return flat if self.places is None else take_rows(flat, self.places)

    def padded(self, rows: Tensor) -> Tensor:
        """Return rows [N, ...] in a padded array [B, T, ...], zero where there is no position."""
        count = self.sequences * self.steps
        flat = rows if self.places is None else _PutRows.apply(rows, self.places, count)
        return flat.unflatten(0, (self.sequences, self.steps))


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """Return [B, size], true at the first `lengths` [B] positions."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(1)


def take_rows(x: Tensor, places: Tensor) -> Tensor:
    """Return x[places], each of which occurs once: [N, ...]."""
    return _TakeRows.apply(x, places)


class _TakeRows(torch.autograd.Function):
    """x[places]: each place occurs once, so the gradient is put back without adding, several times as fast."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.places, ctx.count = places, len(x)
        return x.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # pyrefly: ignore[bad-override]
        return _PutRows.apply(grad, ctx.places, ctx.count), None


class _PutRows(torch.autograd.Function):
    """Zeros [count, ...] with `rows` at `places`."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor, count: int) -> Tensor:
        ctx.places = places
        return rows.new_zeros(count, *rows.shape[1:]).index_copy_(0, places, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # pyrefly: ignore[bad-override]
        return _TakeRows.apply(grad, ctx.places), None, None
