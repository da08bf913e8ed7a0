"""Sinusoidal positions for sequences of any length."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """Sines in the first half of the features, cosines in the second, wavelengths from 2 pi to 10,000 times that.

    The table grows with the longest sequence seen, so there is no longest one. Source: Vaswani et al. 2017, section
    3.5, in the layout of tensor2tensor and of the paper's Transformer code base.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self._table = sinusoids(torch.arange(128), dim)

    def forward(self, steps: int, like: Tensor) -> Tensor:
        """Return the rows of positions 0 to steps - 1, [steps, dim], on the device of `like`."""
        if steps > len(self._table):
            self._table = sinusoids(torch.arange(2 * steps), self.dim)
        if self._table.device != like.device:
            self._table = self._table.to(like.device)
        return self._table[:steps]


def sinusoids(positions: Tensor, dim: int) -> Tensor:
    """Return the features [N, dim] of integer `positions` [N], in float32; `dim` is even."""
    half = dim // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(1e4) / max(half - 1, 1)))
    angles = positions.double()[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).float()
