"""A linear map inside a time loop, outside a recurrent cell."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmsrepro.layers.projection import Projection, SiteNorm
from rmsrepro.layers.step_norm import StepNorm, keeps_statistics
from rmsrepro.layers.weights import effective_weight
from rmsrepro.norms.factory import NormFactory


class StepLinear(nn.Module):
    """A linear map [..., in] -> [..., out] without bias, with normalised summed inputs, at every step of a time loop.

    Beside `norm.linear` it gives norms over the batch running statistics of their own at each of `max_steps` steps,
    and shows its parts to the fused loops.
    """

    def __init__(self, in_features: int, out_features: int, norm: NormFactory, max_steps: int = 100) -> None:
        super().__init__()
        self.out_features = out_features
        self.norm: nn.Module | None = None
        if "features" not in norm.family.sites:
            self.linear = norm.linear(in_features, out_features, bias=False)
            return
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)  # nn.Linear's start
        site = norm.features(out_features)
        if not isinstance(site, nn.Identity):
            self.norm = StepNorm(site, out_features, max_steps) if keeps_statistics(site) else site

    def projection(self) -> Projection:
        """Return the map as the time loops read it, its parameters as they are now."""
        weight = effective_weight(self.linear) if hasattr(self, "linear") else self.weight
        norms = [] if self.norm is None else [SiteNorm(0, self.out_features, self.norm)]
        return Projection(weight, norms=norms)

    def forward(self, x: Tensor, step: int = 0, mask: Tensor | None = None) -> Tensor:
        """Map `x` [B, in] at a time step; `mask` [B] is true for the rows that count."""
        projection = self.projection()
        return projection.finish(projection.linear(x), step, mask)
