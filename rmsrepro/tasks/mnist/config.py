"""The settings of the MNIST task; conf/task/mnist.yaml lists them all."""

from __future__ import annotations

from dataclasses import dataclass, field

from rmsrepro.config import TaskConfig
from rmsrepro.errors import ConfigError


@dataclass
class Config(TaskConfig):
    """Ba et al.'s permutation-invariant MNIST and a small convolutional net."""

    name: str = "mnist"
    model: str = "mlp"
    hidden: list[int] = field(default_factory=lambda: [1000, 1000])
    channels: list[int] = field(default_factory=lambda: [32, 64])
    norm_logits: bool = False
    validation: int = 5000
    limit_train: int | None = None

    def datasets(self) -> tuple[str, ...]:
        """MNIST only."""
        return ("mnist",)

    def validate(self) -> None:
        """Refuse models and sizes that cannot be built."""
        if self.model not in ("mlp", "cnn"):
            raise ConfigError(f"task.model={self.model}: allowed are mlp, cnn")
        if len(self.channels) != 2 or min(self.channels) < 1:
            raise ConfigError(f"task.channels={self.channels}: expected two numbers of 1 or more")
        if not self.hidden or min(self.hidden) < 1:
            raise ConfigError(f"task.hidden={self.hidden}: expected at least one width of 1 or more")
        if not 1 <= self.validation < 60_000:
            raise ConfigError(f"task.validation={self.validation}: allowed is 1 to 59999 images")
        if self.limit_train is not None and self.limit_train < 1:
            raise ConfigError(f"task.limit_train={self.limit_train}: allowed is 1 or more")
