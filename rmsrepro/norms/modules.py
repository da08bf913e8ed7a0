"""The modules that normalisers are made of: gain and shift, norms over rows, layers with a norm behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from rmsrepro.errors import ConfigError
from rmsrepro.norms import composed
from rmsrepro.norms.config import NormConfig


class AffineNorm(nn.Module, ABC):
    """A norm of `dim` features: vectors [..., dim] or, with `image=True`, images [N, dim, H, W].

    Parameters are named `weight` and `bias`, each [dim], as in torch's norms.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(self, dim: int, cfg: NormConfig, impl: str, *, image: bool = False) -> None:
        super().__init__()
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
            raise ConfigError(f"{cfg.name}: a norm over {dim} features was asked for; a whole number from 1 is needed")
        self.dim, self.cfg, self.impl, self.image = dim, cfg, impl, image
        self.register_parameter("weight", nn.Parameter(torch.empty(dim)) if cfg.gain else None)
        self.register_parameter("bias", nn.Parameter(torch.empty(dim)) if cfg.shift else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start as the plain normalisation: an effective gain of one and a shift of zero."""
        if self.weight is not None:
            nn.init.constant_(self.weight, 1.0 - self.cfg.gain_offset)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def check_shape(self, x: Tensor) -> None:
        """Refuse an input that does not hold `dim` features where they are expected."""
        fits = x.dim() >= 3 and x.shape[1] == self.dim if self.image else x.dim() >= 1 and x.shape[-1] == self.dim
        if not fits:
            wanted = f"[N, {self.dim}, H, W]" if self.image else f"[..., {self.dim}]"
            raise ValueError(f"{self.cfg.name} expects {wanted}, got {list(x.shape)}")

    def affine(self, y: Tensor, out_dtype: torch.dtype) -> Tensor:
        """Apply gain and shift to normalised values `y` [..., dim] or [N, dim, H, W] and round to `out_dtype`."""
        shape = (self.dim,) + (1,) * (y.dim() - 2 if self.image else 0)
        return composed.affine(
            y,
            None if self.weight is None else self.weight.view(shape),
            None if self.bias is None else self.bias.view(shape),
            out_dtype,
            gain_offset=self.cfg.gain_offset,
            cast_before_gain=self.cfg.cast_before_gain,
        )

    def extra_repr(self) -> str:
        """Show what decides the result."""
        return f"{self.dim}, eps={self.cfg.eps}, impl={self.impl}"


class RowNorm(AffineNorm):
    """A norm with one statistic per row: a feature vector or, of an image, what `cfg.axes` says."""

    def row_options(self) -> dict[str, Any]:
        """Collect what the functions of rmsrepro.norms.functional all take."""
        cfg = self.cfg
        return {
            "eps": cfg.eps,
            "impl": self.impl,
            "eps_placement": cfg.eps_placement,
            "compute_dtype": cfg.compute_dtype,
            "gain_offset": cfg.gain_offset if cfg.gain else 0.0,
            "cast_before_gain": cfg.cast_before_gain,
        }

    @abstractmethod
    def normalise(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise rows `x` [..., n] over their last dimension; `weight` and `bias` are [n]."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x` [..., dim], or [N, dim, H, W] for an image norm; shape and type are kept."""
        self.check_shape(x)
        if not self.image:
            return self.normalise(x, self.weight, self.bias)
        if self.cfg.axes == "c":
            return self.normalise(x.movedim(1, -1), self.weight, self.bias).movedim(-1, 1)
        if self.cfg.axes == "chw" and self.impl != "composed":
            # Spread over the row, gain and shift join the single pass of a fused operation: half the memory is kept.
            rows = self.normalise(x.flatten(1), self._spread(self.weight, x), self._spread(self.bias, x))
            return rows.reshape(x.shape)
        a = x.to(composed.compute_type(x, self.cfg.compute_dtype))
        rows = a.flatten(1 if self.cfg.axes == "chw" else 2)  # [N, C*H*W] or [N, C, H*W]
        return self.affine(self.normalise(rows, None, None).reshape(x.shape), x.dtype)

    def _spread(self, parameter: nn.Parameter | None, image: Tensor) -> Tensor | None:
        """Repeat a per-channel parameter [C] at every position of `image` [N, C, H, W]: [C*H*W]."""
        if parameter is None:
            return None
        return parameter.view(-1, *[1] * (image.dim() - 2)).expand(image.shape[1:]).reshape(-1)

    def extra_repr(self) -> str:
        """Show what decides the result."""
        over = f", axes={self.cfg.axes}" if self.image else ""
        return f"{super().extra_repr()}, p={self.cfg.p}{over}"


class NormedLayer(nn.Module):
    """A weight layer whose summed inputs are normalised: norm(Wx) + b, or norm(Wx + b) with the bias inside."""

    def __init__(self, layer: nn.Linear | nn.Conv2d, norm: nn.Module, outer_bias: nn.Parameter | None) -> None:
        super().__init__()
        self.layer, self.norm = layer, norm
        self.register_parameter("bias", outer_bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map `x` [..., in] to [..., out] (linear) or [N, in, H, W] to [N, out, H', W'] (convolution)."""
        y = self.norm(self.layer(x))
        if self.bias is None:
            return y
        shape = (-1, 1, 1) if isinstance(self.layer, nn.Conv2d) else (-1,)
        return y + self.bias.view(shape).to(y.dtype)
