"""What the paper's plots show, and at which step each of their readable points stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rmsrepro.report.curve_readings import FIGURE1_METRIC, FIGURE1_STEPS, FIGURE4_POINTS, POINT_STEPS
from rmsrepro.report.mean_curves import By


@dataclass(frozen=True)
class Panel:
    """One plot: the first of `metrics` that was logged, over steps or time; marks are of the very first."""

    metrics: tuple[str, ...]
    by: By = "step"
    marks: Mapping[str, float] = field(default_factory=dict)
    """Column of results/paper -> the step that it is read at."""
    until: int | None = None
    """The last step that the paper shows."""


_BLEU = ("valid/bleu",)
_LOSS = (FIGURE1_METRIC, "train/loss")

FIGURES: dict[str, tuple[Panel, ...]] = {
    "figure1": (
        # By time it has no marks: seconds of the paper's machine say nothing about those of another.
        Panel(_LOSS, marks={f"loss_step_{step}": step for step in FIGURE1_STEPS}, until=FIGURE1_STEPS[-1]),
        Panel(_LOSS, "time", until=FIGURE1_STEPS[-1]),
    ),
    "figure2": (Panel(_BLEU, marks={"plateau": 1_500_000}),),
    "figure4": (Panel(_BLEU, marks={f"point_{n}": n * POINT_STEPS for n in FIGURE4_POINTS}),),
    "figure5": (Panel(("valid/error",), marks={"end": 300_000}),),
    "figure6": tuple(Panel((f"valid/image_r{k}",)) for k in (1, 5, 10)),
    "figure7": (Panel(_BLEU),),
    "table9": (Panel(("train/error", "train/loss")), Panel(("valid/error",))),
}
