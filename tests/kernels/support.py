"""What the kernel tests share: the device to test on, and the formulas in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rmsrepro.kernels import choice

SIZES = (1, 3, 36, 50, 240, 650, 760, 1128, 3000, 4096, 8193, 65537)


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


needs_kernels = pytest.mark.skipif(choice.backend(device()) is None, reason="the fused kernels are not built here")


def exact(
    x: Tensor, gain: Tensor | None, bias: Tensor | None, eps: float, *, centre: bool, k: int, outside: bool = False
) -> Tensor:
    """The formula in float64, differentiable, written apart from the package's own."""
    a = x.double()
    if centre:
        a = a - a.mean(-1, keepdim=True)
    ms = (a[..., :k] ** 2).sum(-1, keepdim=True) / k
    y = a / (ms.sqrt() + eps) if outside else a / (ms + eps).sqrt()
    if gain is not None:
        y = y * gain.double()
    return y if bias is None else y + bias.double()


def capture_by_hand(function, inputs):
    """Stand in for a recorded CUDA graph: keep inputs and results where they are, and compute again on replay."""
    results = function(*inputs)

    def replay() -> None:
        for fixed, value in zip(results, function(*inputs), strict=True):
            if fixed is not None:
                fixed.copy_(value)

    return results, replay
