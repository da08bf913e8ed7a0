"""The learning rate (and Adam's beta1) as a pure function of the step."""

from __future__ import annotations

import math

from rmsrepro.config import TrainConfig


def lr_at(step: int, total_steps: int, cfg: TrainConfig) -> float:
    """Return the learning rate of 0-based `step` out of `total_steps`.

    The warm-up rises linearly and reaches the peak at step `warmup_steps`; decay starts after the share
    `decay_start` of training. `inverse_sqrt` is Vaswani et al.'s, scaled so that its peak is `lr`; what
    `plateau` divides by is no function of the step, and `rmsrepro.train.plateau` keeps it.
    """
    if step < cfg.warmup_steps:
        return cfg.lr * (step + 1) / (cfg.warmup_steps + 1)
    if cfg.schedule == "inverse_sqrt":
        return cfg.lr * math.sqrt((cfg.warmup_steps + 1) / (step + 1))
    begin = max(cfg.warmup_steps, decay_step(total_steps, cfg))
    if cfg.schedule in ("constant", "plateau") or step <= begin:
        return cfg.lr
    done = (step - begin) / max(total_steps - begin, 1)
    if cfg.schedule == "linear":
        return cfg.lr * (1.0 - done)
    return cfg.lr * 0.5 * (1.0 + math.cos(math.pi * done))


def beta1_at(step: int, total_steps: int, cfg: TrainConfig) -> float:
    """Return Adam's beta1 at `step`: it drops to `beta1_late` when decay starts (the paper's CIFAR-10 code)."""
    late = cfg.beta1_late is not None and step >= decay_step(total_steps, cfg)
    return cfg.beta1_late if late and cfg.beta1_late is not None else cfg.beta1


def decay_step(total_steps: int, cfg: TrainConfig) -> int:
    """Return the first step after the share `decay_start` of training."""
    return round(cfg.decay_start * total_steps)
