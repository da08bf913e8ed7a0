"""The contestants of the step benchmark: for each arm of a plan a trainer whose step can be repeated.

All arms of a session stay in memory, for blocks that follow one another closely are what makes them comparable. What
an arm keeps between its turns is its parameters and the optimiser's state, 12 bytes a parameter with Adam; gradients
are dropped after each call and activations end with the step, so the session needs that for every arm, and one step.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from rmsrepro import seeding
from rmsrepro.config import Config
from rmsrepro.errors import ConfigError, UserError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.sweep.plan import load_plan, strongest
from rmsrepro.sweep.specs import compose_checked
from rmsrepro.tasks import base
from rmsrepro.tasks.base import build_task
from rmsrepro.train.distributed import World
from rmsrepro.train.loop import Trainer
from rmsrepro.train.optim import set_hyperparameters

#: The norm whose arm others are divided by, and that is timed twice.
REFERENCE = "layernorm"
#: Bytes that an arm may keep for each parameter: itself and two moments, in float32.
_KEPT_BYTES = 12


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


def build_steps(
    contest: Contest, impl: str, device: torch.device, say: Callable[[str], None]
) -> dict[str, Callable[[], object]]:
    """Build every arm and return its step; an arm that `impl` cannot compute is left out, and said.

    Raises ConfigError where the arms do not fit into memory together.
    """
    steps: dict[str, Callable[[], object]] = {}
    for arm in contest.arms:
        cfg = arm_config(contest, arm, impl, device.type)
        try:
            factory = NormFactory(cfg.norm, cfg.impl)
            factory.resolved_impl(device.type)
        except UserError as error:
            say(f"{contest.name}, arm {arm} is not timed with impl={impl}: {error}")
            continue
        trainer = _build_trainer(cfg, factory, device)
        _require_room(trainer, device, len(contest.arms) - len(steps) - 1)
        steps[arm] = _step(trainer, cfg)
    return steps


def _build_trainer(cfg: Config, factory: NormFactory, device: torch.device) -> Trainer:
    task = build_task(cfg, device)
    factory.require(task.sites(), cfg.train.batch_size, device.type)
    task.load_synthetic()
    seeding.seed_step(cfg.seed, 0)
    trainer = Trainer(task, task.build_model(factory), cfg, device, World(), compiled=cfg.impl == "compile")
    task.init_model(trainer.model)
    trainer.runner.train()
    return trainer


def _step(trainer: Trainer, cfg: Config) -> Callable[[], object]:
    """Return the trainer's own step at a learning rate of 0: every call does the same work and no arm can diverge."""
    set_hyperparameters(trainer.optimizer, 0.0, cfg.train.beta1)

    def step() -> object:
        done = trainer.train_step(0.0)
        trainer.step += 1
        trainer.optimizer.zero_grad(set_to_none=True)
        return done

    return step


def _require_room(trainer: Trainer, device: torch.device, more_arms: int) -> None:
    """Refuse before the system runs out of memory, which on a CPU would end the process without a word."""
    kept = sum(parameter.numel() for parameter in trainer.parameters) * _KEPT_BYTES
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
    else:
        import psutil

        free = psutil.virtual_memory().available
    if kept * (more_arms + 1) > free:
        raise ConfigError(
            f"bench steps: {more_arms} further arms of {kept / 1e9:.1f} GB do not fit into {free / 1e9:.1f} GB;"
            " take a smaller size, or fewer norms with task=T norms=A,B"
        )
