"""The settings of RNNSearch; conf/task/rnnsearch.yaml lists them all."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rmsrepro.errors import ConfigError
from rmsrepro.tasks.translation.config import TranslationConfig

CODEBASES = ("nematus_tensorflow", "nematus_theano", "pytorch")
#: What of the decoder's hidden-to-hidden mapping is measured.
STATISTICS = ("none", "all", "gates", "candidate")
#: What the softmax layer's bias starts from.
BIAS_INITS = ("zero", "unigram")


@dataclass
class Config(TranslationConfig):
    """RNNSearch (Bahdanau et al. 2015) as Nematus has it."""

    name: str = "rnnsearch"
    codebase: str = "nematus_tensorflow"
    embedding: int = 256
    hidden: int = 256
    dropout: float = 0.0
    init_mean: float = 0.0
    output_bias_init: str = "zero"
    hidden_statistics: str = "all"

    def validate(self) -> None:
        """Refuse values that mean nothing."""
        super().validate()
        for name in ("embedding", "hidden"):
            if getattr(self, name) < 1:
                raise ConfigError(f"task.{name}={getattr(self, name)}: allowed is 1 or more")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"task.dropout={self.dropout}: allowed is 0 <= dropout < 1")
        if not math.isfinite(self.init_mean):
            raise ConfigError(f"task.init_mean={self.init_mean}: allowed is a finite number")
        for name, allowed in (
            ("codebase", CODEBASES),
            ("output_bias_init", BIAS_INITS),
            ("hidden_statistics", STATISTICS),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"task.{name}={getattr(self, name)}: allowed are {', '.join(allowed)}")
