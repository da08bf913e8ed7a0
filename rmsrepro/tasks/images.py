"""What image classification tasks share: tensors on the device, batches in a fixed order, accuracy."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmsrepro.config import Config
from rmsrepro.errors import ConfigError
from rmsrepro.seeding import permutation
from rmsrepro.tasks.base import Batch, Task

#: Steps that made-up data last for before they are read again.
SYNTHETIC_BATCHES = 8


class ImageTask(Task):
    """Classification of images that fit into memory.

    The whole data set lies on the device as tensors: a batch is one gather, with no worker processes. Every epoch
    visits a fresh permutation and drops the last images that do not fill a batch, for every norm alike, because
    BatchNorm cannot train on a batch of one.
    """

    #: Images in one forward pass of an evaluation; it bounds memory and changes no result.
    eval_batch: ClassVar[int] = 1000
    #: Whether rows of metrics hold `train/error`; it costs a few tiny kernels a step.
    train_error: ClassVar[bool] = False
    #: Images and labels of each split: [N, ...] in whatever type the task stores, and int64 [N].
    splits: dict[str, tuple[Tensor, Tensor]]

    def __init__(self, cfg: Config, device: torch.device) -> None:
        super().__init__(cfg, device)
        self._order: tuple[int, Tensor] | None = None

    def prepare(self, images: Tensor) -> Tensor:
        """Turn stored images [B, ...] into the model's input."""
        return images

    def put(self, split: str, images: Tensor, labels: Tensor) -> None:
        """Keep a split on the device."""
        self.splits[split] = (images.to(self.device), labels.to(self.device))

    def put_synthetic(self, shape: tuple[int, ...], classes: int, *, least: int = 0) -> None:
        """Keep made-up training images of one `shape`: floats of zero mean and unit variance, labels at random.

        As many as a few steps read, and at least `least`: every batch costs the same.
        """
        generator = torch.Generator().manual_seed(0)
        n = max(least, SYNTHETIC_BATCHES * self.cfg.train.batch_size * self.cfg.train.accumulate)
        images = torch.randn(n, *shape, generator=generator)
        self.splits = {}
        self.put("train", images, torch.randint(classes, (n,), generator=generator))

    def batches_per_epoch(self) -> int:
        """Return the number of full batches."""
        size = self.cfg.train.batch_size
        have = len(self.splits["train"][1])
        if size > have:
            raise ConfigError(f"train.batch_size={size}: there are only {have} training images")
        return have // size

    def batch(self, epoch: int, index: int) -> Batch:
        """Return batch `index` of the epoch's permutation."""
        images, labels = self.splits["train"]
        if self._order is None or self._order[0] != epoch:
            order = torch.from_numpy(permutation(len(labels), self.cfg.seed, epoch)).to(self.device)
            self._order = (epoch, order)
        size = self.cfg.train.batch_size
        picked = self._order[1][index * size : (index + 1) * size]
        inputs = (self.prepare(images.index_select(0, picked)), labels.index_select(0, picked))
        return Batch(inputs, weight=size, items=size)

    def loss_sum(self, model: nn.Module, batch: Batch, carry: Any) -> tuple[Tensor, Any]:
        """Return the summed cross-entropy; with `train_error`, count the wrong answers of the same forward pass.

        The error is thus that of the model as it trains: with dropout and noise, before the step.
        """
        images, labels = batch.inputs
        logits = model(images).float()
        if self.train_error:
            batch.sums["error"] = ((logits.detach().argmax(1) != labels).sum(), len(labels))
        return F.cross_entropy(logits, labels, reduction="sum"), None

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        """Return accuracy and mean cross-entropy over the whole split."""
        images, labels = self.splits[split]
        correct = torch.zeros((), dtype=torch.int64, device=self.device)
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        for start in range(0, len(labels), self.eval_batch):
            logits = model(self.prepare(images[start : start + self.eval_batch])).float()
            wanted = labels[start : start + self.eval_batch]
            correct += (logits.argmax(1) == wanted).sum()
            loss += F.cross_entropy(logits, wanted, reduction="sum").double()
        n = len(labels)
        return {f"{split}/accuracy": correct.item() / n, f"{split}/loss": loss.item() / n}

    def facts(self) -> dict[str, Any]:
        """Return how many images each split holds and how many an epoch leaves out."""
        size = self.cfg.train.batch_size
        have = len(self.splits["train"][1])
        return {
            **{f"{name}_images": len(labels) for name, (_, labels) in self.splits.items()},
            "images_per_epoch": have // size * size,
            "images_dropped_per_epoch": have % size,
        }
