"""The backward formula of every row norm in torch operations.

The kernels are tested against it, and it is what a second derivative goes through: being plain torch operations,
it can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rmsrepro.kernels.spec import NormSpec


def backward(
    spec: NormSpec,
    dy: Tensor,
    x: Tensor,
    gain: Tensor | None,
    wanted: Sequence[bool],
    bias_dtype: torch.dtype | None = None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the `wanted` gradients of (x [..., n], gain [n], bias [n]) for the upstream gradient `dy` [..., n]."""
    n = x.shape[-1]
    a = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    d = dy.to(a.dtype)
    if spec.centre:
        a = a - a.mean(dim=-1, keepdim=True)
    mean_square = a[..., : spec.k].square().mean(dim=-1, keepdim=True)
    if spec.eps_outside:
        is_zero = mean_square == 0
        rms = torch.where(is_zero, 1.0, mean_square).sqrt()
        r = torch.where(is_zero, 1.0 / spec.eps if spec.eps else torch.inf, 1.0 / (rms + spec.eps))
        factor = torch.where(is_zero, 0.0, (rms + spec.eps) / rms)
    else:
        r = (mean_square + spec.eps).rsqrt()
        factor = 1.0
    xhat = a * r
    u = d if gain is None else d * (gain.to(a.dtype) + spec.gain_offset)
    dx = dgain = dbias = None
    if wanted[0]:
        q = (u * xhat).sum(dim=-1, keepdim=True) * factor / spec.k
        correction = xhat[..., : spec.k] * q
        if spec.k < n:
            correction = torch.nn.functional.pad(correction, (0, n - spec.k))
        shift = u.mean(dim=-1, keepdim=True) if spec.centre else 0.0
        dx = (r * (u - shift - correction)).to(x.dtype)
    if wanted[1] and gain is not None:
        dgain = (d * xhat).reshape(-1, n).sum(dim=0).to(gain.dtype)
    if wanted[2]:
        dbias = d.reshape(-1, n).sum(dim=0).to(bias_dtype or x.dtype)
    return dx, dgain, dbias
