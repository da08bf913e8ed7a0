"""The type that products are taken in: `train.precision`."""

from __future__ import annotations

import contextlib
from typing import Any

import torch


def autocast(precision: str, device_type: str) -> contextlib.AbstractContextManager[Any]:
    """Return the context of forward passes: nothing for fp32, else torch's autocast to bfloat16 or float16."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device_type, torch.bfloat16 if precision == "bf16" else torch.float16)
