"""Which batches a block of steps is made of: few that stand for the whole epoch, and the same in every block.

Batches of sentences differ many times over in length. Blocks of whatever batch comes next would have the spread of the
lengths, not of the machine; blocks of the first one would be of short sentences only.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rmsrepro.tasks.base import Batch, Task

#: Steps whose batches are looked at, spread over the epoch.
_LOOKED_AT = 64


def by_size(task: Task) -> list[int]:
    """Return steps from all over the first epoch, those of the smallest batches first."""
    accumulate = task.cfg.train.accumulate
    number = task.batches_per_epoch() // accumulate
    steps = range(0, number, max(1, number // _LOOKED_AT))

    def numbers(step: int) -> int:
        first = step * accumulate
        return sum(_numbers(task.batch(0, index)) for index in range(first, first + accumulate))

    return sorted(steps, key=numbers)


def spread(ordered: list[int], calls: int) -> list[int]:
    """Return `calls` of the steps at even distances in size: of one the middle one, of many each about as often."""
    return [ordered[int((call + 0.5) * len(ordered) / calls)] for call in range(calls)]


def tensors(inputs: Any) -> list[Tensor]:
    """Return the tensors in a batch's inputs, however a task holds them."""
    if isinstance(inputs, Tensor):
        return [inputs]
    if isinstance(inputs, list | tuple):
        parts = inputs
    else:
        parts = (inputs if isinstance(inputs, dict) else getattr(inputs, "__dict__", {})).values()
    return [tensor for part in parts for tensor in tensors(part)]


def _numbers(batch: Batch) -> int:
    """Count what the model is given, padding included."""
    return sum(tensor.numel() for tensor in tensors(batch.inputs))
