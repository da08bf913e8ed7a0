"""LayerNorm: rows centred and divided by their standard deviation (Ba, Kiros & Hinton 2016)."""

from __future__ import annotations

from torch import Tensor

from rmsrepro.norms.base import RowNormFamily
from rmsrepro.norms.functional import layer_norm
from rmsrepro.norms.modules import RowNorm


class LayerNorm(RowNorm):
    """y = (x - mean(x)) / std(x) * weight + bias, with the biased variance."""

    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise rows `x` [..., n] over their last dimension."""
        return layer_norm(x, weight, bias, **self.row_options())


class Family(RowNormFamily):
    """LayerNorm at every site."""

    module = LayerNorm
