"""The formulas, one torch operation after another, as the paper's frameworks ran them.

These are the reference for every faster implementation. All take statistics over the last dimension,
work in `compute_dtype`, and give back the input's type. `[..., n]` below is any batch of rows of n elements.
"""

from __future__ import annotations

import torch
from torch import Tensor


def compute_type(x: Tensor, name: str = "auto") -> torch.dtype:
    """Return the type that statistics of `x` are taken in: never less than float32."""
    if name == "auto":
        return torch.float64 if x.dtype == torch.float64 else torch.float32
    return {"float32": torch.float32, "float64": torch.float64}[name]


def affine(
    y: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    out_dtype: torch.dtype,
    *,
    gain_offset: float = 0.0,
    cast_before_gain: bool = False,
) -> Tensor:
    """Apply gain and shift to normalised rows `y` [..., n] and round to `out_dtype` once, at the end or before."""
    if cast_before_gain:
        y = y.to(out_dtype)
    if weight is not None:
        gain = weight.to(y.dtype)
        y = y * (gain + gain_offset if gain_offset else gain)
    if bias is not None:
        y = y + bias.to(y.dtype)
    return y.to(out_dtype)


def inverse_rms(a: Tensor, eps: float, k: int, eps_placement: str = "inside") -> Tensor:
    """Return 1 / RMS [..., 1] of the first `k` elements of every row of `a` [..., n].

    A row whose squares overflow gives NaN rather than a quiet zero. Source: paper equation 4 and section 5.
    """
    head = a if k == a.shape[-1] else a[..., :k]
    if eps_placement == "outside":
        # A vector norm has the gradient 0 at a zero row, where sqrt would give NaN.
        rms = torch.linalg.vector_norm(head, dim=-1, keepdim=True) * k**-0.5
        inverse = (rms + eps).reciprocal()
        overflow = rms
    else:
        mean_square = head.square().mean(dim=-1, keepdim=True)
        inverse = (mean_square + eps).rsqrt()
        overflow = mean_square
    # inf * 0 is NaN and finite * 0 is 0: an overflown statistic is flagged without a branch.
    return inverse + overflow.detach() * 0.0


def rms_rows(a: Tensor, eps: float, k: int, eps_placement: str = "inside") -> Tensor:
    """Normalise rows `a` [..., n] by the root mean square of their first `k` elements."""
    return a * inverse_rms(a, eps, k, eps_placement)


def layer_rows(a: Tensor, eps: float, eps_placement: str = "inside") -> Tensor:
    """Centre rows `a` [..., n] and divide by their (biased) standard deviation (Ba et al. 2016, equation 3)."""
    centred = a - a.mean(dim=-1, keepdim=True)
    return centred * inverse_rms(centred, eps, a.shape[-1], eps_placement)


def l2_rows(a: Tensor, eps: float, eps_placement: str = "inside") -> Tensor:
    """Divide rows `a` [..., n] by their L2 norm: the paper's L2-Norm (Table 2)."""
    if eps_placement == "outside":
        return a / (torch.linalg.vector_norm(a, dim=-1, keepdim=True) + eps)
    sum_of_squares = a.square().sum(dim=-1, keepdim=True)
    return a * ((sum_of_squares + eps).rsqrt() + sum_of_squares.detach() * 0.0)
