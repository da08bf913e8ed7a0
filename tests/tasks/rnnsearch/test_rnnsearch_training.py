"""RNNSearch from text files to scores, through the task contract."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import chain

import pytest
import torch

from rmsrepro.compose import compose_config
from rmsrepro.data.parallel.symbols import EOS
from rmsrepro.errors import ConfigError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.rnnsearch.task import Task
from rmsrepro.train.distributed import World
from rmsrepro.train.loop import Trainer


@pytest.fixture
def build_trainer(tmp_path, monkeypatch):
    """Return a function that builds a trainer on made-up pairs: targets are the sources in other letters."""
    monkeypatch.setenv("RMSREPRO_CACHE", str(tmp_path / "prepared"))
    folder = tmp_path / "data" / "parallel"
    folder.mkdir(parents=True)
    draw = random.Random(0)
    for stem, count in (("train", 80), ("valid", 12)):
        lines = [[draw.choice("abcdefgh") for _ in range(draw.randint(2, 6))] for _ in range(count)]
        (folder / f"{stem}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{stem}.de").write_text("".join(" ".join(line).upper() + "\n" for line in lines))
    overrides = ["task=rnnsearch", "data=parallel", f"data.root={folder.parent}", "size=tiny", "task.vocabulary=281"]

    def build(*more: str) -> Trainer:
        cfg = compose_config([*overrides, "train.lr=3e-3", "train.max_steps=30", "task.dropout=0", *more])
        task = Task(cfg, torch.device("cpu"))
        task.load()
        torch.manual_seed(1)
        trainer = Trainer(task, task.build_model(NormFactory(cfg.norm, cfg.impl)), cfg, torch.device("cpu"), World())
        task.init_model(trainer.model)
        return trainer

    return build


def test_it_learns_and_measures_its_decoder(build_trainer):
    trainer = build_trainer()
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


def test_a_unigram_bias_predicts_as_well_as_counting(build_trainer):
    trainer = build_trainer("task.output_bias_init=unigram")
    targets = [[*trainer.task.data.train.pair(i)[1].tolist(), EOS] for i in range(80)]
    counts = Counter(chain.from_iterable(targets))
    total = counts.total() + trainer.task.vocabulary_size
    bias = trainer.model.output_bias.detach()
    for token in range(trainer.task.vocabulary_size):
        assert bias[token].item() == pytest.approx(math.log((counts[token] + 1) / total), abs=1e-5)
    probabilities = torch.tensor([n / counts.total() for n in counts.values()])
    entropy = -(probabilities * probabilities.log()).sum().item()
    assert trainer.evaluate("valid")["valid/loss"] == pytest.approx(entropy, rel=0.25)
    assert build_trainer("task.output_bias_init=zero").model.output_bias.count_nonzero() == 0


@pytest.mark.parametrize("setting", ["train.batch_size=79", "task.batch_tokens=20"])
def test_a_batch_of_one_sentence_is_refused_before_training_where_the_norm_needs_two(build_trainer, setting):
    common = (setting, "task.max_length=20")
    with pytest.raises(ConfigError, match=f"{setting}: .* has 1, and norm=batchnorm needs at least 2"):
        build_trainer("norm=batchnorm", *common)
    build_trainer("norm=rmsnorm", *common)
    build_trainer("norm=batchnorm", *common, "task.limit_pairs=78", "task.batch_tokens=null")
