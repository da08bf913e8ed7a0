"""MNIST: data, model and metric behind the task contract."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmsrepro.data.mnist import load_mnist
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.base import TaskSpec
from rmsrepro.tasks.images import ImageTask
from rmsrepro.tasks.mnist.config import Config as MnistConfig
from rmsrepro.tasks.mnist.model import CLASSES, CNN, MLP

#: Mean and standard deviation of the training pixels, scaled to 0..1.
_MEAN, _STD = 0.1307, 0.3081


class Task(ImageTask):
    """Digits from 28x28 pixels; test accuracy."""

    spec = TaskSpec("mnist", primary="test/accuracy", direction="max", select="valid/accuracy", items="images")

    @property
    def settings(self) -> MnistConfig:
        """The task's own settings."""
        assert isinstance(self.cfg.task, MnistConfig)
        return self.cfg.task

    def sites(self) -> set[str]:
        """A perceptron has linear maps; the convolutional net has convolutions too."""
        return {"linear"} if self.settings.model == "mlp" else {"linear", "conv2d"}

    def load(self) -> None:
        """Read the digits and keep the last of the training images for validation."""
        data = load_mnist(self.data_root)
        self._checksums = data.checksums
        images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
        held_out = self.settings.validation
        kept = min(len(labels) - held_out, self.settings.limit_train or len(labels))
        self.splits = {}
        self.put("train", images[:kept], labels[:kept])
        self.put("valid", images[-held_out:], labels[-held_out:])
        self.put("test", torch.from_numpy(data.test_images), torch.from_numpy(data.test_labels))

    def load_synthetic(self) -> None:
        """Make up pixels, stored as bytes as the real ones are."""
        self.put_synthetic((28, 28), CLASSES)
        images, labels = self.splits["train"]
        self.splits["train"] = images.mul(64).add(128).clamp(0, 255).to(torch.uint8), labels

    def prepare(self, images: Tensor) -> Tensor:
        """Scale bytes [B, 28, 28] to zero mean and unit variance [B, 1, 28, 28]."""
        return images.unsqueeze(1).to(torch.float32).mul_(1 / (255 * _STD)).sub_(_MEAN / _STD)

    def build_model(self, norm: NormFactory) -> nn.Module:
        """Build the perceptron or the convolutional net."""
        return (MLP if self.settings.model == "mlp" else CNN)(norm, self.settings)

    def checksums(self) -> dict[str, str]:
        """Return the checksums of the images and labels."""
        return self._checksums
