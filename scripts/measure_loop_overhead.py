"""Measure what share of a training step the loop takes beside forward, backward and optimiser.

Two arms train the same MNIST MLP in one process, in interleaved blocks of random order: `Trainer` as a run uses it,
and a bare loop of the same forward, backward and optimiser step over batches that lie ready. An A/A row (bare against
bare) shows the noise.

    python scripts/measure_loop_overhead.py [--blocks 30] [--steps 10] [--norm rmsnorm] [--threads N]
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import random
import statistics
import time
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import nn

from rmsrepro.compose import compose_config
from rmsrepro.config import Config
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.base import Batch, Task, build_task
from rmsrepro.train.distributed import World
from rmsrepro.train.loop import Hooks, Trainer
from rmsrepro.train.optim import build_optimizer

CPU = torch.device("cpu")


class Arm(Protocol):
    """One of the loops that are compared."""

    def steps(self, count: int) -> None:
        """Train for `count` steps."""


class BlockDone(Exception):
    """Leaves the trainer's loop between two steps, without the checkpoint that a signal would bring."""


class TrainerArm:
    """The project's loop, a block of steps at a time."""

    def __init__(self, task: Task, model: nn.Module, cfg: Config) -> None:
        self.trainer = Trainer(task, model, cfg, CPU, World())

    def steps(self, count: int) -> None:
        """Train for `count` steps, without evaluating at their end."""
        stop_at = self.trainer.step + count

        def on_step(step: int, loss: float) -> None:
            if step == stop_at:
                raise BlockDone

        hooks = Hooks(
            on_rows=lambda step, row: None,
            on_step=on_step,
            save=lambda state: None,
            save_best=lambda state: None,
            wants_save=lambda step: False,
            stop_signal=lambda: 0,
        )
        with contextlib.suppress(BlockDone):
            self.trainer.run(hooks)


class BareArm:
    """Nothing but forward, backward and optimiser, on batches that lie ready."""

    def __init__(self, batches: list[Batch], model: nn.Module, cfg: Config) -> None:
        self.batches, self.model = batches, model.train()
        self.optimizer = build_optimizer(model, cfg.train)

    def steps(self, count: int) -> None:
        """Train for `count` steps."""
        for number in range(count):
            images, labels = self.batches[number % len(self.batches)].inputs
            self.optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(self.model(images), labels).backward()
            self.optimizer.step()


def measure(one: Arm, other: Arm, blocks: int, steps: int) -> tuple[list[float], list[float]]:
    """Return each arm's step times in ms, one for each block, the arms in random order within a block."""
    times: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(blocks):
        for arm in random.sample((0, 1), 2):
            started = time.perf_counter()
            (one, other)[arm].steps(steps)
            times[arm].append((time.perf_counter() - started) / steps * 1e3)
    return times[0], times[1]


def report(name: str, times: list[float], base: list[float]) -> None:
    """Print the median step and the share of it that the base does not need, with its quartiles."""
    shares = sorted(100 * (1 - b / t) for t, b in zip(times, base, strict=True))
    low, middle, high = statistics.quantiles(shares, n=4)
    print(
        f"{name:>15}: {statistics.median(times):7.3f} ms/step against {statistics.median(base):7.3f} bare; "
        f"overhead {middle:+.1f} % of the step (quartiles {low:+.1f} to {high:+.1f} %)"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="share of a training step outside forward, backward and optimiser")
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--steps", type=int, default=10, help="steps in a block")
    parser.add_argument("--norm", default="rmsnorm")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    random.seed(1)

    # More steps than are made: neither evaluation nor the end falls into a block.
    overrides = [f"norm={arguments.norm}", "device=cpu", "train.eval_every=0", "train.max_steps=1000000"]
    cfg = compose_config(overrides)
    task = build_task(cfg, CPU)
    task.load()
    model = task.build_model(NormFactory(cfg.norm, cfg.impl))
    ready = [task.batch(0, i) for i in range(arguments.steps)]
    bare, again = (BareArm(ready, copy.deepcopy(model), cfg) for _ in range(2))
    trainer = TrainerArm(task, copy.deepcopy(model), cfg)
    for arm in (trainer, bare, again):
        arm.steps(20)
    print(f"MNIST MLP, {arguments.norm}, batch {cfg.train.batch_size}, torch threads {torch.get_num_threads()}")
    report("Trainer", *measure(trainer, bare, arguments.blocks, arguments.steps))
    report("bare again", *measure(again, bare, arguments.blocks, arguments.steps))


if __name__ == "__main__":
    main()
