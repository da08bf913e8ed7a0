"""A few dozen made-up questions below a data root, and tasks and trainers on them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rmsrepro.compose import compose_config
from rmsrepro.tasks.cnndm_qa.task import Task

SMALL = ["task=cnndm_qa", "data=cloze", "task.hidden=8", "train.batch_size=4", "track=none", "seed=3"]
SMALL += ["task.read_out=vocabulary", "task.entities=permuted", "task.sentences=4"]


def write_questions(folder: Path, count: int, seed: int) -> None:
    """Write `count` questions whose answer is the one who left; passages of 10 to 30 words."""
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    for i in range(count):
        marks = [f"@entity{n}" for n in draw.sample(range(9), 4)]
        filler = " ".join(draw.choices("abcdefghij", k=draw.randrange(4, 20)))
        passage = f"{marks[0]} met {marks[1]} and {marks[2]} . {filler} . {marks[1]} left ."
        names = "\n".join(f"{mark}:name {mark}" for mark in marks)
        text = f"http://a/{i}\n\n{passage}\n\n@placeholder left {marks[0]} behind\n\n{marks[1]}\n\n{names}"
        (folder / f"{folder.name}{i:03}.question").write_text(text)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """Parsed questions go to the test's own folder."""
    monkeypatch.setenv("RMSREPRO_CACHE", str(tmp_path / "prepared"))


@pytest.fixture
def small() -> list[str]:
    """Return overrides that make the model and its batches as small as the data."""
    return SMALL


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Return a data root whose archive `cloze` has all three splits."""
    folder = tmp_path / "data" / "cloze" / "cloze" / "questions"
    for seed, (split, count) in enumerate({"training": 30, "validation": 10, "test": 7}.items()):
        write_questions(folder / split, count, seed)
    return tmp_path / "data"


@pytest.fixture
def load_task(questions: Path) -> Callable[..., Task]:
    """Return a function that loads the task on the questions with some overrides."""

    def load(*overrides: str) -> Task:
        task = Task(compose_config([*SMALL, f"data.root={questions}", *overrides]), torch.device("cpu"))
        task.load()
        return task

    return load
