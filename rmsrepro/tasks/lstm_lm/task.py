"""The tied LSTM language model: streams, truncated backpropagation and perplexity behind the task contract."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from rmsrepro.errors import ConfigError, DataError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks import base
from rmsrepro.tasks.base import Batch, TaskSpec
from rmsrepro.tasks.lstm_lm.config import Config as LanguageModelConfig
from rmsrepro.tasks.lstm_lm.corpus import load_corpus
from rmsrepro.tasks.lstm_lm.model import State, TiedLSTM

#: Words of each corpus at this task's `min_count`, for made-up streams; any other text is taken to have WikiText-2's.
VOCABULARY_SIZES = {"wikitext2": 33_278, "ptb": 10_000, "brown": 14_115}
#: Steps that a made-up stream lasts for before it is read again.
SYNTHETIC_BATCHES = 8


class Task(base.Task):
    """Words from the words before them; perplexity per token, ends of sentence counted.

    The training stream is cut into `train.batch_size` columns that are read side by side, `task.bptt` tokens at a
    time; gradients stop where a batch begins, the state does not. Every token of a column is predicted, its first
    one from the column before.
    """

    spec = TaskSpec("lstm_lm", primary="test/perplexity", direction="min", select="valid/loss", items="tokens")

    @property
    def settings(self) -> LanguageModelConfig:
        """The task's own settings."""
        assert isinstance(self.cfg.task, LanguageModelConfig)
        return self.cfg.task

    def sites(self) -> set[str]:
        """The recurrent cell normalises its linear maps."""
        return {"linear"}

    def load(self) -> None:
        """Read the corpus and lay the training stream out in columns."""
        if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            raise ConfigError("task=lstm_lm carries its state from batch to batch in one process: start one process")
        self.corpus = load_corpus(self.cfg.data.name, self.data_root, self.settings)
        if "test" not in self.corpus.streams:
            self.spec = replace(self.spec, primary="valid/perplexity")
        self._streams = {
            split: torch.from_numpy(stream.ids).long().to(self.device) for split, stream in self.corpus.streams.items()
        }
        self._vocabulary_size = len(self.corpus.vocabulary)
        self._require_tokens()
        self._lay_out_columns()

    def load_synthetic(self) -> None:
        """Make up a training stream with the data set's vocabulary size, its words as rare as Zipf's law has them."""
        size, columns = (
            VOCABULARY_SIZES.get(self.cfg.data.name, VOCABULARY_SIZES["wikitext2"]),
            self.cfg.train.batch_size,
        )
        generator = torch.Generator().manual_seed(0)
        rank = size ** torch.rand(columns * self.settings.bptt * SYNTHETIC_BATCHES + 1, generator=generator)
        self._vocabulary_size, self._streams = size, {"train": rank.long().clamp(max=size - 1).to(self.device)}
        self._lay_out_columns()

    def _lay_out_columns(self) -> None:
        """Cut the training stream into columns that are read side by side, and shift them by one for the targets."""
        columns, train = self.cfg.train.batch_size, self._streams["train"]
        length = (len(train) - 1) // columns
        self._inputs, self._targets = (
            train[first : first + columns * length].view(columns, length).t().contiguous()  # [length, B]
            for first in (0, 1)
        )

    def _require_tokens(self) -> None:
        """Refuse a corpus that does not fill one batch, and an evaluation of nothing."""
        columns, bptt, limit = self.cfg.train.batch_size, self.settings.bptt, self.settings.limit_tokens
        limited = "" if limit is None else f" under task.limit_tokens={limit}"
        for split, stream in self._streams.items():
            needed = columns * bptt + 1 if split == "train" else 2
            if len(stream) < needed:
                what = f"train.batch_size={columns} times task.bptt={bptt}, and one" if split == "train" else "two"
                raise DataError(
                    f"{self.corpus.texts[split].path} has {len(stream)} tokens{limited}, ends of sentence counted; "
                    f"{needed} are needed: {what}"
                )

    def build_model(self, norm: NormFactory) -> nn.Module:
        """Build the tied LSTM."""
        return TiedLSTM(norm, self.settings, self._vocabulary_size)

    def batches_per_epoch(self) -> int:
        """Return how many pieces of `bptt` tokens a column has; the last one may be shorter."""
        return math.ceil(len(self._inputs) / self.settings.bptt)

    def batch(self, epoch: int, index: int) -> Batch:
        """Return the next piece of every column, the same in every epoch."""
        bptt = self.settings.bptt
        rows = slice(index * bptt, (index + 1) * bptt)
        inputs, targets = self._inputs[rows], self._targets[rows]
        return Batch((inputs, targets), weight=targets.numel(), items=targets.numel())

    def loss_sum(self, model: nn.Module, batch: Batch, carry: State | None) -> tuple[Tensor, State]:
        """Return the summed cross-entropy, and the state to go on from, cut off from its history."""
        loss, (hidden, cell) = model(*batch.inputs, carry)
        return loss, (hidden.detach(), cell.detach())

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        """Return loss and perplexity per token over a whole stream; nothing for a split that this run has not."""
        if split not in self._streams:
            return {}
        assert isinstance(model, TiedLSTM)
        ids = self._streams[split]
        loss = model.stream_loss(ids).item() / (len(ids) - 1)
        return {f"{split}/loss": loss, f"{split}/perplexity": perplexity(loss)}

    def checksums(self) -> dict[str, str]:
        """Return the checksum of each text, the same with any line ends and compression."""
        return {f"{split}.txt": f"sha256:{text.sha256}" for split, text in self.corpus.texts.items()}

    def facts(self) -> dict[str, Any]:
        """Return sizes, what is scored, what is left out, and what the run is judged by."""
        trained = self._targets.numel()
        scored = {f"{split}_tokens_scored": len(ids) - 1 for split, ids in self._streams.items() if split != "train"}
        return {
            **self.corpus.facts(),
            **scored,
            "train_tokens_per_epoch": trained,
            "train_tokens_dropped_per_epoch": len(self._streams["train"]) - 1 - trained,
            "judged_by": self.spec.primary,
        }


def perplexity(loss: float) -> float:
    """Return exp(loss), infinity where that is more than a float holds."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
