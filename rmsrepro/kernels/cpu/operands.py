"""Which tensors the CPU kernels can stand for torch's operations on."""

from __future__ import annotations

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import library


def serves(*given: Tensor | None) -> bool:
    """Say whether kernels compute with these: float32 in a CPU's memory, the kernels built, and nobody watching.

    What watches each operation, as a counter of FLOPs does, sees torch's products instead; what a function transform
    or a mode of fake tensors hands out has no memory to read.
    """
    usual = all(t is None or (t.dtype == torch.float32 and t.device.type == "cpu") for t in given)
    watched = torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() > 0
    return usual and not watched and library.library is not None
