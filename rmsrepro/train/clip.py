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
        scales = [torch.clamp(cfg.clip_norm_per_tensor / (norm + 1e-12), max=1.0) for norm in norms]
        torch._foreach_mul_(grads, scales)
        total_after = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)).float())
    else:
        total_after = total
    if cfg.clip_norm is not None:
        scale = torch.clamp(cfg.clip_norm / (total_after + 1e-12), max=1.0)
        torch._foreach_mul_(grads, torch.where(scale.isfinite(), scale, 1.0))
    return total
