"""The contract between a task and everything that trains, times or reports it."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rmsrepro.config import Config
from rmsrepro.errors import ConfigError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.data_root import data_root_of


@dataclass(frozen=True)
class TaskSpec:
    """What a task measures; reports and early stopping read it and never name a task."""

    name: str
    primary: str
    """The metric that the task is judged by, such as test/accuracy."""
    direction: Literal["max", "min"]
    """`max` or `min`: which way is better."""
    select: str
    """The validation metric that chooses the best checkpoint."""
    items: str
    """What throughput counts: images, tokens, sentences."""


@dataclass
class Batch:
    """One micro-batch on the task's device."""

    inputs: Any
    """Whatever the task's `loss_sum` reads: a tensor or a tuple or dict of tensors."""
    weight: float
    """What the loss sum is divided by: images, target tokens, sentences. May be 0 for a batch of padding."""
    items: int
    """What throughput counts."""
    sums: dict[str, tuple[Tensor, int]] = field(default_factory=dict)
    """What `loss_sum` leaves for the rows of metrics beside the loss: name -> (a sum without gradient, over how many).

    A row holds the mean since the last row as `train/<name>`.
    """


class Task(ABC):
    """Data, model, loss and metrics of one task, on one device.

    The order of calls is: `sites` (before anything is read), `load`, `build_model`, `init_model`, then batches,
    losses and evaluations. Nothing here knows which norm is used.
    """

    spec: TaskSpec
    """What is measured; set by the class, and by `load` where it depends on which data are there."""

    def __init__(self, cfg: Config, device: torch.device) -> None:
        self.cfg, self.device = cfg, device

    @property
    def data_root(self) -> Path:
        """Return the folder of all data sets; beside the runs where the user's cache cannot be written."""
        return data_root_of(self.cfg)

    @abstractmethod
    def sites(self) -> set[str]:
        """Name the kinds of sites at which the model will ask for a norm, without reading data."""

    @abstractmethod
    def load(self) -> None:
        """Read the data; raises DataError where it is missing or wrong."""

    def load_synthetic(self) -> None:
        """Make up training data of the task's real shapes and lengths in place of `load`, to time steps without data.

        The same for every norm and seed; `build_model`, `batch` and `loss_sum` then work as after `load`.
        """
        raise ConfigError(f"task={self.cfg.task.name} makes up no data: its steps cannot be timed without training")

    @abstractmethod
    def build_model(self, norm: NormFactory) -> nn.Module:
        """Build the model on the CPU; the caller has seeded the generators."""

    def init_model(self, model: nn.Module) -> None:  # noqa: B027 - most models need nothing
        """Initialise what depends on data, once, before the first step and never on resuming."""

    @abstractmethod
    def batches_per_epoch(self) -> int:
        """Return how many micro-batches one epoch holds; 0 where the data is too short for one."""

    @abstractmethod
    def batch(self, epoch: int, index: int) -> Batch:
        """Return micro-batch `index` of `epoch`: a pure function of the seed and these two."""

    @abstractmethod
    def loss_sum(self, model: nn.Module, batch: Batch, carry: Any) -> tuple[Tensor, Any]:
        """Return the loss summed over `batch.weight` units, and what the next batch carries on from."""

    def initial_carry(self) -> Any:
        """Return what an epoch starts from, such as a recurrent state: tensors that a checkpoint can hold."""
        return None

    @abstractmethod
    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        """Measure `valid` or `test`: metrics named `<split>/<metric>`, over every example, in evaluation mode.

        Returns nothing for a test split that is not there, which `spec.primary` then does not name.
        """

    @abstractmethod
    def checksums(self) -> dict[str, str]:
        """Return the checksums of the data that was read, for the manifest."""

    def facts(self) -> dict[str, Any]:
        """Return what else the record should say: sizes, what was dropped, assumptions."""
        return {}

    def files(self) -> dict[str, str]:
        """Return texts that belong beside result.json, by file name: translations, answers; asked for at the end."""
        return {}


def build_task(cfg: Config, device: torch.device) -> Task:
    """Build the configured task: the class `Task` of `rmsrepro.tasks.<name>.task`."""
    return importlib.import_module(f"rmsrepro.tasks.{cfg.task.name}.task").Task(cfg, device)
