"""One process or many: the few things that training must know of its peers (started by torchrun)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from rmsrepro.errors import ConfigError

T = TypeVar("T")

#: How long a process waits for the others; the main one evaluates alone meanwhile.
PATIENCE = timedelta(hours=6)


@dataclass(frozen=True)
class World:
    """This process's place among those that train together."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Say whether this process writes the run directory."""
        return self.rank == 0

    def sum(self, value: float, device: torch.device) -> float:
        """Return the sum of `value` over all processes."""
        if self.size == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64, device=device)
        dist.all_reduce(total)
        return total.item()

    def max(self, value: int, device: torch.device) -> int:
        """Return the largest `value` of all processes: a signal that one received makes all leave at one step."""
        if self.size == 1:
            return value
        largest = torch.tensor(value, device=device)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest.item())

    def any(self, flag: bool, device: torch.device) -> bool:
        """Say whether `flag` is set in any process."""
        return self.max(int(flag), device) > 0

    def gather(self, value: T) -> list[T]:
        """Return every process's `value`, by rank, in every process."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def share(self, value: T) -> T:
        """Return the main process's `value` in every process."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box)
        return box[0]


def join(device_name: str) -> tuple[World, torch.device]:
    """Join the processes that torchrun started, and return this one's place and device."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    if device_name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device=cuda: torch sees no CUDA device; use device=cpu or device=auto")
    on_gpu = device_name != "cpu" and torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if size > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo", timeout=PATIENCE)
    return World(rank, size), device


def leave(world: World) -> None:
    """Leave the process group."""
    if world.size > 1:
        dist.destroy_process_group()


def wrap(model: nn.Module, world: World, device: torch.device) -> nn.Module:
    """Wrap the model so that gradients are averaged over all processes."""
    if world.size == 1:
        return model
    ids = [device.index] if device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(model, device_ids=ids)
