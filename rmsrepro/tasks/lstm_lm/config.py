"""The settings of the language model; conf/task/lstm_lm.yaml lists them all."""

from __future__ import annotations

from dataclasses import dataclass

from rmsrepro.config import TaskConfig
from rmsrepro.errors import ConfigError


@dataclass
class Config(TaskConfig):
    """A word-level LSTM language model whose input and output embeddings are one matrix."""

    name: str = "lstm_lm"
    hidden: int = 200
    layers: int = 2
    dropout: float = 0.2
    bptt: int = 35
    norm_input: bool = True
    norm_hidden: bool = True
    norm_cell: bool = True
    min_count: int = 1
    limit_tokens: int | None = None
    test_split: str = "auto"
    text: str = "text"

    def datasets(self) -> tuple[str, ...]:
        """Three corpora, and any text."""
        return ("wikitext2", "ptb", "brown", "text")

    def validate(self) -> None:
        """Refuse sizes that cannot be built."""
        for field in ("hidden", "layers", "bptt", "min_count"):
            if getattr(self, field) < 1:
                raise ConfigError(f"task.{field}={getattr(self, field)}: allowed is 1 or more")
        if self.limit_tokens is not None and self.limit_tokens < 2:
            raise ConfigError(f"task.limit_tokens={self.limit_tokens}: allowed is 2 or more")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"task.dropout={self.dropout}: allowed is 0 <= dropout < 1")
        if self.test_split not in ("auto", "test", "valid"):
            raise ConfigError(f"task.test_split={self.test_split}: allowed are auto, test, valid")
        if not self.text or "/" in self.text or self.text in (".", ".."):
            raise ConfigError(f"task.text={self.text}: expected the name of a folder below data.root")
