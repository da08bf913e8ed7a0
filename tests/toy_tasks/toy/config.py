"""The settings of the toy task: what goes wrong, and when, counted in micro-batches from 0."""

from __future__ import annotations

from dataclasses import dataclass, field

from rmsrepro.config import TaskConfig


@dataclass
class Config(TaskConfig):
    name: str = "toy"
    train_items: int = 64
    dropout: float = 0.5
    carry: bool = False
    direction: str = "max"
    nan_at: int | None = None
    padding_at: int | None = None
    error_at: int | None = None
    error: str = "bug"
    eval_values: list[float] = field(default_factory=list)
    step_sleep_s: float = 0.0
    eval_sleep_s: float = 0.0
    load_sleep_s: float = 0.0
