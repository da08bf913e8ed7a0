"""The settings of the CIFAR-10 task; conf/task/cifar10.yaml lists them all."""

from __future__ import annotations

from dataclasses import dataclass

from rmsrepro.config import TaskConfig
from rmsrepro.errors import ConfigError

TRAIN_IMAGES = 50_000


@dataclass
class Config(TaskConfig):
    """ConvPool-CNN-C as the paper's CIFAR-10 experiment trains it (paper appendix, Table 10)."""

    name: str = "cifar10"
    width_factor: float = 1.0
    noise: float = 0.15
    dropout: float = 0.5
    whiten: bool = True
    whiten_eps: float = 1e-5
    init: str = "glorot"
    init_images: int = 0
    validation: int = 5000
    limit_train: int | None = None

    def datasets(self) -> tuple[str, ...]:
        """CIFAR-10 only."""
        return ("cifar10",)

    def validate(self) -> None:
        """Refuse widths, rates and splits that cannot be built."""
        if not 0 < self.width_factor <= 16:
            raise ConfigError(f"task.width_factor={self.width_factor}: allowed is above 0 and at most 16")
        if not 0 <= self.noise < float("inf"):
            raise ConfigError(f"task.noise={self.noise}: allowed is a finite number that is not negative")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"task.dropout={self.dropout}: allowed is 0 <= dropout < 1")
        if not 0 < self.whiten_eps < float("inf"):
            raise ConfigError(f"task.whiten_eps={self.whiten_eps}: allowed is a finite number above 0")
        if self.init not in ("glorot", "gaussian"):
            raise ConfigError(f"task.init={self.init}: allowed are glorot, gaussian")
        if not 0 <= self.init_images <= TRAIN_IMAGES:
            raise ConfigError(f"task.init_images={self.init_images}: allowed is 0 (off) to {TRAIN_IMAGES}")
        if not 0 <= self.validation < TRAIN_IMAGES:
            raise ConfigError(f"task.validation={self.validation}: allowed is 0 to {TRAIN_IMAGES - 1} images")
        if self.limit_train is not None and self.limit_train < 1:
            raise ConfigError(f"task.limit_train={self.limit_train}: allowed is 1 or more")
