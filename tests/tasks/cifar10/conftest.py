"""A CIFAR-10 of random images in the real file format, and the task built on it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from rmsrepro.compose import compose_config
from rmsrepro.config import Config
from rmsrepro.data.cifar10 import load_cifar10
from rmsrepro.data.cifar_batches import to_records
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.cifar10 import task as task_module
from rmsrepro.tasks.cifar10.model import ConvPoolCNNC
from rmsrepro.tasks.cifar10.task import Task

CPU = torch.device("cpu")
#: What makes a run of seconds out of any norm's recipe.
NARROW = ["size=tiny", "task.width_factor=0.05", "task.validation=50", "train.batch_size=10", "track=none"]


def config(norm: str, *overrides: str) -> Config:
    return compose_config(["task=cifar10", f"norm={norm}", *overrides])


def build(norm: str, *overrides: str) -> ConvPoolCNNC:
    """Build the task's model, without data."""
    torch.manual_seed(1)
    cfg = config(norm, *overrides)
    model = Task(cfg, CPU).build_model(NormFactory(cfg.norm, "composed"))
    assert isinstance(model, ConvPoolCNNC)
    return model


@pytest.fixture
def data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write 200 training and 40 test images below a data root that the task accepts."""
    random = np.random.default_rng(0)
    folder = tmp_path / "data" / "cifar10"
    folder.mkdir(parents=True)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        pixels = random.integers(0, 256, (40, 3072), dtype=np.uint8)
        (folder / f"{name}.bin").write_bytes(to_records(pixels, random.integers(0, 10, 40)))
    monkeypatch.setattr(task_module, "load_cifar10", partial(load_cifar10, allow_noncanonical=True))
    return tmp_path / "data"


@pytest.fixture
def loaded(data_root: Path, tmp_path: Path):
    """Return a function that loads the task for a norm and overrides."""

    def load(norm: str = "rmsnorm", *overrides: str) -> Task:
        cfg = config(norm, *NARROW, f"data.root={data_root}", f"runs.root={tmp_path / 'runs'}", *overrides)
        task = Task(cfg, CPU)
        task.load()
        return task

    return load


@pytest.fixture(name="config")
def _config():
    return config


@pytest.fixture(name="build")
def _build():
    return build


@pytest.fixture
def narrow() -> list[str]:
    return NARROW
