"""CIFAR-10: data, model and metric behind the task contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rmsrepro.config import Config
from rmsrepro.data.cifar10 import load_cifar10
from rmsrepro.errors import ConfigError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.runs.rundir import runs_root
from rmsrepro.seeding import permutation
from rmsrepro.tasks.base import TaskSpec
from rmsrepro.tasks.cifar10 import initialisation
from rmsrepro.tasks.cifar10.config import Config as Cifar10Config
from rmsrepro.tasks.cifar10.model import CHANNELS, CLASSES, ConvPoolCNNC
from rmsrepro.tasks.cifar10.whitening import Whitening, cached_whitening, fit_whitening, scale_pixels
from rmsrepro.tasks.images import ImageTask


class Task(ImageTask):
    """Ten classes of whitened 32x32 colour images; test error.

    The images lie on the device as float32, 12 KiB each: 740 MB for all 60,000. With `task.validation=0`, as in the
    paper's code, nothing is held out: `valid` is then the test set, for the curve only, and may choose nothing.
    """

    spec = TaskSpec("cifar10", primary="test/error", direction="min", select="valid/error", items="images")
    eval_batch = 250
    train_error = True  # what the paper's Table 9 plots

    def __init__(self, cfg: Config, device: torch.device) -> None:
        super().__init__(cfg, device)
        settings = self.settings
        if settings.validation == 0:
            for name, value, allowed in (("report", cfg.train.report, "last"), ("stop_at", cfg.train.stop_at, None)):
                if value != allowed:
                    raise ConfigError(
                        f"train.{name}={value}: with task.validation=0 only the test set would be left to decide by; "
                        f"set task.validation=5000 to hold images out, or leave train.{name}={allowed or 'null'}"
                    )
        if settings.init_images:
            probe = NormFactory(cfg.norm, cfg.impl).linear(1, 1)
            initialisation.require_rescalable(probe, cfg.norm.name, settings.init_images)

    @property
    def settings(self) -> Cifar10Config:
        """The task's own settings."""
        assert isinstance(self.cfg.task, Cifar10Config)
        return self.cfg.task

    def sites(self) -> set[str]:
        """Nine convolutions and a linear map."""
        return {"conv2d", "linear"}

    def load(self) -> None:
        """Read, scale and whiten the images; the last of the training images are held out for validation."""
        data = load_cifar10(self.data_root)
        self._checksums = data.checksums
        images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
        fitting = len(labels) - self.settings.validation
        kept = min(fitting, self.settings.limit_train or fitting)
        if kept < self.settings.init_images:
            raise ConfigError(
                f"task.init_images={self.settings.init_images}: {kept} training images are left by "
                f"task.validation={self.settings.validation} and task.limit_train={self.settings.limit_train}"
            )
        transform = self._whitening(images[:kept]).apply if self.settings.whiten else scale_pixels
        test_images = torch.tensor(data.test_images)  # a copy: the array may be read-only
        self.splits = {}
        self.put("train", transform(images[:kept].to(self.device)), labels[:kept])
        self.put("test", transform(test_images.to(self.device)), torch.from_numpy(data.test_labels))
        if self.settings.validation:
            self.put("valid", transform(images[fitting:].to(self.device)), labels[fitting:])
        else:
            self.splits["valid"] = self.splits["test"]

    def load_synthetic(self) -> None:
        """Make up images as whitening leaves them; it happens before training, so no step includes it."""
        self.put_synthetic((CHANNELS, 32, 32), CLASSES, least=self.settings.init_images)

    def _whitening(self, images: Tensor) -> Whitening:
        """Return the whitening fitted to uint8 `images` [N, 3, 32, 32], the training images that are kept."""
        roots: list[Path] = [self.data_root, runs_root(self.cfg.runs.root).parent / "data"]
        decided_by = {"data": self._checksums, "images": len(images), "eps": self.settings.whiten_eps}
        return cached_whitening(
            [root / "cifar10" for root in roots],
            decided_by,
            lambda: fit_whitening(images.to(self.device), self.settings.whiten_eps),
        )

    def build_model(self, norm: NormFactory) -> nn.Module:
        """Build the net with its weights drawn as `task.init` says."""
        model = ConvPoolCNNC(norm, self.settings)
        initialisation.draw_weights(model.weight_layers(), self.settings.init)
        if self.settings.init_images:
            initialisation.add_fixed_scales(model.weight_layers())
        return model

    def init_model(self, model: nn.Module) -> None:
        """Rescale the layers on the first `task.init_images` images of the first epoch, noise and dropout acting."""
        assert isinstance(model, ConvPoolCNNC)
        if not self.settings.init_images:
            return
        images, labels = self.splits["train"]
        first = torch.from_numpy(permutation(len(labels), self.cfg.seed, 0)[: self.settings.init_images])
        model.train()
        chosen = images.index_select(0, first.to(self.device))
        initialisation.standardise_outputs(model, model.weight_layers(), chosen)

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        """Return the error that the paper's Table 10 reports (a share, not per cent), accuracy and cross-entropy."""
        metrics = super().evaluate(model, split)
        return {f"{split}/error": 1.0 - metrics[f"{split}/accuracy"], **metrics}

    def checksums(self) -> dict[str, str]:
        """Return the checksums of the data's files."""
        return self._checksums

    def facts(self) -> dict[str, Any]:
        """Return the splits' sizes and what the paper leaves open."""
        return super().facts() | {"whitened": self.settings.whiten, "valid_is_test": self.settings.validation == 0}
