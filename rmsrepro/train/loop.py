"""The training loop: plain PyTorch, read from top to bottom.

A step is a pure function of (parameters, optimiser state, seed, step): the learning rate, the data and the random
draws follow from the step's number, so a checkpoint holds tensors and one integer.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from rmsrepro import seeding
from rmsrepro.config import Config
from rmsrepro.runs.best import BestTracker
from rmsrepro.runs.sinks import Row
from rmsrepro.tasks.base import Task
from rmsrepro.train import guard
from rmsrepro.train.averaging import TriggeredAverage
from rmsrepro.train.checkpoint import CheckpointError, check_fits
from rmsrepro.train.clip import clip_gradients
from rmsrepro.train.distributed import World, wrap
from rmsrepro.train.guard import DivergedError
from rmsrepro.train.losses import LossWindow
from rmsrepro.train.optim import build_optimizer, set_hyperparameters
from rmsrepro.train.plateau import Plateau
from rmsrepro.train.precision import autocast
from rmsrepro.train.schedule import beta1_at, lr_at
from rmsrepro.train.sums import Sums, SumWindow, means
from rmsrepro.train.timing import StepTimer

#: Steps in a row that a too large loss scale may skip before the run counts as diverged.
MAX_SKIPPED_IN_A_ROW = 40


@dataclass
class Hooks:
    """What the loop tells the outside; each is called by the main process only."""

    on_rows: Callable[[int, Row], None]
    """A row of metrics after a step."""
    on_step: Callable[[int, float], None]
    """A step is done, with its loss."""
    save: Callable[[dict[str, Any]], None]
    """Write a checkpoint."""
    save_best: Callable[[dict[str, Any]], None]
    """Write the best model so far."""
    wants_save: Callable[[int], bool]
    """Whether a checkpoint is due after this many steps."""
    stop_signal: Callable[[], int]
    """The signal that asks the run to leave, or 0."""


@dataclass
class Step:
    """What one optimiser step was made of."""

    loss: Tensor
    """The mean loss, still on the device."""
    weight: float
    """What the loss was divided by, for each process."""
    items: int
    """What throughput counts, over all processes."""
    grad_norm: Tensor | None = None
    sums: list[Sums] = field(default_factory=list)
    """What its micro-batches, but those of padding, tell beside the loss."""


@dataclass
class Outcome:
    """How the loop ended."""

    steps: int
    stopped_by: int = 0
    """The signal that ended it, or 0."""
    reached_target: bool = False


class Trainer:
    """Trains one model on one task. Build it, `restore` a checkpoint if there is one, then `run`."""

    def __init__(
        self, task: Task, model: nn.Module, cfg: Config, device: torch.device, world: World, *, compiled: bool = False
    ) -> None:
        self.task, self.cfg, self.device, self.world = task, cfg, device, world
        self.model = model.to(device)
        self.optimizer = build_optimizer(self.model, cfg.train)
        # The wrappers share the plain model's parameters; checkpoints hold the plain model's names.
        self.parameters = list(self.model.parameters())
        self.runner = wrap(torch.compile(self.model) if compiled else self.model, world, device)  # pyrefly: ignore
        self.scaler = torch.amp.GradScaler(device.type, enabled=cfg.train.precision == "fp16")
        self.timer = StepTimer(device)
        self.losses, self.sums = LossWindow(), SumWindow()
        self.best = BestTracker(task.spec.direction)
        self.plateau = Plateau(cfg.train)
        self.average = TriggeredAverage(self.parameters, cfg.train, task.spec.direction)
        self.step, self.skipped_steps, self.reached_target = 0, 0, False
        self.carry: Any = None
        self.steps_per_epoch = task.batches_per_epoch() // (cfg.train.accumulate * world.size)
        #: What is left over once the last steps of an epoch are full is dropped, for every norm alike.
        self.micro_batches_per_epoch = self.steps_per_epoch * cfg.train.accumulate * world.size
        self.total_steps = total_steps(cfg, self.steps_per_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of the run depends on: tensors and plain values."""
        return {
            "world_size": self.world.size,
            "step": self.step,
            "skipped_steps": self.skipped_steps,
            "reached_target": self.reached_target,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "timer": self.timer.state_dict(),
            "losses": self.losses.state_dict(),
            "sums": self.sums.state_dict(),
            "best": self.best.state_dict(),
            "plateau": self.plateau.state_dict(),
            "average": self.average.state_dict(),
            "carry": self.carry,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; raises CheckpointError for one of another model or number of processes."""
        if state["world_size"] != self.world.size:
            raise CheckpointError(
                f"the checkpoint is of {state['world_size']} processes and there are {self.world.size}: "
                "start as many, or set runs.overwrite=true to start anew"
            )
        check_fits(state["model"], self.model)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.timer.load_state_dict(state["timer"])
        self.losses.load_state_dict(state["losses"])
        self.sums.load_state_dict(state.get("sums", {}))  # older checkpoints have none
        self.best.load_state_dict(state["best"])
        self.plateau.load_state_dict(state["plateau"])
        self.average.load_state_dict(state["average"])
        self.step, self.skipped_steps = state["step"], state["skipped_steps"]
        self.reached_target = state["reached_target"]
        self.carry = _to_device(state["carry"], self.device)

    def run(self, hooks: Hooks) -> Outcome:
        """Train until the last step, the target, or a signal; raises DivergedError at a non-finite number."""
        cfg, log_every = self.cfg.train, self.cfg.track.log_every
        signal = 0
        self.runner.train()
        while self.step < self.total_steps and not self.reached_target and not signal:
            lr = lr_at(self.step, self.total_steps, cfg) * self.plateau.scale
            set_hyperparameters(self.optimizer, lr, beta1_at(self.step, self.total_steps, cfg))
            self.timer.start()
            done = self.train_step(lr)
            self.average.step()
            self.timer.stop(done.items)
            self.step += 1
            self.losses.add(self.step, done.loss, done.weight, lr)
            for sums in done.sums:
                self.sums.add(sums)
            last = self.step == self.total_steps
            row_due, evaluation_due = last or self.step % log_every == 0, self._evaluation_due(last)
            signal = self.world.max(hooks.stop_signal(), self.device)
            save_due = evaluation_due or signal != 0 or hooks.wants_save(self.step)
            # On a GPU a look at the loss makes the host wait, so it is only taken when something depends on it.
            if self.device.type == "cpu" or row_due or save_due:
                self._raise_together(self.losses.check(self.model))
            if self.world.is_main:
                hooks.on_step(self.step, self.losses.latest)
            if row_due:
                row = self._row(lr, done.grad_norm)
                if self.world.is_main:
                    hooks.on_rows(self.step, row | self.timer.recent(log_every))
            if save_due:
                self._raise_together(guard.bad_state(self.model, self.step, lr, self.losses.latest))
            if evaluation_due:
                self.reached_target = self._evaluate(hooks)
            if save_due and self.world.is_main:
                hooks.save(self.state_dict())
        return Outcome(self.step, signal, self.reached_target)

    def train_step(self, lr: float) -> Step:
        """Move the parameters once; counts no step, so that a benchmark may repeat it."""
        number, on_cpu = self.step + 1, self.device.type == "cpu"
        for _ in range(MAX_SKIPPED_IN_A_ROW):
            before = self._moving_state()
            done = self._forward_backward()
            if on_cpu:
                # Found before the parameters move, so the names are those of the tensors at fault.
                finite = math.isfinite(loss := done.loss.item())
                fault = None if finite else guard.diverged(f"the loss is {loss}", self.model, number, lr, loss)
                self._raise_together(fault)
            if not self.scaler.is_enabled():
                done.grad_norm = clip_gradients(self.parameters, self.cfg.train)
                # The gradient is the same in all processes.
                if on_cpu and done.grad_norm is not None and not done.grad_norm.isfinite():
                    raise guard.diverged("the gradient is not finite", self.model, number, lr, done.loss.item())
                self.optimizer.step()
                return done
            scale = self.scaler.get_scale()
            self.scaler.unscale_(self.optimizer)
            done.grad_norm = clip_gradients(self.parameters, self.cfg.train)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if self.scaler.get_scale() >= scale:
                return done
            # The scale was too large and no parameter moved: the same step again, as if this one had not been.
            self.skipped_steps += 1
            self._raise_together(guard.bad_state(self.model, number, lr, done.loss.item()))
            self._move_back(before)
        raise guard.diverged(f"{MAX_SKIPPED_IN_A_ROW} overflows in a row", self.model, number, lr, math.inf)

    def _forward_backward(self) -> Step:
        """Leave the mean loss's gradient in the parameters."""
        accumulate, world = self.cfg.train.accumulate, self.world
        epoch, index = divmod(self.step, self.steps_per_epoch)
        seeding.seed_step(self.cfg.seed, self.step, world.rank)
        carry = self.task.initial_carry() if index == 0 else self.carry
        first = index * accumulate * world.size + world.rank
        batches = [self.task.batch(epoch, first + i * world.size) for i in range(accumulate)]
        # Each process divides by the mean weight per process: averaging gradients then gives the global mean.
        weight = world.sum(sum(batch.weight for batch in batches), self.device) / world.size
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        for number, batch in enumerate(batches):
            with self._sync_only_last(number == accumulate - 1):
                with self._autocast():
                    loss_sum, carry = self.task.loss_sum(self.runner, batch, carry)
                # A batch of padding weighs nothing: it adds 0 to the loss and no NaN.
                loss = loss_sum / weight if weight else loss_sum * 0.0
                self.scaler.scale(loss).backward()
            total += loss.detach()
        self.carry = carry
        items = sum(batch.items for batch in batches) * world.size
        return Step(total, weight, items, sums=[batch.sums for batch in batches if batch.weight])

    def _moving_state(self) -> tuple[Any, list[Tensor]]:
        """Return what a forward pass changes beside the gradients, where the step may have to be repeated."""
        return self.carry, [b.clone() for b in self.model.buffers()] if self.scaler.is_enabled() else []

    @torch.no_grad()
    def _move_back(self, before: tuple[Any, list[Tensor]]) -> None:
        self.carry, buffers = before
        for buffer, value in zip(self.model.buffers(), buffers, strict=True):
            buffer.copy_(value)

    def _raise_together(self, error: DivergedError | None) -> None:
        """Raise in every process what one has found, so that none waits for ever for one that left."""
        if self.world.any(error is not None, self.device):
            raise next(found for found in self.world.gather(error) if found is not None)

    def _row(self, lr: float, grad_norm: Tensor | None) -> Row:
        """Return the row of metrics since the last one."""
        row: Row = {"train/lr": lr}
        if (mean := self.losses.take_mean()) is not None:
            row["train/loss"] = self.world.sum(mean, self.device) / self.world.size
        for name, mean in means(self.world.gather(self.sums.take())).items():
            row[f"train/{name}"] = mean
        if grad_norm is not None:
            row["train/grad_norm"] = grad_norm.item()
        if self.scaler.is_enabled():
            row["train/skipped_steps"] = self.skipped_steps
        return row

    def _evaluation_due(self, last: bool) -> bool:
        every = self.cfg.train.eval_every
        if every is None:
            every = self.steps_per_epoch
        return last or (every > 0 and self.step % every == 0)

    def _evaluate(self, hooks: Hooks) -> bool:
        """Measure on the validation data; return whether the target is reached."""
        value, improved = 0.0, False
        if self.world.is_main:
            metrics = self.evaluate("valid")
            hooks.on_rows(self.step, dict(metrics))
            # An accuracy can look well beside a loss that is not a number; such an evaluation counts as none.
            value = metrics[self.task.spec.select] if all(map(math.isfinite, metrics.values())) else math.nan
            improved = self.best.update(value, self.step)
            if improved:
                with self.average.swapped_in():
                    hooks.save_best({"step": self.step, "model": self.model.state_dict()})
        # Every process follows what the main one measured.
        value, improved = self.world.sum(value, self.device), self.world.any(improved, self.device)
        self.plateau.observe(improved)
        self.average.observe(value)
        return self._is_target(value)

    def evaluate(self, split: str) -> dict[str, float]:
        """Measure `split` with the present parameters, in evaluation mode and with a generator of its own."""
        self.model.eval()
        seeding.seed_step(self.cfg.seed, -1)
        with torch.no_grad(), self._autocast(), self.average.swapped_in():
            metrics = self.task.evaluate(self.model, split)
        self.model.train()
        return metrics

    def _is_target(self, value: float) -> bool:
        target = self.cfg.train.stop_at
        if target is None or math.isnan(value):
            return False
        return value >= target if self.task.spec.direction == "max" else value <= target

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        return autocast(self.cfg.train.precision, self.device.type)

    def _sync_only_last(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        ddp = self.runner if isinstance(self.runner, nn.parallel.DistributedDataParallel) else None
        return contextlib.nullcontext() if last or ddp is None else ddp.no_sync()


def total_steps(cfg: Config, steps_per_epoch: int) -> int:
    """Return how many optimiser steps the run takes."""
    if cfg.train.max_steps is not None:
        return cfg.train.max_steps
    return max(1, round(cfg.train.epochs * steps_per_epoch))


def _to_device(carry: Any, device: torch.device) -> Any:
    if isinstance(carry, torch.Tensor):
        return carry.to(device)
    if isinstance(carry, list | tuple):
        return type(carry)(_to_device(part, device) for part in carry)
    if isinstance(carry, dict):
        return {key: _to_device(part, device) for key, part in carry.items()}
    return carry
