"""WeightNorm: weights re-parametrised as a length and a direction (Salimans & Kingma 2016)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmsrepro.errors import ConfigError
from rmsrepro.norms.base import Conv2dShape, NormFamily
from rmsrepro.norms.composed import compute_type
from rmsrepro.norms.config import NormConfig


class _WeightNormed(nn.Module):
    """A layer whose effective weight is gain * weight / ||weight||, one length per output."""

    weight: Tensor
    gain: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(self, plain: nn.Linear | nn.Conv2d, cfg: NormConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.weight = nn.Parameter(plain.weight.detach())
        # The layer starts as the plain one does: the gain is the length that the plain weight has.
        lengths = self._lengths().detach().flatten()
        self.register_parameter("gain", nn.Parameter(lengths.clone()) if cfg.gain else None)
        self.register_parameter("bias", None if plain.bias is None else nn.Parameter(plain.bias.detach()))

    @torch.no_grad()
    def rescale_outputs(self, scale: Tensor, shift: Tensor) -> None:
        """Turn the outputs y [..., out] into scale * y + shift, both [out] (data-dependent initialisation)."""
        if self.gain is None or self.bias is None:
            raise ConfigError("norm.gain=false: data-dependent initialisation sets the gains; set norm.gain=true")
        self.gain.mul_(scale)
        self.bias.mul_(scale).add_(shift)

    def _lengths(self) -> Tensor:
        w = self.weight.flatten(1).to(compute_type(self.weight, self.cfg.compute_dtype))
        if self.cfg.eps_placement == "outside":
            return torch.linalg.vector_norm(w, dim=1) + self.cfg.eps
        return (w.square().sum(1) + self.cfg.eps).sqrt()

    def effective_weight(self) -> Tensor:
        """Return the weight that the layer multiplies with, in the shape of the plain layer's."""
        scale = self._lengths().reciprocal()
        if self.gain is not None:
            scale = scale * self.gain
        return (self.weight * scale.view(-1, *[1] * (self.weight.dim() - 1))).to(self.weight.dtype)


class WeightNormLinear(_WeightNormed):
    """A linear map [..., in] to [..., out] with weight normalisation."""

    def forward(self, x: Tensor) -> Tensor:
        """Map `x` [..., in] to [..., out]."""
        return F.linear(x, self.effective_weight(), self.bias)


class WeightNormConv2d(_WeightNormed):
    """A convolution with weight normalisation."""

    def __init__(self, plain: nn.Conv2d, cfg: NormConfig) -> None:
        super().__init__(plain, cfg)
        self.stride, self.padding = plain.stride, plain.padding

    def forward(self, x: Tensor) -> Tensor:
        """Map `x` [N, in, H, W] to [N, out, H', W']."""
        return F.conv2d(x, self.effective_weight(), self.bias, self.stride, self.padding)


class Family(NormFamily):
    """WeightNorm where there is a weight to act on."""

    sites = ("linear", "conv2d")

    def features(self, dim: int) -> nn.Module:
        """Refuse: a feature vector has no weight."""
        raise ConfigError(self._no_weight("features"))

    def channels(self, channels: int) -> nn.Module:
        """Refuse: a convolution's output has no weight."""
        raise ConfigError(self._no_weight("channels"))

    def linear(self, in_features: int, out_features: int, bias: bool) -> nn.Module:
        """Build a linear map with normalised weights."""
        return WeightNormLinear(nn.Linear(in_features, out_features, bias=bias), self.cfg)

    def conv2d(self, shape: Conv2dShape, bias: bool) -> nn.Module:
        """Build a convolution with normalised weights."""
        return WeightNormConv2d(shape.build(bias=bias), self.cfg)

    def _no_weight(self, site: str) -> str:
        return f"norm=weightnorm cannot serve the site '{site}', which has no weight; it serves {', '.join(self.sites)}"
