"""The settings of the order-embedding; conf/task/order_embedding.yaml lists them all."""

from __future__ import annotations

from dataclasses import dataclass

from rmsrepro.config import TaskConfig
from rmsrepro.errors import ConfigError

_CHOICES = {
    "score": ("order", "cosine"),
    "norm_x": ("hoisted", "in_loop"),
    "vocabulary": ("train_dev", "train"),
    "select": ("image", "both"),
}
_NAMES = ("folder", "valid_split", "test_split")


@dataclass
class Config(TaskConfig):
    """Images and sentences in one space, where a sentence lies below its image."""

    name: str = "order_embedding"
    word: int = 300
    hidden: int = 1024
    score: str = "order"
    margin: float = 0.05
    absolute: bool = True
    norm_x: str = "hoisted"
    normalise_features: bool = True
    dropout_features: float = 0.0
    dropout_words: float = 0.0
    dropout_state: float = 0.0
    vocabulary: str = "train_dev"
    cnn: str | None = None
    folder: str = "captions"
    valid_split: str = "dev"
    test_split: str = "auto"
    fold_images: int = 1000
    valid_folds: int = 1
    test_folds: int = 5
    select: str = "image"
    limit_train: int | None = None
    limit_eval: int | None = None

    def datasets(self) -> tuple[str, ...]:
        """Two known data sets, and captioned images of one's own."""
        return ("flickr8k", "coco", "captions")

    def validate(self) -> None:
        """Refuse values that mean nothing."""
        for field, allowed in _CHOICES.items():
            if getattr(self, field) not in allowed:
                raise ConfigError(f"task.{field}={getattr(self, field)}: allowed are {', '.join(allowed)}")
        for field in ("word", "hidden", "fold_images", "valid_folds", "test_folds", "limit_train", "limit_eval"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ConfigError(f"task.{field}={value}: allowed is 1 or more")
        for field in ("dropout_features", "dropout_words", "dropout_state"):
            if not 0 <= getattr(self, field) < 1:
                raise ConfigError(f"task.{field}={getattr(self, field)}: allowed is 0 <= {field} < 1")
        if not 0 < self.margin < float("inf"):
            raise ConfigError(f"task.margin={self.margin}: allowed is a finite number above 0")
        for field in (*_NAMES, "cnn"):
            value = getattr(self, field)
            if value is not None and (not value or "/" in value or value in (".", "..")):
                raise ConfigError(f"task.{field}={value}: expected a name without a slash")
