"""Gradient clipping, over all tensors together or each by itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rmsrepro.config import TrainConfig


def clip_gradients(parameters: Sequence[nn.Parameter], cfg: TrainConfig) -> Tensor | None:
    """Clip as configured and return the gradient's total norm before clipping, or None where nothing is asked.

    A non-finite norm leaves the gradients as they are, so that the caller can name the tensors at fault.
    """
    if cfg.clip_norm is None and cfg.clip_norm_per_tensor is None:
        return None
    grads = [p.grad for p in parameters if p.grad is not None]
    norms = torch._foreach_norm(grads)
    total = torch.linalg.vector_norm(torch.stack([norm.float() for norm in norms]))
    if cfg.clip_norm_per_tensor is not None:
        torch._foreach_mul_(grads, [_scale(cfg.clip_norm_per_tensor, norm) for norm in norms])
        total_after = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)).float())
    else:
        total_after = total
    if cfg.clip_norm is not None:
        torch._foreach_mul_(grads, _scale(cfg.clip_norm, total_after))
    return total


def _scale(limit: float, norm: Tensor) -> Tensor:
    """Return what shrinks `norm` to `limit`, and 1 where it is below or not finite."""
    return torch.where(norm.isfinite(), torch.clamp(limit / (norm + 1e-12), max=1.0), 1.0)
