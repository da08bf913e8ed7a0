"""One matrix term of a sum that goes into a tanh, with a norm of its own where the norm stands everywhere."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmsrepro.layers.weights import copy_weight
from rmsrepro.norms.factory import NormFactory
from rmsrepro.norms.modules import NormedLayer


class Term(nn.Module):
    """W x, or norm(W x); the bias is added behind the norm."""

    def __init__(
        self, in_features: int, out_features: int, norm: NormFactory | None, gain: float = 1.0, bias: bool = False
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        build = nn.Linear if norm is None else norm.linear
        self.linear = build(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None
        if norm is not None and isinstance(self.linear, NormedLayer):
            start = getattr(self.linear.norm, "weight", None)
            if isinstance(start, nn.Parameter):
                nn.init.constant_(start, gain - norm.cfg.gain_offset)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the term for `x` [..., in]; where `mask` [...] is false nothing enters a batch's statistics."""
        if mask is None or isinstance(self.linear, nn.Linear):
            y = self.linear(x)
        else:
            rows = self.linear(x[mask])
            y = rows.new_zeros((*mask.shape, rows.shape[-1])).index_put((mask,), rows)
        return y if self.bias is None else y + self.bias

    @torch.no_grad()
    def set_weight(self, weight: Tensor) -> None:
        """Make the linear map multiply with `weight` [out, in]."""
        inner = self.linear.layer if isinstance(self.linear, NormedLayer) else self.linear
        if isinstance(inner, nn.Linear):
            inner.weight.copy_(weight)
        else:
            copy_weight(inner, weight)
