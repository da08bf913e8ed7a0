"""RMSNorm: rows divided by their root mean square (Zhang & Sennrich 2019, equation 4)."""

from __future__ import annotations

from torch import Tensor

from rmsrepro.norms.base import RowNorm, RowNormFamily
from rmsrepro.norms.functional import rms_norm


class RMSNorm(RowNorm):
    """y = x / RMS(x) * weight, the statistic from the first ceil(n * p) elements of each row."""

    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise rows `x` [..., n] over their last dimension."""
        cfg = self.cfg
        return rms_norm(
            x,
            weight,
            bias,
            cfg.eps,
            cfg.p,
            self.impl,
            eps_placement=cfg.eps_placement,
            rounding=cfg.rounding,
            compute_dtype=cfg.compute_dtype,
            gain_offset=cfg.gain_offset if weight is not None else 0.0,
            cast_before_gain=cfg.cast_before_gain,
        )


class Family(RowNormFamily):
    """RMSNorm at every site."""

    module = RMSNorm
    allows_partial = True
