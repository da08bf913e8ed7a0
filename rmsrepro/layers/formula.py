"""What the fast path knows of a norm module: its formula over rows, its gain and its shift."""

from __future__ import annotations

from torch import Tensor, nn

from rmsrepro.kernels.spec import NormSpec
from rmsrepro.norms.base import RowNorm
from rmsrepro.norms.config import partial_size
from rmsrepro.norms.l2norm import L2Norm
from rmsrepro.norms.layernorm import LayerNorm
from rmsrepro.norms.rmsnorm import RMSNorm


def row_formula(norm: nn.Module) -> NormSpec | None:
    """Return the formula of a norm over rows of float32, or None for a norm that the kernels do not know."""
    if not isinstance(norm, RowNorm) or norm.cfg.compute_dtype == "float64":
        return None
    cfg, n = norm.cfg, norm.dim
    outside = cfg.eps_placement == "outside"
    if type(norm) is LayerNorm:
        return NormSpec(True, n, cfg.eps, outside)
    if type(norm) is RMSNorm:
        return NormSpec(False, partial_size(n, cfg.p, cfg.rounding), cfg.eps, outside)
    if type(norm) is L2Norm:
        # ||x||^2 + eps = n (ms + eps / n): an RMSNorm whose gain is n^-1/2 times smaller.
        return NormSpec(False, n, cfg.eps * n**-0.5 if outside else cfg.eps / n, outside)
    return None


def row_gain(norm: nn.Module, like: Tensor) -> Tensor | None:
    """Return the gain [n] that belongs to `row_formula`, None for one; of the device and type of `like`."""
    assert isinstance(norm, RowNorm)
    gain = norm.weight
    if gain is not None and norm.cfg.gain_offset:
        gain = gain + norm.cfg.gain_offset
    if type(norm) is not L2Norm:
        return gain
    scale = norm.dim**-0.5
    return gain * scale if gain is not None else like.new_full((norm.dim,), scale)


def row_shift(norm: nn.Module) -> Tensor | None:
    """Return the shift [n] of the norm, None for zero."""
    assert isinstance(norm, RowNorm)
    return norm.bias
