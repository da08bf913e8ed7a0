"""What every normaliser is made of: modules over rows or images, and the family that serves a model's sites."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rmsrepro.errors import ConfigError
from rmsrepro.norms.config import NormConfig

#: Where a model may ask for a norm; `linear` and `conv2d` own the weights before the norm, which may act on them.
SITES = ("linear", "conv2d", "features", "channels")


class RowNorm(nn.Module, ABC):
    """A norm over feature vectors [..., dim] or, with `image=True`, over images [N, dim, H, W].

    Parameters are named `weight` and `bias`, each [dim], as in nn.LayerNorm and nn.RMSNorm.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(self, dim: int, cfg: NormConfig, impl: str, *, image: bool = False) -> None:
        super().__init__()
        if dim < 1:
            raise ConfigError(f"{cfg.name}: a norm over {dim} features was asked for; at least 1 is needed")
        self.dim, self.cfg, self.impl, self.image = dim, cfg, impl, image
        self.register_parameter("weight", nn.Parameter(torch.empty(dim)) if cfg.gain else None)
        self.register_parameter("bias", nn.Parameter(torch.empty(dim)) if cfg.shift else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start as the plain normalisation: an effective gain of one and a shift of zero."""
        if self.weight is not None:
            nn.init.constant_(self.weight, 1.0 - self.cfg.gain_offset)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @abstractmethod
    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise rows `x` [..., n] over their last dimension; `weight` and `bias` are [n]."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x` [..., dim], or [N, dim, H, W] for an image norm; shape and type are kept."""
        channel_axis = 1 if self.image else -1
        if x.dim() < 1 + self.image or x.shape[channel_axis] != self.dim:
            wanted = f"[N, {self.dim}, ...]" if self.image else f"[..., {self.dim}]"
            raise ValueError(f"{self.cfg.name} expects {wanted}, got {list(x.shape)}")
        if not self.image:
            return self.normalise(x, self.weight, self.bias)
        if self.cfg.axes == "c":
            return self.normalise(x.movedim(1, -1), self.weight, self.bias).movedim(-1, 1)
        rows = x.flatten(1 if self.cfg.axes == "chw" else 2)  # [N, C*H*W] or [N, C, H*W]
        y = self.normalise(rows, None, None).view(x.shape)
        per_channel = (self.dim,) + (1,) * (x.dim() - 2)
        if self.weight is not None:
            y = y * (self.weight + self.cfg.gain_offset).view(per_channel).to(y.dtype)
        if self.bias is not None:
            y = y + self.bias.view(per_channel).to(y.dtype)
        return y

    def extra_repr(self) -> str:
        """Show what decides the result."""
        over = f", axes={self.cfg.axes}" if self.image else ""
        return f"{self.dim}, eps={self.cfg.eps}, p={self.cfg.p}, impl={self.impl}{over}"


class NormedLayer(nn.Module):
    """A weight layer whose summed inputs are normalised: norm(Wx) + b, or norm(Wx + b) with the bias inside."""

    def __init__(self, layer: nn.Linear | nn.Conv2d, norm: nn.Module, outer_bias: nn.Parameter | None) -> None:
        super().__init__()
        self.layer, self.norm = layer, norm
        self.register_parameter("bias", outer_bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map `x` [..., in] to [..., out] (linear) or [N, in, H, W] to [N, out, H', W'] (convolution)."""
        y = self.norm(self.layer(x))
        if self.bias is None:
            return y
        shape = (-1, 1, 1) if isinstance(self.layer, nn.Conv2d) else (-1,)
        return y + self.bias.view(shape).to(y.dtype)


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
