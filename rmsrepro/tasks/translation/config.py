"""The settings that both translation tasks share; their own config.py adds what their models need."""

from __future__ import annotations

from dataclasses import dataclass, field

from rmsrepro.config import TaskConfig
from rmsrepro.data.parallel.catalog import parallel_names
from rmsrepro.errors import ConfigError


@dataclass
class SearchConfig:
    """How translations are searched for."""

    beam: int = 5
    """Hypotheses that are kept for each sentence; 1 is greedy search."""
    valid: str = "greedy"
    """What validation translates with: `greedy`, or `beam` as the tests do."""
    length_penalty: str = "length"
    """A hypothesis is scored by its log-probability over `length`^alpha, over `gnmt`'s ((5 + length) / 6)^alpha,
    or by `none`."""
    alpha: float = 1.0
    """The exponent of the length penalty."""
    max_length_factor: float = 2.0
    """The longest translation is this times the source's subwords, and `max_length_extra`; its end counts."""
    max_length_extra: int = 10
    """Subwords that even the shortest source's translation may have, its end counted."""
    max_length: int = 512
    """No translation has more subwords, so that a line of thousands does not take a run's time."""
    n_best: int = 1
    """Translations of each test sentence that are written down."""
    allow_unknown: bool = False
    """Whether a translation may hold the unknown symbol."""
    sentences: int = 128
    """Sentences that are translated side by side; no translation depends on it."""

    def validate(self) -> None:
        """Refuse values that mean nothing."""
        for name in ("beam", "n_best", "sentences"):
            _at_least(f"search.{name}", getattr(self, name), 1)
        _at_least("search.max_length_extra", self.max_length_extra, 1)
        _at_least("search.max_length", self.max_length, 1)
        if self.n_best > self.beam:
            raise ConfigError(
                f"task.search.n_best={self.n_best}: at most task.search.beam={self.beam} translations are found"
            )
        _one_of("search.valid", self.valid, ("greedy", "beam"))
        _one_of("search.length_penalty", self.length_penalty, ("none", "length", "gnmt"))
        # What is larger means nothing, and its powers and products leave the range of floats in mid-search.
        for name, most in (("alpha", 10), ("max_length_factor", 1000)):
            if not 0 <= getattr(self, name) <= most:
                raise ConfigError(f"task.search.{name}={getattr(self, name)}: allowed is 0 to {most}")


@dataclass
class TranslationConfig(TaskConfig):
    """Data, loss and search of a translation task."""

    source: str = "en"
    """The language that is translated from."""
    target: str = "de"
    """The language that is translated into."""
    vocabulary: int = 8000
    """Subwords of the vocabulary that both languages share."""
    lowercase: bool = False
    """Lower-case the text; scores then compare with lower-cased scores only."""
    tokenized: bool = False
    """Read the data's tokenised files and score without tokenising again."""
    max_length: int = 80
    """Training pairs with more subwords on a side, its end not counted, are dropped."""
    limit_pairs: int | None = None
    """Use only the first so many training pairs."""
    folder: str = "parallel"
    """With data=parallel: the folder of the files, below data.root or absolute."""
    train_stem: str = "train"
    """With data=parallel: the training files are `<train_stem>.<source>` and `<train_stem>.<target>`."""
    valid_stem: str = "valid"
    """With data=parallel: the same for validation."""
    test_stem: str = "test"
    """With data=parallel: the same for the test, which need not be there."""
    batch_tokens: int | None = None
    """Positions of a batch at most, its pairs times the longest side of any; null: `train.batch_size` counts pairs."""
    label_smoothing: float = 0.1
    """The probability mass that the wanted subword gives away."""
    smoothing: str = "all"
    """Who shares that mass: `all` subwords, or the `others` than the wanted one, the entropy subtracted."""
    loss: str = "token"
    """The mean over `token`s; over sentences of their sums (`sentence`) or of their means (`sentence_mean`)."""
    search: SearchConfig = field(default_factory=SearchConfig)

    def datasets(self) -> tuple[str, ...]:
        """The data sets of sentence pairs, and any pair of files."""
        return parallel_names()

    def validate(self) -> None:
        """Refuse values that mean nothing."""
        for name in ("max_length", "limit_pairs", "batch_tokens"):
            _at_least(name, getattr(self, name), 1)
        _at_least("vocabulary", self.vocabulary, 5)
        if self.batch_tokens is not None and self.batch_tokens < self.max_length:
            raise ConfigError(
                f"task.batch_tokens={self.batch_tokens}: one sentence may have task.max_length={self.max_length}; "
                "allowed is that or more"
            )
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(f"task.label_smoothing={self.label_smoothing}: allowed is 0 <= label_smoothing < 1")
        _one_of("smoothing", self.smoothing, ("all", "others"))
        _one_of("loss", self.loss, ("token", "sentence", "sentence_mean"))
        for name in ("source", "target"):
            if not getattr(self, name):
                raise ConfigError(f"task.{name}=: expected a language such as en")
        if self.source == self.target:
            raise ConfigError(f"task.target={self.target}: is the source language too; set task.source or task.target")
        self.search.validate()


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"task.{name}={value}: allowed are {', '.join(allowed)}")


def _at_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise ConfigError(f"task.{name}={value}: allowed is {least} or more")
