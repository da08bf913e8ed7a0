"""RMSNorm: rows divided by their root mean square (Zhang & Sennrich 2019, equation 4)."""

from __future__ import annotations

from torch import Tensor

from rmsrepro.norms.base import RowNormFamily
from rmsrepro.norms.functional import rms_norm
from rmsrepro.norms.modules import RowNorm


class RMSNorm(RowNorm):
    """y = x / RMS(x) * weight, the statistic from the first ceil(n * p) elements of each row."""

    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise rows `x` [..., n] over their last dimension."""
        return rms_norm(x, weight, bias, partial=self.cfg.p, rounding=self.cfg.rounding, **self.row_options())


class Family(RowNormFamily):
    """RMSNorm at every site."""

    module = RMSNorm
    allows_partial = True
