"""The settings of the attentive reader; conf/task/cnndm_qa.yaml lists them all."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rmsrepro.config import TaskConfig
from rmsrepro.errors import ConfigError

_CHOICES = {
    "norm_sites": ("lstm", "everywhere"),
    "init": ("attentive_reader", "independent"),
    "entities": ("permuted", "given", "by_occurrence"),
    "read_out": ("vocabulary", "attention_sum"),
    "batching": ("bucketed", "sampled", "paper"),
}


@dataclass
class Config(TaskConfig):
    """A bidirectional attentive reader that fills the gap of a cloze question with an entity."""

    name: str = "cnndm_qa"
    hidden: int = 240
    dropout: float = 0.5
    learn_h0: bool = True
    similarity: bool = True
    skip_passage: bool = True
    read_out: str = "vocabulary"
    norm_sites: str = "lstm"
    gain_init: float = 1.0
    statistics_steps: int = 100
    init: str = "attentive_reader"
    loss_eps: float = 1e-8
    entities: str = "permuted"
    batching: str = "bucketed"
    sentences: int | None = None
    truncate: int = -1
    min_count: int = 2
    limit_questions: int | None = None
    archive: str = "cloze"

    def datasets(self) -> tuple[str, ...]:
        """The data sets of questions, and any archive."""
        return ("brown_cloze", "wikitext2_cloze", "cnn", "cnn_top4", "dailymail", "cloze")

    def validate(self) -> None:
        """Refuse sizes that cannot be built."""
        for field in ("hidden", "min_count", "statistics_steps", "sentences", "limit_questions"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ConfigError(f"task.{field}={value}: allowed is 1 or more")
        for field, allowed in _CHOICES.items():
            if getattr(self, field) not in allowed:
                raise ConfigError(f"task.{field}={getattr(self, field)}: allowed are {', '.join(allowed)}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"task.dropout={self.dropout}: allowed is 0 <= dropout < 1")
        if not math.isfinite(self.gain_init):
            raise ConfigError(f"task.gain_init={self.gain_init}: allowed is a finite number")
        if not 0 <= self.loss_eps < 1:
            raise ConfigError(f"task.loss_eps={self.loss_eps}: allowed is 0 <= loss_eps < 1")
        if self.truncate != -1 and self.truncate < 1:
            raise ConfigError(f"task.truncate={self.truncate}: allowed is 1 or more, or -1 for whole passages")
        if not self.archive or "/" in self.archive or self.archive in (".", ".."):
            raise ConfigError(f"task.archive={self.archive}: expected the name of an archive in data.root/cloze")
