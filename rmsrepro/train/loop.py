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
from rmsrepro.train.clip import clip_gradients
from rmsrepro.train.distributed import World, wrap
from rmsrepro.train.optim import build_optimizer, set_hyperparameters
from rmsrepro.train.plateau import Plateau
from rmsrepro.train.schedule import beta1_at, lr_at
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
class Outcome:
    """How the loop ended."""

    steps: int
    stopped_by: int = 0
    """The signal that ended it early, or 0."""
    reached_target: bool = False
    eval_history: list[dict[str, float]] = field(default_factory=list)


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
        self.best = BestTracker(task.spec.direction)
        self.plateau = Plateau(cfg.train)
        self.average = TriggeredAverage(self.parameters, cfg.train, task.spec.direction)
        self.step, self.skipped_steps = 0, 0
        self.carry: Any = None
        self.steps_per_epoch = task.batches_per_epoch() // (cfg.train.accumulate * world.size)
        self.total_steps = total_steps(cfg, self.steps_per_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of the run depends on: tensors and plain values."""
        return {
            "step": self.step,
            "skipped_steps": self.skipped_steps,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "timer": self.timer.state_dict(),
            "best": self.best.state_dict(),
            "plateau": self.plateau.state_dict(),
            "average": self.average.state_dict(),
            "carry": self.carry,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; a model with other names is refused, naming what is missing and unexpected."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.timer.load_state_dict(state["timer"])
        self.best.load_state_dict(state["best"])
        self.plateau.load_state_dict(state["plateau"])
        self.average.load_state_dict(state["average"])
        self.step, self.skipped_steps = state["step"], state["skipped_steps"]
        self.carry = _to_device(state["carry"], self.device)

    def run(self, hooks: Hooks) -> Outcome:
        """Train until the last step, the target, or a signal; raises DivergedError at a non-finite loss."""
        cfg, log_every = self.cfg.train, self.cfg.track.log_every
        outcome = Outcome(self.step)
        losses = LossWindow(self.step)
        self.runner.train()
        while self.step < self.total_steps:
            lr = lr_at(self.step, self.total_steps, cfg) * self.plateau.scale
            set_hyperparameters(self.optimizer, lr, beta1_at(self.step, self.total_steps, cfg))
            self.timer.start()
            loss, items, grad_norm = self._train_step(lr)
            self.timer.stop(items)
            losses.add(loss, lr)
            self.average.step()
            self.step += 1
            last = self.step == self.total_steps
            row_due, evaluation_due = last or self.step % log_every == 0, self._evaluation_due(last)
            signal = hooks.stop_signal()
            leaving = self.world.any(signal != 0, self.device)
            save_due = evaluation_due or leaving or hooks.wants_save(self.step)
            # On a GPU a look at the loss makes the host wait, so it is only taken when something depends on it.
            if self.device.type == "cpu" or row_due or save_due:
                losses.check(self.model)
            if self.world.is_main:
                hooks.on_step(self.step, losses.latest)
            if row_due:
                row: Row = {"train/loss": self.world.sum(losses.mean(), self.device) / self.world.size, "train/lr": lr}
                row |= {} if grad_norm is None else {"train/grad_norm": grad_norm.item()}
                row |= {"train/skipped_steps": float(self.skipped_steps)} if self.scaler.is_enabled() else {}
                if self.world.is_main:
                    hooks.on_rows(self.step, row | self.timer.recent(log_every))
            if save_due:
                guard.check_state(self.model, self.step, lr, losses.latest)
            if evaluation_due:
                outcome.reached_target = self._evaluate(hooks, outcome)
            if save_due and self.world.is_main:
                hooks.save(self.state_dict())
            if outcome.reached_target or (leaving and not last):
                outcome.stopped_by = signal if leaving else 0
                break
        outcome.steps = self.step
        return outcome

    def _train_step(self, lr: float) -> tuple[Tensor, int, Tensor | None]:
        """Move the parameters once; return the mean loss, the items worked through and the gradient norm."""
        for _ in range(MAX_SKIPPED_IN_A_ROW):
            loss, items = self._forward_backward()
            if self.device.type == "cpu" and not math.isfinite(loss.item()):
                # Found before the parameters move, so the names are those of the tensors at fault.
                raise guard.diverged(f"the loss is {loss.item()}", self.model, self.step, lr, loss.item())
            if not self.scaler.is_enabled():
                grad_norm = clip_gradients(self.parameters, self.cfg.train)
                if self.device.type == "cpu" and grad_norm is not None and not grad_norm.isfinite():
                    raise guard.diverged("the gradient is not finite", self.model, self.step, lr, loss.item())
                self.optimizer.step()
                return loss, items, grad_norm
            scale = self.scaler.get_scale()
            self.scaler.unscale_(self.optimizer)
            grad_norm = clip_gradients(self.parameters, self.cfg.train)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if self.scaler.get_scale() >= scale:
                return loss, items, grad_norm
            # The scale was too large and nothing moved: the same step again, with the same data and draws.
            self.skipped_steps += 1
            guard.check_state(self.model, self.step, lr, loss.item())
        raise guard.diverged(f"{MAX_SKIPPED_IN_A_ROW} overflows in a row", self.model, self.step, lr, math.inf)

    def _forward_backward(self) -> tuple[Tensor, int]:
        """Leave the mean loss's gradient in the parameters; return that loss and the items worked through."""
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
        return total, sum(batch.items for batch in batches) * world.size

    def _evaluation_due(self, last: bool) -> bool:
        every = self.cfg.train.eval_every
        if every is None:
            every = self.steps_per_epoch
        return last or (every > 0 and self.step % every == 0)

    def _evaluate(self, hooks: Hooks, outcome: Outcome) -> bool:
        """Measure on the validation data; return whether the target is reached."""
        value, improved = 0.0, False
        if self.world.is_main:
            metrics = self.evaluate("valid")
            hooks.on_rows(self.step, dict(metrics))
            outcome.eval_history.append(metrics)
            value = metrics[self.task.spec.select]
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
        precision = self.cfg.train.precision
        if precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16 if precision == "bf16" else torch.float16)

    def _sync_only_last(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        ddp = self.runner if isinstance(self.runner, nn.parallel.DistributedDataParallel) else None
        return contextlib.nullcontext() if last or ddp is None else ddp.no_sync()


class LossWindow:
    """The losses since the last row of metrics, left on the device until somebody looks."""

    def __init__(self, first_step: int) -> None:
        self.latest = math.nan
        self._next_step = first_step
        self._losses: list[Tensor] = []
        self._lrs: list[float] = []
        self._checked: list[float] = []

    def add(self, loss: Tensor, lr: float) -> None:
        """Keep one step's loss."""
        self._losses.append(loss)
        self._lrs.append(lr)

    def check(self, model: nn.Module) -> None:
        """Bring the losses to the host; raise DivergedError at the first that is not finite."""
        for loss, lr in zip(torch.stack(self._losses).tolist() if self._losses else [], self._lrs, strict=True):
            if not math.isfinite(loss):
                raise guard.diverged(f"the loss is {loss}", model, self._next_step, lr, loss)
            self._next_step += 1
            self._checked.append(loss)
            self.latest = loss
        self._losses.clear()
        self._lrs.clear()

    def mean(self) -> float:
        """Return the mean of the checked losses since the last call."""
        mean = math.fsum(self._checked) / len(self._checked)
        self._checked.clear()
        return mean


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
