"""RNNSearch from text files to scores, through the task contract."""

from __future__ import annotations

import random

import pytest
import torch

from rmsrepro.compose import compose_config
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.rnnsearch.task import Task
from rmsrepro.train.distributed import World
from rmsrepro.train.loop import Trainer


@pytest.fixture
def trainer(tmp_path, monkeypatch):
    """Return a trainer on made-up pairs whose target is the source, word by word in other letters."""
    monkeypatch.setenv("RMSREPRO_CACHE", str(tmp_path / "prepared"))
    folder = tmp_path / "data" / "parallel"
    folder.mkdir(parents=True)
    draw = random.Random(0)
    for stem, count in (("train", 80), ("valid", 12)):
        lines = [[draw.choice("abcdefgh") for _ in range(draw.randint(2, 6))] for _ in range(count)]
        (folder / f"{stem}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{stem}.de").write_text("".join(" ".join(line).upper() + "\n" for line in lines))
    overrides = ["task=rnnsearch", "data=parallel", f"data.root={folder.parent}", "size=tiny", "task.vocabulary=281"]
    cfg = compose_config([*overrides, "train.lr=3e-3", "train.max_steps=30", "task.dropout=0"])
    task = Task(cfg, torch.device("cpu"))
    task.load()
    torch.manual_seed(1)
    return Trainer(task, task.build_model(NormFactory(cfg.norm, cfg.impl)), cfg, torch.device("cpu"), World())


def test_it_learns_and_measures_its_decoder(trainer):
    before = trainer.evaluate("valid")
    for index in range(20):
        batch = trainer.task.batch(0, index % trainer.task.batches_per_epoch())
        loss, _ = trainer.task.loss_sum(trainer.model, batch, None)
        (loss / batch.weight).backward()
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
    after = trainer.evaluate("valid")
    assert after["valid/loss"] < 0.9 * before["valid/loss"]
    places = ("1", "2", "3", "4", "all")
    assert {f"hidden/{what}_{place}" for what in ("mean", "std") for place in places} <= set(after)
