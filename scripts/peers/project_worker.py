"""Run this project block by block: `python -m peers.project_worker train|translate FILE`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import yaml
from peers.blocks import Blocks

from rmsrepro.compose import compose_config
from rmsrepro.config import Config
from rmsrepro.kernels.allocator import keep_large_blocks
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.base import Batch
from rmsrepro.tasks.rnnsearch.task import Task as RNNSearchTask
from rmsrepro.tasks.transformer.task import Task as TransformerTask
from rmsrepro.tasks.translation.model import TranslationModel
from rmsrepro.tasks.translation.search import translate
from rmsrepro.tasks.translation.task import TranslationTask
from rmsrepro.train.distributed import World
from rmsrepro.train.loop import Hooks, Trainer
from rmsrepro.train.precision import autocast


class Counting(TranslationTask):
    """A task that counts the target tokens of the batches it has given."""

    tokens = 0

    def batch(self, epoch: int, index: int) -> Batch:
        """Return the batch."""
        batch = super().batch(epoch, index)
        self.tokens += batch.items
        return batch


class CountingTransformer(Counting, TransformerTask):
    """The Transformer, counted."""


class CountingRNNSearch(Counting, RNNSearchTask):
    """RNNSearch, counted."""


def train(task: Counting, model: TranslationModel, cfg: Config, settings: dict[str, Any], blocks: Blocks) -> None:
    """Train with the project's trainer, then save the parameters."""

    def on_step(step: int, loss: float) -> None:
        if step % settings["steps"] == 0:
            tokens, task.tokens = task.tokens, 0
            blocks.done(tokens)
        if step == settings["total"]:
            torch.save(model.state_dict(), settings["model"])
            sys.exit()

    hooks = Hooks(
        on_rows=lambda step, row: None,
        on_step=on_step,
        save=lambda state: None,
        save_best=lambda state: None,
        wants_save=lambda step: False,
        stop_signal=lambda: 0,
    )
    Trainer(task, model, cfg, torch.device("cpu"), World()).run(hooks)


def search(task: Counting, model: TranslationModel, cfg: Config, settings: dict[str, Any], blocks: Blocks) -> None:
    """Translate the test set into text, once a block."""
    model.load_state_dict(torch.load(settings["model"]))
    model.eval()
    sentences = next(iter(task.data.tests.values()), task.data.valid)
    sources = [sentences.pairs.pair(i)[0] for i in range(settings["test_sentences"])]
    while True:
        with autocast(cfg.train.precision, "cpu"):
            found = translate(model, sources, task.settings.search, task.settings.search.beam)
        for hypotheses in found:
            task.data.vocabulary.decode(hypotheses[0].tokens)
        blocks.done(len(sources), sum(len(hypotheses[0].tokens) for hypotheses in found))


def main() -> None:
    """Do as the command line says."""
    phase, path = sys.argv[1:]
    settings = yaml.safe_load(Path(path).read_text())
    blocks = Blocks()
    keep_large_blocks()
    cfg = compose_config(settings["overrides"])
    transforms = cfg.task.name == "transformer"
    task = (CountingTransformer if transforms else CountingRNNSearch)(cfg, torch.device("cpu"))
    task.load()
    torch.manual_seed(cfg.seed)
    model = task.build_model(NormFactory(cfg.norm, cfg.impl))
    assert isinstance(model, TranslationModel)
    if phase == "train":
        train(task, model, cfg, settings, blocks)
    else:
        search(task, model, cfg, settings, blocks)


if __name__ == "__main__":
    main()
