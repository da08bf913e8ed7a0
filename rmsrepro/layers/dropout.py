"""Dropout whose random bits cost little on a CPU.

torch draws one Bernoulli number after another there, on one thread, which at the sizes of a small Transformer takes as
long as its matrix products. Here one kernel turns a 64-bit draw of torch's into the whole mask, and into the same mask
again in the backward pass; without the kernels one 64-bit draw decides four elements.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rmsrepro.kernels.cpu import library
from rmsrepro.kernels.cpu.dropout import LEVELS, dropout
from rmsrepro.kernels.watched import is_watched

#: Above this rate, rounding it would change what is left too much.
_MOST = 0.99


class Dropout(nn.Dropout):
    """`nn.Dropout` with a faster CPU path; elsewhere, under torch.compile and in transforms, it is torch's own."""

    def forward(self, input: Tensor) -> Tensor:
        """Zero each element of `input` with probability `p` in training, and scale the others by 1 / (1 - p).

        The CPU path rounds the probability to a multiple of 2^-16.
        """
        if not self.training or not self.p:
            return input
        if self.p > _MOST or not input.is_cpu or torch.compiler.is_compiling() or is_watched():
            return F.dropout(input, self.p, True)
        dropped = round(self.p * LEVELS)
        return (_DropByKernel if _kernel_serves(input) else _Drop).apply(input, dropped, 1.0 / (1.0 - self.p))


def _kernel_serves(x: Tensor) -> bool:
    return x.dtype in (torch.float32, torch.bfloat16) and library.library is not None


class _DropByKernel(torch.autograd.Function):
    """The mask is a function of the seed, so that nothing is kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int, scale: float) -> Tensor:
        seed = int(_draws(1)) % (1 << 64)
        ctx.draw = (seed, dropped, scale)
        return dropout(x, *ctx.draw)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # pyrefly: ignore[bad-override]
        return dropout(grad, *ctx.draw), None, None


class _Drop(torch.autograd.Function):
    """The same in torch's operations, with another mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int, scale: float) -> Tensor:
        quarters = _draws((x.numel() + 3) // 4).view(torch.int16)[: x.numel()]
        ctx.keep, ctx.scale = (quarters >= dropped - LEVELS // 2).view(x.shape), scale
        return (x * ctx.keep).mul_(scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # pyrefly: ignore[bad-override]
        return (grad * ctx.keep).mul_(ctx.scale), None, None


def _draws(count: int) -> Tensor:
    """Draw int64 [count], all 64 bits of each, from torch's generator."""
    return torch.empty(count, dtype=torch.int64).random_(-(1 << 63), None)
