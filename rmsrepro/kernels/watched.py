"""Whether something stands between torch's operations and memory, so that kernels must leave the work to them."""

from __future__ import annotations

import torch


def is_watched() -> bool:
    """Say whether function transforms (vmap, grad) or dispatch modes (fake tensors, FLOP counters) are at work.

    What a transform or a mode of fake tensors hands out has no memory to read; what counts operations would miss ours.
    """
    return torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() > 0
