"""Which tensors the CPU kernels can stand for torch's operations on."""

from __future__ import annotations

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import library
from rmsrepro.kernels.watched import is_watched


def serves(*given: Tensor | None) -> bool:
    """Say whether kernels compute with these: float32 in a CPU's memory, the kernels built, and nobody watching.

    What watches each operation, as a counter of FLOPs does, sees torch's products instead.
    """
    usual = all(t is None or (t.dtype == torch.float32 and t.device.type == "cpu") for t in given)
    return usual and not is_watched() and library.library is not None
