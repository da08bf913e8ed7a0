"""The Transformer behind the task contract."""

from __future__ import annotations

from torch import nn

from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.base import TaskSpec
from rmsrepro.tasks.transformer.config import Config
from rmsrepro.tasks.transformer.model import Transformer
from rmsrepro.tasks.translation.task import TranslationTask


class Task(TranslationTask):
    """Translation by attention alone (Vaswani et al. 2017), normalised at every residual sum."""

    spec = TaskSpec("transformer", primary="test/bleu", direction="max", select="valid/bleu", items="target tokens")

    def sites(self) -> set[str]:
        """The residual stream is normalised."""
        return {"features"}

    def build_model(self, norm: NormFactory) -> nn.Module:
        """Build encoder and decoder over one vocabulary."""
        assert isinstance(self.settings, Config)
        return Transformer(norm, self.settings, self.vocabulary_size)
