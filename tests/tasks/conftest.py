"""What the tests of every task share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.base import Task
from rmsrepro.train.distributed import World
from rmsrepro.train.loop import Trainer


@pytest.fixture
def start_trainer(load_task: Callable[..., Task]) -> Callable[..., Trainer]:
    """Return a function that builds a trainer of the task that `load_task` loads with some overrides."""

    def start(*overrides: str) -> Trainer:
        task = load_task(*overrides)
        torch.manual_seed(task.cfg.seed)
        model = task.build_model(NormFactory(task.cfg.norm, task.cfg.impl))
        return Trainer(task, model, task.cfg, torch.device("cpu"), World())

    return start
