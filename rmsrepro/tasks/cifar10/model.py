"""ConvPool-CNN-C; it says where a norm goes and never which."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.cifar10.config import Config

CHANNELS, CLASSES = 3, 10
#: Channels of the first block, and of the second and third, at width_factor=1.
WIDTHS = (96, 192)


class GaussianNoise(nn.Module):
    """Add noise N(0, std) while training."""

    def __init__(self, std: float) -> None:
        super().__init__()
        self.std = std

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` of any shape, with noise in training mode."""
        return x + self.std * torch.randn_like(x) if self.training and self.std else x

    def extra_repr(self) -> str:
        """Show the noise's size."""
        return f"std={self.std}"


class ConvPoolCNNC(nn.Module):
    """Nine convolutions in three blocks, global average, ten logits; every layer is normalised, the last one too.

    Source: Salimans & Kingma 2016, section 5.1 and code; the paper's appendix builds on it. Each norm stands before
    the leaky ReLU (slope 0.1).
    """

    def __init__(self, norm: NormFactory, cfg: Config) -> None:
        super().__init__()
        first, second = (max(1, round(width * cfg.width_factor)) for width in WIDTHS)
        self.noise = GaussianNoise(cfg.noise)
        self.block1 = nn.ModuleList(norm.conv2d(width, first, 3, padding=1) for width in (CHANNELS, first, first))
        self.block2 = nn.ModuleList(norm.conv2d(width, second, 3, padding=1) for width in (first, second, second))
        self.block3 = nn.ModuleList(norm.conv2d(second, second, kernel) for kernel in (3, 1, 1))
        self.output = norm.linear(second, CLASSES)
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(cfg.dropout)
        self.activation = nn.LeakyReLU(0.1)

    def weight_layers(self) -> list[nn.Module]:
        """Return the ten layers that have weights, in the order in which an image passes them."""
        return [*self.block1, *self.block2, *self.block3, self.output]

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, 3, 32, 32] to logits [B, 10]."""
        x = self._through(self.block1, self.noise(images))  # [B, 96, 32, 32]
        x = self._through(self.block2, self.dropout(self.pool(x)))  # [B, 192, 16, 16]
        x = self._through(self.block3, self.dropout(self.pool(x)))  # [B, 192, 6, 6]
        return self.output(x.mean((2, 3)))

    def _through(self, block: Iterable[nn.Module], x: Tensor) -> Tensor:
        for layer in block:
            x = self.activation(layer(x))
        return x
