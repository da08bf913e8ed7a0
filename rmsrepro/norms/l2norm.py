"""L2-Norm: rows divided by their L2 norm; the paper's ablation that shows why the mean matters (Table 2)."""

from __future__ import annotations

from torch import Tensor

from rmsrepro.norms.base import RowNormFamily
from rmsrepro.norms.functional import l2_norm
from rmsrepro.norms.modules import RowNorm


class L2Norm(RowNorm):
    """y = x / ||x||_2 * weight."""

    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise rows `x` [..., n] over their last dimension."""
        return l2_norm(x, weight, bias, **self.row_options())


class Family(RowNormFamily):
    """L2-Norm at every site."""

    module = L2Norm
