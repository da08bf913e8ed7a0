"""BatchNorm: every feature normalised over the batch (Ioffe & Szegedy 2015)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmsrepro.errors import ConfigError
from rmsrepro.norms.base import NormFamily
from rmsrepro.norms.composed import compute_type
from rmsrepro.norms.config import NormConfig
from rmsrepro.norms.modules import AffineNorm


class BatchNorm(AffineNorm):
    """Normalise each of `dim` features over all rows [..., dim], or each channel of images [N, dim, H, W].

    Parameter and buffer names are nn.BatchNorm's. An empty batch leaves the running statistics alone.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, dim: int, cfg: NormConfig, impl: str, *, image: bool = False) -> None:
        super().__init__(dim, cfg, impl, image=image)
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x` with the batch's statistics in training and with the running ones in evaluation.

        Shape and type are kept. Raises ConfigError where a training batch holds one value per feature.
        """
        self.check_shape(x)
        if x.numel() == 0:
            # An output that still hangs on the parameters, so that their gradients are zeros and not missing.
            return self.affine(x, x.dtype)
        if self.training and x.numel() // self.dim < 2:
            raise ConfigError(
                f"batchnorm needs at least 2 values per feature in a training batch, got {list(x.shape)}; "
                "set train.batch_size=2 or more"
            )
        rows = x if self.image else x.reshape(-1, self.dim)
        y = self._stock(rows) if self._has_stock(x.dtype) else self._composed(rows)
        return y.reshape(x.shape)

    def _has_stock(self, dtype: torch.dtype) -> bool:
        cfg, kept = self.cfg, self.running_mean.dtype
        plain = cfg.eps_placement == "inside" and cfg.compute_dtype == "auto" and not cfg.cast_before_gain
        # Torch takes inputs of the parameters' type, or of half its width.
        fits = dtype == kept or (kept == torch.float32 and dtype in (torch.bfloat16, torch.float16))
        return self.impl != "composed" and plain and fits and not cfg.unbiased and not cfg.gain_offset

    def _stock(self, x: Tensor) -> Tensor:
        if self.training:
            self.num_batches_tracked.add_(1)
        cfg, mean, var = self.cfg, self.running_mean, self.running_var
        return F.batch_norm(x, mean, var, self.weight, self.bias, self.training, cfg.momentum, cfg.eps).to(x.dtype)

    def _composed(self, x: Tensor) -> Tensor:
        a = x.to(compute_type(x, self.cfg.compute_dtype))
        shape = (self.dim,) + (1,) * (x.dim() - 2)
        if self.training:
            axes = [axis for axis in range(x.dim()) if axis != 1]
            n = a.numel() // self.dim
            mean = a.mean(axes)
            centred = a - mean.view(shape)
            # A vector norm has the gradient 0 at a constant feature, where sqrt would give NaN.
            std = torch.linalg.vector_norm(centred, dim=axes) * (n - self.cfg.unbiased) ** -0.5
            self._track(mean.detach(), std.detach().square() * ((n - self.cfg.unbiased) / (n - 1)))
        else:
            centred = a - self.running_mean.to(a.dtype).view(shape)
            std = self.running_var.to(a.dtype).sqrt()
        inside = self.cfg.eps_placement == "inside"
        inverse = (std.square() + self.cfg.eps).rsqrt() if inside else (std + self.cfg.eps).reciprocal()
        return self.affine(centred * inverse.view(shape), x.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, unbiased_var: Tensor) -> None:
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.cfg.momentum)
        self.running_var.lerp_(unbiased_var.to(self.running_var.dtype), self.cfg.momentum)
        self.num_batches_tracked.add_(1)

    def extra_repr(self) -> str:
        """Show what decides the result."""
        return f"{super().extra_repr()}, momentum={self.cfg.momentum}"


class Family(NormFamily):
    """BatchNorm at every site."""

    min_rows = 2

    def features(self, dim: int) -> nn.Module:
        """Build the norm of a feature vector [..., dim]."""
        return BatchNorm(dim, self.cfg, self.impl)

    def channels(self, channels: int) -> nn.Module:
        """Build the norm of a convolution's output [N, channels, H, W]."""
        return BatchNorm(channels, self.cfg, self.impl, image=True)
