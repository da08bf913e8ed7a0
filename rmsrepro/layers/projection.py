"""A projection inside a recurrent cell: its weight and biases in torch's layout, and the norms of its gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmsrepro.layers.step_norm import StepNorm


@dataclass
class SiteNorm:
    """One norm over the columns [begin, end) of a projection."""

    begin: int
    end: int
    norm: nn.Module

    def __call__(self, a: Tensor, step: int, mask: Tensor | None) -> Tensor:
        """Normalise columns `a` [..., end - begin] at a time step; `mask` [B] is true for the rows that count."""
        return self.norm(a, step, mask) if isinstance(self.norm, StepNorm) else self.norm(a)

    @property
    def by_step(self) -> bool:
        """Whether the norm differs from step to step."""
        return isinstance(self.norm, StepNorm)


@dataclass
class Projection:
    """What turns an input or a state into the pre-activations of all gates."""

    weight: Tensor
    """[G * H, in], the gates below one another as in torch."""
    inner_bias: Tensor | None = None
    """[G * H], added before the norms."""
    outer_bias: Tensor | None = None
    """[G * H], added after the norms."""
    norms: Sequence[SiteNorm] = field(default_factory=tuple)

    def linear(self, x: Tensor, rows: slice = slice(None)) -> Tensor:
        """Project `x` [..., in] to the gates in `rows`, without their norm."""
        bias = None if self.inner_bias is None else self.inner_bias[rows]
        return F.linear(x, self.weight[rows], bias)

    def finish(self, a: Tensor, step: int = 0, mask: Tensor | None = None, first: int = 0) -> Tensor:
        """Apply norms and outer bias to `a` [..., n], the projection's columns from `first` on."""
        last = first + a.shape[-1]
        sites = [site for site in self.norms if first <= site.begin and site.end <= last]
        if sites:
            parts = [site(a[..., site.begin - first : site.end - first], step, mask) for site in sites]
            a = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return a if self.outer_bias is None else a + self.outer_bias[first:last]

    @property
    def by_step(self) -> bool:
        """Whether the norms differ from step to step, so that nothing can be taken out of the time loop."""
        return any(site.by_step for site in self.norms)
