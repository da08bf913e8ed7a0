"""The seam between models and norms: the sites where a model asks, and the family of modules that serves them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import nn

from rmsrepro.norms.config import NormConfig
from rmsrepro.norms.modules import NormedLayer, RowNorm

#: Where a model may ask for a norm; `linear` and `conv2d` own the weights before the norm, which may act on them.
SITES = ("linear", "conv2d", "features", "channels")


@dataclass(frozen=True)
class Conv2dShape:
    """The geometry of a convolution with square kernels."""

    in_channels: int
    out_channels: int
    kernel_size: int
    padding: int | str = 0
    stride: int = 1

    def build(self, *, bias: bool) -> nn.Conv2d:
        """Make the plain torch layer."""
        return nn.Conv2d(self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, bias=bias)


class NormFamily(ABC):
    """One normaliser at every site it can serve; a norm's file defines one and the factory finds it by name."""

    #: The sites that this norm can serve.
    sites: tuple[str, ...] = SITES
    #: Whether the statistic is taken per row and may be partial (p < 1).
    allows_partial: bool = False
    #: The fewest rows that a training batch must hold.
    min_rows: int = 1
    #: The names in `cfg.extra` that this norm knows.
    options: tuple[str, ...] = ()

    def __init__(self, cfg: NormConfig, impl: str) -> None:
        self.cfg, self.impl = cfg, impl

    @abstractmethod
    def features(self, dim: int) -> nn.Module:
        """Build the norm of a feature vector [..., dim]."""

    @abstractmethod
    def channels(self, channels: int) -> nn.Module:
        """Build the norm of a convolution's output [N, channels, H, W]."""

    def linear(self, in_features: int, out_features: int, bias: bool) -> nn.Module:
        """Build a linear map with normalised summed inputs."""
        inner, outer = self._place_bias(out_features, bias)
        return NormedLayer(nn.Linear(in_features, out_features, bias=inner), self.features(out_features), outer)

    def conv2d(self, shape: Conv2dShape, bias: bool) -> nn.Module:
        """Build a convolution with normalised output."""
        inner, outer = self._place_bias(shape.out_channels, bias)
        return NormedLayer(shape.build(bias=inner), self.channels(shape.out_channels), outer)

    def _place_bias(self, width: int, bias: bool) -> tuple[bool, nn.Parameter | None]:
        """Return whether the layer keeps its bias, and the one behind the norm where the norm's shift is not it."""
        inside = bias and self.cfg.bias_placement == "inside"
        outside = bias and not inside and not self.cfg.shift
        return inside, nn.Parameter(torch.zeros(width)) if outside else None


class RowNormFamily(NormFamily):
    """A family whose norm is a RowNorm: it says only which."""

    module: type[RowNorm]

    def features(self, dim: int) -> nn.Module:
        """Build the norm of a feature vector [..., dim]."""
        return self.module(dim, self.cfg, self.impl)

    def channels(self, channels: int) -> nn.Module:
        """Build the norm of a convolution's output [N, channels, H, W]."""
        return self.module(channels, self.cfg, self.impl, image=True)
