"""What the norms' tests share: which norms and implementations there are, and the formulas by hand in float64."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from rmsrepro.errors import ConfigError
from rmsrepro.norms import norm_names
from rmsrepro.norms.config import NormConfig
from rmsrepro.norms.functional import layer_norm, rms_norm

ROW_NORMS = ("layernorm", "rmsnorm", "prmsnorm", "l2norm")


def available_impls() -> list[str]:
    """List the implementations that run on this machine: a fused one joins when its kernels are there."""
    impls = ["composed", "torch"]
    try:
        row = torch.ones(1, 8)
        rms_norm(row, impl="fused")
        layer_norm(row, impl="fused")
    except ConfigError:
        return impls
    return [*impls, "fused"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    values = {
        "impl": available_impls,
        "row_norm": lambda: ROW_NORMS,
        "statistic_norm": lambda: (*ROW_NORMS, "batchnorm"),
        "norm": norm_names,
        "eps_placement": lambda: ("inside", "outside"),
        "axes": lambda: ("chw", "hw", "c"),
    }
    for name, list_values in values.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, list_values())


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def _rows_by_hand(cfg: NormConfig, rows: np.ndarray) -> np.ndarray:
    n = rows.shape[-1]
    if cfg.name == "layernorm":
        rows = rows - rows.mean(-1, keepdims=True)
    share = Fraction(str(cfg.p)) * n
    k = max(1, math.ceil(share) if cfg.rounding == "ceil" else math.floor(share))
    total = (rows[..., :k] ** 2).sum(-1, keepdims=True)
    statistic = total if cfg.name == "l2norm" else total / k
    return rows / (np.sqrt(statistic + cfg.eps) if cfg.eps_placement == "inside" else np.sqrt(statistic) + cfg.eps)


def _batch_by_hand(cfg: NormConfig, x: np.ndarray) -> np.ndarray:
    rows = x.reshape(-1, x.shape[-1])
    centred = rows - rows.mean(0)
    var = (centred**2).sum(0) / (len(rows) - cfg.unbiased)
    spread = np.sqrt(var + cfg.eps) if cfg.eps_placement == "inside" else np.sqrt(var) + cfg.eps
    return (centred / spread).reshape(x.shape)


def by_hand(cfg: NormConfig, x: torch.Tensor, gain=1.0, shift=0.0, *, image: bool = False) -> torch.Tensor:
    """Normalise `x` [..., n] or images [N, C, H, W] in float64; `gain` (in effect) and `shift` are [n] or [C]."""
    a = x.detach().double().numpy()
    gain, shift = (np.asarray(torch.as_tensor(v).detach().double()) for v in (gain, shift))
    if image and (cfg.axes == "c" or cfg.name == "batchnorm"):
        return by_hand(cfg, x.movedim(1, -1), gain, shift).movedim(-1, 1)
    if image:
        rows = a.reshape(*a.shape[: 1 if cfg.axes == "chw" else 2], -1)
        gain, shift = (v.reshape(-1, 1, 1) for v in (gain, shift))
        y = _rows_by_hand(cfg, rows).reshape(a.shape)
    else:
        y = _batch_by_hand(cfg, a) if cfg.name == "batchnorm" else _rows_by_hand(cfg, a)
    return torch.from_numpy(y * gain + shift)


@pytest.fixture(name="by_hand")
def _by_hand():
    return by_hand


def randomise(module: torch.nn.Module) -> torch.nn.Module:
    """Draw every parameter anew, so that gains of one and shifts of zero hide nothing."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_().add_(0.5)
    return module


@pytest.fixture(name="randomise")
def _randomise():
    return randomise
