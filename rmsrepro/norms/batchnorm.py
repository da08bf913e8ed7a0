"""BatchNorm: every feature normalised over the batch (Ioffe & Szegedy 2015)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmsrepro.norms.base import NormFamily
from rmsrepro.norms.composed import compute_type
from rmsrepro.norms.config import NormConfig


class BatchNorm(nn.Module):
    """Normalise each of `dim` features over all rows [..., dim], or each channel of images [N, dim, H, W].

    Parameter and buffer names are nn.BatchNorm's. An empty batch leaves the running statistics alone.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, dim: int, cfg: NormConfig, impl: str, *, image: bool = False) -> None:
        super().__init__()
        self.dim, self.cfg, self.impl, self.image = dim, cfg, impl, image
        self.register_parameter("weight", nn.Parameter(torch.ones(dim)) if cfg.gain else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(dim)) if cfg.shift else None)
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x` with the batch's statistics in training and with the running ones in evaluation."""
        if x.numel() == 0:
            # An output that still hangs on the parameters, so that their gradients are zeros and not missing.
            return x * self._gain() + self._shift()
        rows = x if self.image else x.reshape(-1, self.dim)
        if self.training and rows.numel() // self.dim < 2:
            raise ValueError(
                f"batchnorm needs at least 2 values per feature in a training batch, got {list(x.shape)}; "
                "set train.batch_size=2 or more"
            )
        y = self._stock(rows) if self._has_stock() else self._composed(rows)
        return y.to(x.dtype).view(x.shape)

    def _has_stock(self) -> bool:
        cfg = self.cfg
        plain = cfg.eps_placement == "inside" and not cfg.unbiased and not cfg.gain_offset
        return self.impl != "composed" and plain

    def _stock(self, x: Tensor) -> Tensor:
        if self.training:
            self.num_batches_tracked.add_(1)
        return F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            self.cfg.momentum,
            self.cfg.eps,
        )

    def _composed(self, x: Tensor) -> Tensor:
        a = x.to(compute_type(x, self.cfg.compute_dtype))
        if self.training:
            axes = [axis for axis in range(x.dim()) if axis != 1]
            n = a.numel() // self.dim
            mean = a.mean(axes)
            centred = a - mean.view(self._shape(a))
            var = centred.square().sum(axes) / (n - 1 if self.cfg.unbiased else n)
            self._track(mean.detach(), var.detach() * (1.0 if self.cfg.unbiased else n / (n - 1)))
        else:
            mean, var = self.running_mean.to(a.dtype), self.running_var.to(a.dtype)
            centred = a - mean.view(self._shape(a))
        inside = self.cfg.eps_placement == "inside"
        inverse = (var + self.cfg.eps).rsqrt() if inside else (var.sqrt() + self.cfg.eps).reciprocal()
        return centred * inverse.view(self._shape(a)) * self._gain() + self._shift()

    @torch.no_grad()
    def _track(self, mean: Tensor, unbiased_var: Tensor) -> None:
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.cfg.momentum)
        self.running_var.lerp_(unbiased_var.to(self.running_var.dtype), self.cfg.momentum)
        self.num_batches_tracked.add_(1)

    def _shape(self, a: Tensor) -> tuple[int, ...]:
        return (1, self.dim) + (1,) * (a.dim() - 2) if self.image else (self.dim,)

    def _gain(self) -> Tensor | float:
        if self.weight is None:
            return 1.0
        gain = self.weight + self.cfg.gain_offset
        return gain.view(-1, 1, 1) if self.image else gain

    def _shift(self) -> Tensor | float:
        if self.bias is None:
            return 0.0
        return self.bias.view(-1, 1, 1) if self.image else self.bias

    def extra_repr(self) -> str:
        """Show what decides the result."""
        return f"{self.dim}, eps={self.cfg.eps}, momentum={self.cfg.momentum}, impl={self.impl}"


class Family(NormFamily):
    """BatchNorm at every site."""

    min_rows = 2

    def features(self, dim: int) -> nn.Module:
        """Build the norm of a feature vector [..., dim]."""
        return BatchNorm(dim, self.cfg, self.impl)

    def channels(self, channels: int) -> nn.Module:
        """Build the norm of a convolution's output [N, channels, H, W]."""
        return BatchNorm(channels, self.cfg, self.impl, image=True)
