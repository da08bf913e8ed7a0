"""The contestants of the step benchmark: for each arm of a plan a trainer whose step can be repeated.

All arms of a session stay in memory, for blocks that follow one another closely are what makes them comparable. What
an arm keeps between its turns is its parameters, a copy of them and the optimiser's state, 16 bytes a parameter with
Adam; gradients are dropped after each call and activations end with the step, so the session needs that for every arm,
and one step.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from rmsrepro import seeding
from rmsrepro.bench.memory import refusing_what_does_not_fit, require_room
from rmsrepro.bench.step_batches import by_size, spread
from rmsrepro.config import Config
from rmsrepro.errors import ConfigError, UserError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.sweep.plan import load_plan, strongest
from rmsrepro.sweep.specs import compose_checked
from rmsrepro.tasks import base
from rmsrepro.tasks.base import build_task
from rmsrepro.train.distributed import World
from rmsrepro.train.guard import DivergedError
from rmsrepro.train.loop import Trainer
from rmsrepro.train.optim import set_hyperparameters

#: The norm whose arm others are divided by, and that is timed twice.
REFERENCE = "layernorm"
#: What to do where arms do not fit into memory.
SMALLER = "take a smaller size or batch, or fewer norms with task=T norms=A,B"
#: Bytes that an arm keeps for each parameter: itself, its first value and two moments, in float32.
_KEPT_BYTES = 16


@dataclass(frozen=True)
class Contest:
    """What one table times: named override lists at one size."""

    name: str
    """The plan that records are filed under, or the task's name."""
    task: str
    size: str
    arms: dict[str, list[str]]
    """Arm name -> its overrides, without seed, impl and device."""


def contest_of_plan(name: str, size: str, overrides: Sequence[str] = ()) -> Contest:
    """Return the arms of a plan; raises ConfigError for a plan without runs."""
    plan = load_plan(name)
    if not plan.arms:
        raise ConfigError(f"plan={name} has no runs, so there is nothing to time")
    arms = {arm: strongest([*plan.overrides(arm, size), *overrides]) for arm in plan.arms}
    return Contest(plan.runs_plan, plan.task, size, arms)


def contest_of_task(task: str, norms: Sequence[str], size: str, overrides: Sequence[str] = ()) -> Contest:
    """Return one arm for each norm."""
    arms = {norm: strongest([f"task={task}", f"size={size}", f"norm={norm}", *overrides]) for norm in norms}
    return Contest(task, task, size, arms)


def arm_config(contest: Contest, arm: str, impl: str, device: str) -> Config:
    """Compose one arm as its training run would be."""
    settings = [f"impl={impl}", f"device={device}", "seed=1", "track=none"]
    return compose_checked(f"{contest.name}, arm {arm}", strongest([*contest.arms[arm], *settings]))


def counterpart(contest: Contest, arm: str, norm: str) -> str | None:
    """Return the arm with `norm` that otherwise overrides what `arm` does, else the first with `norm`; None if none is.

    So an arm in one code base's setting is compared with arms in the same setting.
    """

    def rest(name: str) -> list[str]:
        return [word for word in contest.arms[name] if not word.startswith(("norm=", "norm."))]

    found = [name for name, words in contest.arms.items() if f"norm={norm}" in words]
    return next((name for name in found if rest(name) == rest(arm)), found[0] if found else None)


def makes_up_data(task: str) -> bool:
    """Say whether a task can be timed without its data."""
    module = importlib.import_module(f"rmsrepro.tasks.{task}.task")
    return module.Task.load_synthetic is not base.Task.load_synthetic


class StepArm:
    """One arm: a trainer's own step at a learning rate of 0, so that a block of every arm is the same work.

    A loss or gradient may still overflow, as a partial statistic over few features that dropout sets to 0 does. On a
    CPU the trainer then stops before the optimiser's part: the arm starts anew from its first parameters and carry,
    and `cut_short` counts such calls.
    """

    def __init__(self, trainer: Trainer, beta1: float) -> None:
        self._trainer = trainer
        self._first = [parameter.detach().clone() for parameter in trainer.parameters]
        self._batches = by_size(trainer.task)
        self._chosen, self._next = spread(self._batches, 1), 0
        trainer.carry = trainer.task.initial_carry()
        self.calls = self.cut_short = 0
        set_hyperparameters(trainer.optimizer, 0.0, beta1)

    def begin(self, calls: int) -> None:
        """Choose the batches of the next `calls` calls."""
        self._chosen, self._next = spread(self._batches, calls), 0

    def __call__(self) -> None:
        """Make one step."""
        trainer = self._trainer
        self.calls += 1
        trainer.step = self._chosen[self._next % len(self._chosen)]
        self._next += 1
        try:
            trainer.train_step(0.0)
        except DivergedError:
            self.cut_short += 1
            self._start_anew()
        trainer.optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def _start_anew(self) -> None:
        self._trainer.carry = self._trainer.task.initial_carry()
        for parameter, value in zip(self._trainer.parameters, self._first, strict=True):
            parameter.copy_(value)
        self._trainer.optimizer.state.clear()


def build_steps(contest: Contest, impl: str, device: torch.device, say: Callable[[str], None]) -> dict[str, StepArm]:
    """Build every arm and make its first step; an arm that `impl` cannot compute is left out, and said.

    So is one that `impl` leaves to another: its ratio to those that `impl` computes would mix the two.

    Raises ConfigError where one arm's step, or the arms together, do not fit into memory.
    """
    steps: dict[str, StepArm] = {}
    for arm in contest.arms:
        cfg = arm_config(contest, arm, impl, device.type)
        with refusing_what_does_not_fit(f"bench steps: one step with {' '.join(contest.arms[arm])}", SMALLER):
            try:
                factory = NormFactory(cfg.norm, cfg.impl)
                _require_impl(factory, device.type)
                trainer = _build_trainer(cfg, factory, device)
                step = StepArm(trainer, cfg.train.beta1)
                step()
            except UserError as error:
                say(f"{contest.name}, arm {arm} is not timed with impl={impl}: {error}")
                continue
        _require_room(trainer, device, len(contest.arms) - len(steps) - 1)
        steps[arm] = step
    return steps


def _require_impl(factory: NormFactory, device: str) -> None:
    found = factory.resolved_impl(device)
    if factory.impl == "torch" and found != "torch":
        raise ConfigError(f"torch has no operation for this norm, {found} would compute it; time impls={found}")


def _build_trainer(cfg: Config, factory: NormFactory, device: torch.device) -> Trainer:
    task = build_task(cfg, device)
    factory.require(task.sites(), cfg.train.batch_size, device.type)
    task.load_synthetic()
    seeding.seed_step(cfg.seed, 0)
    trainer = Trainer(task, task.build_model(factory), cfg, device, World(), compiled=cfg.impl == "compile")
    task.init_model(trainer.model)
    trainer.runner.train()
    return trainer


def _require_room(trainer: Trainer, device: torch.device, more_arms: int) -> None:
    kept = sum(parameter.numel() for parameter in trainer.parameters) * _KEPT_BYTES
    require_room(f"bench steps: this arm and {more_arms} more", kept * (more_arms + 1), str(device), SMALLER)
