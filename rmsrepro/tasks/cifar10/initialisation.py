"""How the net starts: the weights' distribution, and the data-dependent initialisation (Salimans & Kingma 2016).

The code base behind the paper's CIFAR-10 experiment draws Glorot uniform weights (Lasagne's default), or N(0, 0.05)
for BatchNorm and WeightNorm. For WeightNorm and for the net without norms it then passes some images through the net
and fixes each layer's scale and bias so that its output has zero mean and unit variance per channel. WeightNorm's
scale is its gain, which is learned; the plain layers' is a constant factor before the weight, which is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from rmsrepro.errors import ConfigError
from rmsrepro.norms.base import NormedLayer

GAUSSIAN_STD = 0.05


class FixedScale(nn.Module):
    """A constant factor [out] before a weight [out, ...]; a checkpoint holds it."""

    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(width))

    def forward(self, weight: Tensor) -> Tensor:
        """Scale `weight` [out, ...]."""
        return weight * self.scale.view(-1, *[1] * (weight.dim() - 1))


@torch.no_grad()
def draw_weights(layers: Iterable[nn.Module], how: str) -> None:
    """Draw the weights of `layers`, `glorot` (uniform) or `gaussian` (N(0, 0.05)), and set their biases to zero."""
    for layer in layers:
        inner: Any = layer.layer if isinstance(layer, NormedLayer) else layer
        if how == "gaussian":
            nn.init.normal_(inner.weight, 0.0, GAUSSIAN_STD)
        else:
            nn.init.xavier_uniform_(inner.weight)
        if inner.bias is not None:
            nn.init.zeros_(inner.bias)


def require_rescalable(probe: Any, norm_name: str, init_images: int) -> None:
    """Raise ConfigError unless layers like `probe`, of one output, can be rescaled for good by a scale and a bias."""
    if hasattr(probe, "rescale_outputs"):
        probe.rescale_outputs(torch.ones(1), torch.zeros(1))
    elif not _is_plain(probe):
        raise ConfigError(
            f"task.init_images={init_images}: norm={norm_name} normalises its layers' outputs itself and has no "
            "data-dependent initialisation; allowed is 0"
        )


def add_fixed_scales(layers: Iterable[nn.Module]) -> None:
    """Give the layers without a gain of their own a constant factor, so that they can be rescaled."""
    for layer in layers:
        if _is_plain(layer):
            weight = layer.weight
            assert isinstance(weight, Tensor)
            parametrize.register_parametrization(layer, "weight", FixedScale(len(weight)))


@torch.no_grad()
def standardise_outputs(model: nn.Module, layers: Sequence[nn.Module], images: Tensor) -> None:
    """Rescale `layers` so that the output of each, as `images` pass, has zero mean and unit variance per channel.

    One pass does: each layer sees what the layers before it give once they are rescaled. Noise and dropout act if
    the model is in training mode, as they do in the code base.
    """
    handles = [layer.register_forward_hook(_standardise) for layer in layers]
    try:
        model(images)
    finally:
        for handle in handles:
            handle.remove()


def _standardise(layer: nn.Module, _: Any, y: Tensor) -> Tensor:
    axes = [axis for axis in range(y.dim()) if axis != 1]
    std, mean = torch.std_mean(y, axes, correction=0)
    # A channel that is the same everywhere has no scale to set.
    scale = torch.where(std > 0, std.reciprocal(), 1.0)
    shift = -mean * scale
    _rescale(layer, scale, shift)
    per_channel = (-1,) + (1,) * (y.dim() - 2)
    return y * scale.view(per_channel) + shift.view(per_channel)


def _rescale(layer: Any, scale: Tensor, shift: Tensor) -> None:
    """Make the outputs y [..., out] of `layer` scale * y + shift from now on."""
    if hasattr(layer, "rescale_outputs"):
        layer.rescale_outputs(scale, shift)
        return
    layer.parametrizations.weight[0].scale.mul_(scale)
    layer.bias.mul_(scale).add_(shift)


def _is_plain(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear | nn.Conv2d)
