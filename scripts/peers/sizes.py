"""What is the same in all arms of a comparison of translation models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Model:
    """Sizes and batches of a model. `kind` is `transformer` or `rnn`."""

    kind: str
    width: int
    layers: int
    dropout: float
    batch: int
    """Positions (pairs times the longest side) for the Transformer, sentences for the RNN."""
    norms: tuple[str, ...]
    """This project's normalisers that are compared by default."""
    clip_norm: float | None
    ffn: int = 0
    heads: int = 0


MODELS = {
    "transformer": Model("transformer", 128, 4, 0.2, 4096, ("layernorm", "rmsnorm"), None, ffn=256, heads=4),
    "rnn": Model("rnn", 256, 1, 0.3, 80, ("none", "rmsnorm"), 1.0),
}

#: Adam's learning rate, constant, without warm-up.
LEARNING_RATE = 1e-3
LABEL_SMOOTHING = 0.1
BEAM = 5
#: Sentences that are translated side by side.
SEARCH_SENTENCES = 128
#: The longest translation, as a multiple of the source's subwords; JoeyNMT's own.
LONGEST = 1.5
SEED = 1


@dataclass(frozen=True)
class Length:
    """How long an arm trains: `blocks` of `steps`."""

    steps: int
    blocks: int

    @property
    def total(self) -> int:
        """All steps."""
        return self.steps * self.blocks


def configuration(folder: Path, phase: str) -> Path:
    """Return where an arm's configuration for `train` or `translate` is."""
    return folder / f"{phase}.yaml"
