"""No normalisation: the baseline that every table of the paper starts from."""

from __future__ import annotations

from torch import nn

from rmsrepro.norms.base import Conv2dShape, NormFamily


class Family(NormFamily):
    """Plain layers and identities."""

    def features(self, dim: int) -> nn.Module:
        """Build an identity: nothing is normalised."""
        return nn.Identity()

    def channels(self, channels: int) -> nn.Module:
        """Build an identity: nothing is normalised."""
        return nn.Identity()

    def linear(self, in_features: int, out_features: int, bias: bool) -> nn.Module:
        """Build a plain linear map."""
        return nn.Linear(in_features, out_features, bias=bias)

    def conv2d(self, shape: Conv2dShape, bias: bool) -> nn.Module:
        """Build a plain convolution."""
        return shape.build(bias=bias)
