"""Weights that a norm acts on, as recurrent cells use them: computed once for all time steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmsrepro.errors import ConfigError


def effective_weight(linear: nn.Module) -> Tensor:
    """Return the weight [out, in] that a weight-normalised linear map multiplies with."""
    compute = getattr(linear, "effective_weight", None)
    if not callable(compute):
        raise ConfigError(f"{type(linear).__name__} acts inside a linear map and cannot serve a recurrent cell")
    return compute()


@torch.no_grad()
def copy_weight(linear: nn.Module, weight: Tensor) -> None:
    """Set a weight-normalised linear map so that it multiplies with `weight` [out, in], if it has gains."""
    raw, gain = linear.get_parameter("weight"), getattr(linear, "gain", None)
    raw.copy_(weight)
    if isinstance(gain, nn.Parameter):
        gain.fill_(1.0)
        direction = effective_weight(linear)
        gain.copy_(raw.square().sum(1) / (raw * direction).sum(1))
