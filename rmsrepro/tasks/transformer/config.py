"""The settings of the Transformer; conf/task/transformer.yaml lists them all."""

from __future__ import annotations

from dataclasses import dataclass

from rmsrepro.errors import ConfigError
from rmsrepro.tasks.translation.config import TranslationConfig


@dataclass
class Config(TranslationConfig):
    """An encoder-decoder Transformer (Vaswani et al. 2017), in the form of the paper's code base by default."""

    name: str = "transformer"
    dim: int = 512
    ffn: int = 2048
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    placement: str = "post"
    share_embeddings: str = "target"
    embedding_bias: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.1
    relu_dropout: float = 0.1
    output_bias: bool = False

    def validate(self) -> None:
        """Refuse sizes that cannot be built."""
        super().validate()
        for name in ("dim", "ffn", "heads", "encoder_layers", "decoder_layers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"task.{name}={getattr(self, name)}: allowed is 1 or more")
        if self.dim % self.heads or self.dim % 2:
            raise ConfigError(
                f"task.dim={self.dim}: allowed are even multiples of task.heads={self.heads}, "
                "which share the features evenly"
            )
        for name in ("dropout", "attention_dropout", "relu_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"task.{name}={getattr(self, name)}: allowed is 0 <= {name} < 1")
        allowed = {"placement": ("post", "pre"), "share_embeddings": ("none", "target", "all")}
        for name, words in allowed.items():
            if getattr(self, name) not in words:
                raise ConfigError(f"task.{name}={getattr(self, name)}: allowed are {', '.join(words)}")
