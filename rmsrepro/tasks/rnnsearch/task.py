"""RNNSearch behind the task contract."""

from __future__ import annotations

import torch
from torch import nn

from rmsrepro.data.parallel.batching import LengthBuckets, collate
from rmsrepro.errors import ConfigError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.base import TaskSpec
from rmsrepro.tasks.rnnsearch.config import Config
from rmsrepro.tasks.rnnsearch.hidden_statistics import hidden_statistics
from rmsrepro.tasks.rnnsearch.initialisation import unigram_
from rmsrepro.tasks.rnnsearch.model import RNNSearch
from rmsrepro.tasks.translation.task import TranslationTask

#: Positions that the statistics are taken of at once.
_TOKENS = 4096


class Task(TranslationTask):
    """Translation by recurrent networks and attention, with norms inside the time loops (paper section 4.1)."""

    spec = TaskSpec("rnnsearch", primary="test/bleu", direction="max", select="valid/bleu", items="target tokens")

    @property
    def settings(self) -> Config:
        """The task's own settings."""
        assert isinstance(self.cfg.task, Config)
        return self.cfg.task

    def sites(self) -> set[str]:
        """All sites are linear maps, inside and outside of recurrent cells."""
        return {"linear"}

    def build_model(self, norm: NormFactory) -> nn.Module:
        """Build encoder and decoder over one vocabulary.

        Raises ConfigError where the norm needs more sentences than some batch has: the decoder's first state is one row
        a sentence.
        """
        needed, fewest, tokens = norm.family.min_rows, self._buckets.fewest, self.settings.batch_tokens
        if fewest < needed:
            name, value = ("task.batch_tokens", tokens) if tokens else ("train.batch_size", self.cfg.train.batch_size)
            raise ConfigError(
                f"{name}={value}: the smallest batch of these {len(self._pairs)} pairs has {fewest}, and norm="
                f"{norm.cfg.name} needs at least {needed}; set {name} or task.limit_pairs to another number"
            )
        return RNNSearch(norm, self.settings, self.vocabulary_size)

    def init_model(self, model: nn.Module) -> None:
        """Start the softmax layer's bias from the training targets' frequencies, where that is asked for."""
        assert isinstance(model, RNNSearch)
        if self.settings.output_bias_init == "unigram":
            counts = torch.from_numpy(self._pairs.target_counts(self.vocabulary_size))
            unigram_(model.output_bias, counts.to(model.output_bias))

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        """Translate and score; on the validation set, also measure the decoder's hidden-to-hidden mapping."""
        metrics = super().evaluate(model, split)
        part = self.settings.hidden_statistics
        if split != "valid" or part == "none":
            return metrics
        assert isinstance(model, RNNSearch)
        pairs = self.data.valid.pairs
        buckets = LengthBuckets(pairs.source_lengths, pairs.target_lengths, tokens=_TOKENS, seed=0)
        batches = (collate(pairs, buckets.indices(0, i), self.device) for i in range(len(buckets)))
        return metrics | hidden_statistics(model, batches, part)
