"""The two MNIST models; each says where a norm goes and never which."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.mnist.config import Config

PIXELS, CLASSES = 28 * 28, 10


class MLP(nn.Module):
    """784-1000-1000-10 with ReLU; the hidden layers' summed inputs are normalised (Ba et al. 2016, section 6.6).

    The logits are normalised only with `norm_logits`, as Ba et al. do for BatchNorm.
    """

    def __init__(self, norm: NormFactory, cfg: Config) -> None:
        super().__init__()
        widths = [PIXELS, *cfg.hidden]
        self.hidden = nn.ModuleList(norm.linear(fan_in, fan_out) for fan_in, fan_out in pairwise(widths))
        last = widths[-1]
        self.output = norm.linear(last, CLASSES) if cfg.norm_logits else nn.Linear(last, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, 1, 28, 28] to logits [B, 10]."""
        x = images.flatten(1)
        for layer in self.hidden:
            x = layer(x).relu()
        return self.output(x)


class CNN(nn.Module):
    """Two 3x3 convolutions with max-pooling and one hidden layer of 128, all normalised but the logits."""

    def __init__(self, norm: NormFactory, cfg: Config) -> None:
        super().__init__()
        first, second = cfg.channels
        self.conv1 = norm.conv2d(1, first, 3, padding=1)
        self.conv2 = norm.conv2d(first, second, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.hidden = norm.linear(second * 7 * 7, 128)
        self.output = norm.linear(128, CLASSES) if cfg.norm_logits else nn.Linear(128, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, 1, 28, 28] to logits [B, 10]."""
        x = self.pool(self.conv1(images).relu())  # [B, 32, 14, 14]
        x = self.pool(self.conv2(x).relu())  # [B, 64, 7, 7]
        return self.output(self.hidden(x.flatten(1)).relu())
