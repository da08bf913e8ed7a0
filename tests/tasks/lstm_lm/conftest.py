"""A corpus of a few hundred tokens, and tasks and trainers on it."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rmsrepro.compose import compose_config
from rmsrepro.tasks.lstm_lm.task import Task

SMALL = ["task=lstm_lm", "data=text", "task.hidden=8", "task.bptt=5", "train.batch_size=4", "track=none", "seed=3"]


def sentences(count: int, seed: int) -> str:
    """Return all twelve words and `count` lines of up to seven of them, the early ones more often."""
    draw = random.Random(seed)
    words = "abcdefghijkl"
    lines = (draw.choices(words, weights=range(12, 0, -1), k=draw.randrange(8)) for _ in range(count))
    return "".join(" ".join(line) + "\n" for line in (words, *lines))


@pytest.fixture
def small() -> list[str]:
    """Return overrides that make the model and its batches as small as the corpus."""
    return SMALL


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return a data root whose folder `text` has all three splits."""
    folder = tmp_path / "data" / "text"
    folder.mkdir(parents=True)
    for seed, (split, count) in enumerate({"train": 60, "valid": 20, "test": 15}.items()):
        (folder / f"{split}.txt").write_text(sentences(count, seed))
    return folder.parent


@pytest.fixture
def load_task(corpus: Path) -> Callable[..., Task]:
    """Return a function that loads the task on the corpus with some overrides."""

    def load(*overrides: str) -> Task:
        task = Task(compose_config([*SMALL, f"data.root={corpus}", *overrides]), torch.device("cpu"))
        task.load()
        return task

    return load
