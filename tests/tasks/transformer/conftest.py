"""The Transformer on a corpus that it can learn in seconds."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tasks.translation.corpus import write_corpus

from rmsrepro.compose import compose_config
from rmsrepro.tasks.transformer.task import Task

SMALL = [
    "task=transformer",
    "data=parallel",
    "task.vocabulary=310",
    "task.dim=16",
    "task.ffn=24",
    "task.heads=2",
    "task.encoder_layers=1",
    "task.decoder_layers=1",
    "task.batch_tokens=400",
    "task.search.beam=2",
    "task.search.max_length_factor=0.1",
    "task.search.max_length_extra=20",
    "train.lr=0.01",
    "train.warmup_steps=10",
    "track=none",
    "seed=3",
]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """Return a data root with the corpus; what is prepared of it is kept for the session."""
    root = tmp_path_factory.mktemp("data")
    write_corpus(root)
    return root


@pytest.fixture(autouse=True)
def _prepared_once(corpus, monkeypatch):
    monkeypatch.setenv("RMSREPRO_CACHE", str(corpus / "prepared"))


@pytest.fixture
def small(corpus: Path) -> list[str]:
    """Return overrides that make the model as small as the corpus."""
    return [*SMALL, f"data.root={corpus}"]


@pytest.fixture
def load_task(small: list[str]) -> Callable[..., Task]:
    """Return a function that loads the task with some overrides."""

    def load(*overrides: str) -> Task:
        task = Task(compose_config([*small, *overrides]), torch.device("cpu"))
        task.load()
        return task

    return load
