"""L2-Norm: rows divided by their L2 norm; the paper's ablation that shows why the mean matters (Table 2)."""

from __future__ import annotations

from torch import Tensor

from rmsrepro.norms.base import RowNorm, RowNormFamily
from rmsrepro.norms.functional import l2_norm


class L2Norm(RowNorm):
    """y = x / ||x||_2 * weight."""

    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise rows `x` [..., n] over their last dimension."""
        cfg = self.cfg
        return l2_norm(
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
    """L2-Norm at every site."""

    module = L2Norm
