"""What the paper's plots show, and at which step each of their readable points stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rmsrepro.report.mean_curves import By


@dataclass(frozen=True)
class Panel:
    """One plot: the first of `metrics` that was logged, over steps or time."""

    metrics: tuple[str, ...]
    by: By = "step"
    marks: Mapping[str, float] = field(default_factory=dict)
    """Column of results/paper -> the step that it is read at."""
    until: int | None = None
    """The last step that the paper shows."""


_BLEU = ("valid/bleu",)
_POINT_STEPS = 30_000  # Figure 4 has a point every so many steps

FIGURES: dict[str, tuple[Panel, ...]] = {
    "figure1": (
        # By time it has no marks: seconds of the paper's machine say nothing about those of another.
        Panel(("train/loss",), marks={"loss_step_3000": 3_000, "loss_step_10000": 10_000}, until=10_000),
        Panel(("train/loss",), "time", until=10_000),
    ),
    "figure2": (Panel(_BLEU, marks={"plateau": 1_500_000}),),
    "figure4": (Panel(_BLEU, marks={f"point_{n}": n * _POINT_STEPS for n in (0, 10, 20, 29, 32)}),),
    "figure5": (Panel(("valid/error",), marks={"end": 300_000}),),
    "figure6": tuple(Panel((f"valid/image_r{k}",)) for k in (1, 5, 10)),
    "figure7": (Panel(_BLEU),),
    "table9": (Panel(("train/error", "train/loss")), Panel(("valid/error",))),
}
