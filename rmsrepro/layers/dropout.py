"""Dropout whose random bits cost little on a CPU.

torch draws one Bernoulli number at a time there, which at the sizes of a small Transformer takes as long as its
matrix products. Here one 64-bit draw decides four elements.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

#: Thresholds are multiples of this: rates are exact to within half of it.
_LEVELS = 1 << 16


def keep_mask(x: Tensor, rate: float) -> Tensor:
    """Draw a bool tensor of the shape of `x` on the CPU, false with probability `rate` (to within 2^-17)."""
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    return (words.view(torch.int16)[: x.numel()] >= round(rate * _LEVELS) - _LEVELS // 2).view(x.shape)


class Dropout(nn.Dropout):
    """`nn.Dropout` with a faster CPU path; elsewhere, and under torch.compile, it is torch's own."""

    def forward(self, input: Tensor) -> Tensor:
        """Zero each element of `input` with probability `p` in training, and scale the others by 1 / (1 - p)."""
        if not self.training or not self.p:
            return input
        if not input.is_cpu or torch.compiler.is_compiling():
            return F.dropout(input, self.p, True)
        return _Drop.apply(input, self.p)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        ctx.keep, ctx.scale = keep_mask(x, rate), 1.0 / (1.0 - rate)
        return (x * ctx.keep).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # pyrefly: ignore[bad-override]
        return (grad * ctx.keep).mul_(ctx.scale), None
