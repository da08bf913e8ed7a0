"""The typed configuration of one run, free of torch so that a bad value is refused at once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from rmsrepro.errors import ConfigError
from rmsrepro.kernels.spec import IMPLS
from rmsrepro.norms.config import NormConfig

SIZES = ("tiny", "small", "paper")
OPTIMIZERS = ("adam", "adamw", "sgd", "adam_eps_inside", "adam_order_embedding")

#: Parts that say where things lie and what is written down, not what is computed; the run's hash leaves them out.
UNHASHED = ("runs", "track", "tag")


@dataclass
class DataConfig:
    """Which data set, and where data sets lie."""

    name: str = ""
    """The data set's name, a file of conf/data."""
    root: str | None = None
    """The folder with one folder per data set; else $RMSREPRO_DATA, else the user's cache."""


@dataclass
class TrainConfig:
    """The shared trainer: optimiser, schedule, length, precision."""

    batch_size: int = 128
    """Items in one forward pass of one process."""
    accumulate: int = 1
    """Forward passes whose gradients are summed into one step."""
    epochs: float = 1.0
    """Passes over the training data; `max_steps` overrides it."""
    max_steps: int | None = None
    """Optimiser steps; null means `epochs` decides."""
    optimizer: str = "adam"
    """adam, adamw, sgd, adam_eps_inside (eps under the root: the paper's CIFAR-10 code), or adam_order_embedding."""
    lr: float = 1e-3
    """The peak learning rate."""
    beta1: float = 0.9
    """Adam's decay of the mean; SGD's momentum is `momentum`."""
    beta2: float = 0.999
    """Adam's decay of the mean square."""
    beta1_late: float | None = None
    """Adam's beta1 from `decay_start` on; null keeps `beta1`."""
    adam_eps: float = 1e-8
    """Adam's eps."""
    momentum: float = 0.0
    """SGD's momentum."""
    weight_decay: float = 0.0
    """Decay of weight matrices; gains, shifts and biases are never decayed."""
    schedule: str = "constant"
    """constant, linear (to zero), cosine (to zero), inverse_sqrt, or plateau (divided when validation stalls)."""
    warmup_steps: int = 0
    """Steps of linear warm-up from zero."""
    decay_start: float = 0.0
    """The share of training after which linear and cosine decay begin."""
    plateau_factor: float = 4.0
    """What `plateau` divides the learning rate by."""
    plateau_patience: int = 1
    """Evaluations in a row without a new best after which `plateau` divides."""
    average: str = "none"
    """none, or nt_asgd: judge the mean of the parameters once validation stalls (Merity et al. 2018)."""
    average_patience: int = 5
    """nt_asgd starts at an evaluation worse than the best of those more than so many evaluations ago."""
    clip_norm: float | None = None
    """Scale the whole gradient down to this L2 norm."""
    clip_norm_per_tensor: float | None = None
    """Scale each tensor's gradient down to this L2 norm (order-embedding's code does)."""
    precision: str = "fp32"
    """fp32, bf16 (autocast) or fp16 (autocast with loss scaling)."""
    eval_every: int | None = None
    """Steps between evaluations; null means once an epoch, 0 only at the end."""
    report: str = "last"
    """Which parameters the test metrics come from: last, or best on the validation data."""
    stop_at: float | None = None
    """Stop once the validation metric is this good."""
    deterministic: bool = False
    """Ask torch for deterministic algorithms on a GPU too."""
    threads: int | None = None
    """Threads torch computes with; null leaves torch's choice."""

    def validate(self) -> None:
        """Refuse values that mean nothing."""
        _at_least("train", self, 1, "batch_size", "accumulate", "max_steps", "threads", "plateau_patience")
        _at_least("train", self, 0, "average_patience", "eval_every", "warmup_steps")
        _positive("train", self, "epochs", "lr", "adam_eps", "clip_norm", "clip_norm_per_tensor")
        _share("train", self, "beta1", "beta2", "beta1_late", "momentum", "decay_start")
        if not 0 <= self.weight_decay < float("inf"):
            raise ConfigError(f"train.weight_decay={self.weight_decay}: allowed is 0 or more")
        if self.stop_at is not None and not abs(self.stop_at) < float("inf"):
            raise ConfigError(f"train.stop_at={self.stop_at}: allowed is a finite number")
        _one_of("train.optimizer", self.optimizer, OPTIMIZERS)
        if not 1 < self.plateau_factor < float("inf"):
            raise ConfigError(f"train.plateau_factor={self.plateau_factor}: allowed is a finite number above 1")
        _one_of("train.schedule", self.schedule, ("constant", "linear", "cosine", "inverse_sqrt", "plateau"))
        _one_of("train.average", self.average, ("none", "nt_asgd"))
        _one_of("train.precision", self.precision, ("fp32", "bf16", "fp16"))
        _one_of("train.report", self.report, ("last", "best"))


@dataclass
class TrackConfig:
    """What is written down while a run trains, beside its own files."""

    wandb: bool = True
    """Log to Weights & Biases; offline where there is no account."""
    mode: str = "auto"
    """auto, online, offline or disabled."""
    project: str = "rmsrepro"
    """The W&B project."""
    entity: str | None = None
    """The W&B user or team."""
    group: str | None = None
    """The W&B group: the plan's name in a sweep, else the task's."""
    log_every: int = 50
    """Steps between two rows of metrics."""
    progress: bool = True
    """Show progress."""

    def validate(self) -> None:
        """Refuse values that mean nothing."""
        _at_least("track", self, 1, "log_every")
        _one_of("track.mode", self.mode, ("auto", "online", "offline", "disabled"))


@dataclass
class RunsConfig:
    """Where run directories lie and how often they are saved to."""

    root: str | None = None
    """The folder of all runs; else $RMSREPRO_RUNS, else results/runs."""
    overwrite: bool = False
    """Throw away what an earlier run with this configuration left, and start again."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; null means one a minute and at every evaluation."""

    def validate(self) -> None:
        """Refuse values that mean nothing."""
        _at_least("runs", self, 1, "checkpoint_every")


@dataclass
class TaskConfig:
    """What every task's configuration has; a task's own config.py adds its fields."""

    name: str = ""

    def datasets(self) -> tuple[str, ...] | None:
        """Name the data sets that the task can train on; None where it takes any of its kind."""
        return None

    def validate(self) -> None:
        """Refuse values that mean nothing."""


@dataclass
class Config:
    """One run: everything that decides its numbers, and where it is written."""

    task: TaskConfig = field(default_factory=TaskConfig)
    norm: NormConfig = field(default_factory=NormConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    track: TrackConfig = field(default_factory=TrackConfig)
    runs: RunsConfig = field(default_factory=RunsConfig)
    size: str = "small"
    impl: str = "auto"
    seed: int = 1
    device: str = "auto"
    """auto (a GPU where there is one), cpu or cuda."""
    tag: str | None = None
    """A label of your own, kept in the record."""

    def validate(self) -> None:
        """Refuse values and combinations that cannot be run, before any data is read."""
        _one_of("size", self.size, SIZES)
        _one_of("impl", self.impl, IMPLS)
        _one_of("device", self.device, ("auto", "cpu", "cuda"))
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"seed={self.seed}: allowed is 0 to 4294967295")
        for part in (self.task, self.norm, self.train, self.track, self.runs):
            part.validate()
        allowed = self.task.datasets()
        if allowed is not None:
            _one_of(f"task={self.task.name}: data", self.data.name, allowed)

    def hashed(self) -> dict[str, Any]:
        """Return the part that decides the numbers: no paths, nothing about logging."""
        values = {key: value for key, value in asdict(self).items() if key not in UNHASHED}
        values["data"] = {key: value for key, value in values["data"].items() if key != "root"}
        return values

    def hash(self) -> str:
        """Return 12 hexadecimal digits that name this run; equal configurations have equal hashes."""
        text = json.dumps(self.hashed(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name}={value}: allowed are {', '.join(allowed)}")


def _at_least(prefix: str, part: object, least: int, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        if value is not None and value < least:
            raise ConfigError(f"{prefix}.{name}={value}: allowed is {least} or more")


def _positive(prefix: str, part: object, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{prefix}.{name}={value}: allowed is a finite number above 0")


def _share(prefix: str, part: object, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        if value is not None and not 0 <= value < 1:
            raise ConfigError(f"{prefix}.{name}={value}: allowed is 0 <= {name} < 1")
