"""LayerNorm: rows centred and divided by their standard deviation (Ba, Kiros & Hinton 2016)."""

from __future__ import annotations

from torch import Tensor

from rmsrepro.norms.base import RowNorm, RowNormFamily
from rmsrepro.norms.functional import layer_norm


class LayerNorm(RowNorm):
    """y = (x - mean(x)) / std(x) * weight + bias, with the biased variance."""

    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise rows `x` [..., n] over their last dimension."""
        cfg = self.cfg
        return layer_norm(
            x,
            weight,
            bias,
            cfg.eps,
            self.impl,
            eps_placement=cfg.eps_placement,
            compute_dtype=cfg.compute_dtype,
            gain_offset=cfg.gain_offset if weight is not None else 0.0,
            cast_before_gain=cfg.cast_before_gain,
        )


class Family(RowNormFamily):
    """LayerNorm at every site."""

    module = LayerNorm
