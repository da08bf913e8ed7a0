"""The sum of a residual stream and a branch, and its norm, in one pass where the kernels have one."""

from __future__ import annotations

from torch import Tensor, nn

from rmsrepro.norms.functional import add_layer_norm, add_rms_norm
from rmsrepro.norms.layernorm import LayerNorm
from rmsrepro.norms.modules import RowNorm
from rmsrepro.norms.rmsnorm import RMSNorm


def add_norm(norm: nn.Module, x: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
    """Return (norm(x + branch), x + branch), each [..., n]."""
    if isinstance(norm, RowNorm) and _is_plain(norm) and norm.impl != "composed":
        cfg = norm.cfg
        if type(norm) is RMSNorm and (cfg.p == 1.0 or cfg.rounding == "ceil"):
            offset = cfg.gain_offset if cfg.gain else 0.0
            return add_rms_norm(branch, x, norm.weight, norm.bias, cfg.eps, cfg.p, norm.impl, gain_offset=offset)
        if type(norm) is LayerNorm and not cfg.gain_offset:
            return add_layer_norm(branch, x, norm.weight, norm.bias, cfg.eps, norm.impl)
    added = x + branch
    return norm(added), added


def _is_plain(norm: RowNorm) -> bool:
    """Say whether the norm is of the kind that the fused functions can be told of."""
    cfg = norm.cfg
    return cfg.eps_placement == "inside" and cfg.compute_dtype == "auto" and not cfg.cast_before_gain
