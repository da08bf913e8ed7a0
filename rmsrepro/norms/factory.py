"""The factory that models ask for norms: a model names the site, the configuration names the norm."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from rmsrepro.conf import load_preset, load_yaml, option_names
from rmsrepro.errors import ConfigError
from rmsrepro.kernels.spec import IMPLS
from rmsrepro.norms.base import SITES, Conv2dShape, NormFamily
from rmsrepro.norms.config import NormConfig
from rmsrepro.norms.functional import explain
from rmsrepro.typed import build


def norm_names() -> list[str]:
    """List the normalisers: one for each file of conf/norm, with a module of the same name in this folder."""
    return option_names("norm")


def family_module(name: str) -> str:
    """Return the module name of the norm `name`; case, hyphens and underscores do not matter."""
    wanted = name.lower().replace("_", "").replace("-", "") if isinstance(name, str) else None
    if wanted is None or wanted not in norm_names():
        raise ConfigError(f"norm={name}: known norms are {', '.join(norm_names())}")
    return wanted


def find_family(name: str) -> type[NormFamily]:
    """Return the family of the norm `name`."""
    return importlib.import_module(f"rmsrepro.norms.{family_module(name)}").Family


class NormFactory:
    """Builds the configured norm at each site of a model, in the configured implementation.

    Raises ConfigError, naming the sites that the norm can serve, where it cannot serve one.
    """

    def __init__(self, cfg: NormConfig, impl: str = "auto") -> None:
        cfg.validate()
        if impl not in IMPLS:
            raise ConfigError(f"impl={impl}: allowed are {', '.join(IMPLS)}")
        family = find_family(cfg.name)
        if cfg.p < 1.0 and not family.allows_partial:
            raise ConfigError(f"norm.p={cfg.p}: {cfg.name} has no partial statistic; allowed is 1.0")
        unknown = sorted(set(cfg.extra) - set(family.options))
        if unknown:
            known = f"it knows {', '.join(family.options)}" if family.options else "it has none"
            raise ConfigError(f"norm.extra.{unknown[0]}: {cfg.name} has no such option; {known}")
        self.cfg, self.impl = cfg, impl
        self.family = family(cfg, impl)

    def require(self, sites: Iterable[str], batch_rows: int | None = None, device: str = "cpu") -> None:
        """Check before anything is built that the norm can serve `sites` on `device`, `batch_rows` rows a batch."""
        self.resolved_impl(device)
        for site in sites:
            if site not in SITES:
                raise ValueError(f"unknown site '{site}'; sites are {', '.join(SITES)}")
            if site not in self.family.sites:
                served = ", ".join(self.family.sites)
                raise ConfigError(f"norm={self.cfg.name} cannot serve the site '{site}'; it serves {served}")
        if batch_rows is not None and batch_rows < self.family.min_rows:
            raise ConfigError(
                f"train.batch_size={batch_rows}: norm={self.cfg.name} takes its statistics over the batch "
                f"and needs at least {self.family.min_rows}"
            )

    def resolved_impl(self, device: str = "cpu") -> str:
        """Return what computes the norm on `device`; raises ConfigError where the asked `impl` cannot.

        `auto` becomes what it stands for, and `torch` the composed formula where torch has no such operation. No norm
        at all, and norms without kernels, run torch's operations.
        """
        cfg, op = self.cfg, self.family.op
        if op is not None:
            chosen, _ = explain(
                op,
                torch.empty(1 << 11, 1 << 10, device="meta"),
                impl=self.impl,
                device=device,
                eps=cfg.eps,
                partial=cfg.p,
                rounding=cfg.rounding,
                eps_placement=cfg.eps_placement,
                compute_dtype=cfg.compute_dtype,
                gain_offset=cfg.gain_offset,
                cast_before_gain=cfg.cast_before_gain,
            )
            return self.impl if self.impl in ("composed", "compile") else chosen
        if self.impl == "fused" and self.cfg.name != "none":
            raise ConfigError(f"impl=fused: there is no fused kernel for norm={self.cfg.name}; use impl=auto")
        return "torch" if self.impl in ("auto", "fused") else self.impl

    def linear(self, in_features: int, out_features: int, bias: bool = True) -> nn.Module:
        """Build a linear map [..., in] -> [..., out] whose summed inputs are normalised."""
        return self.family.linear(in_features, out_features, bias)

    def conv2d(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        padding: int | str = 0,
        stride: int = 1,
        bias: bool = True,
    ) -> nn.Module:
        """Build a convolution [N, in, H, W] -> [N, out, H', W'] whose output is normalised."""
        return self.family.conv2d(Conv2dShape(in_channels, out_channels, kernel_size, padding, stride), bias)

    def features(self, dim: int) -> nn.Module:
        """Build a norm of feature vectors [..., dim]."""
        return self.family.features(dim)

    def channels(self, channels: int) -> nn.Module:
        """Build a norm of a convolution's output [N, channels, H, W]."""
        return self.family.channels(channels)


def norm_config(name: str, preset: str | None = None, **overrides: Any) -> NormConfig:
    """Return the configuration of `name`: conf/norm's file, then a code base's preset, then `overrides`."""
    module = family_module(name)
    values = load_yaml(f"norm/{module}.yaml")
    if preset is not None:
        values |= load_preset(preset) | {"preset": preset}
    return build(NormConfig, values | overrides, "norm")


def build_norm(name: str, dim: int, *, impl: str = "auto", preset: str | None = None, **fields: Any) -> nn.Module:
    """Build the norm `name` over feature vectors [..., dim]; `fields` are NormConfig's (eps, p, gain, ...)."""
    return NormFactory(norm_config(name, preset, **fields), impl).features(dim)
