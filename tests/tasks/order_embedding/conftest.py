"""Captioned images that a model can tell apart, and tasks and trainers on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from rmsrepro.compose import compose_config
from rmsrepro.tasks.order_embedding.task import Task

SMALL = ["task=order_embedding", "data=captions", "task.word=8", "task.hidden=16", "train.batch_size=8", "track=none"]
KINDS, WIDTH = 6, 12


def write_split(folder: Path, split: str, images: int, seed: int) -> None:
    """Write images of two kinds each, which both their captions and their features show."""
    draw = np.random.default_rng(seed)
    kinds = np.stack([draw.permutation(KINDS)[:2] for _ in range(images)])
    rows = draw.standard_normal((images, WIDTH)) * 0.1
    np.put_along_axis(rows, kinds, 1.0, axis=1)
    np.save(folder / "images" / "cnn" / f"{split}.npy", rows.astype(np.float16))
    lines = [f"{'very ' * draw.integers(0, 6)}k{a} and k{b} .\n" for a, b in kinds for _ in range(5)]
    (folder / f"{split}.txt").write_text("".join(lines))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """Remember checked files in the test's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def small() -> list[str]:
    """Return overrides that make the model and its batches as small as the data."""
    return SMALL


@pytest.fixture
def pairs_root(tmp_path: Path) -> Path:
    """Return a data root whose folder `captions` has all three splits."""
    folder = tmp_path / "data" / "captions"
    (folder / "images" / "cnn").mkdir(parents=True)
    for seed, (split, images) in enumerate({"train": 42, "dev": 20, "test": 25}.items()):
        write_split(folder, split, images, seed)
    return folder.parent


@pytest.fixture
def load_task(pairs_root: Path) -> Callable[..., Task]:
    """Return a function that loads the task on the captioned images with some overrides."""

    def load(*overrides: str) -> Task:
        task = Task(compose_config([*SMALL, f"data.root={pairs_root}", *overrides]), torch.device("cpu"))
        task.load()
        return task

    return load
