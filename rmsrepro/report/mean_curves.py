"""Curves of one arm as their mean over seeds with its interval, and apart from it those that cannot be averaged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy import stats

from rmsrepro.report.curves import CurveRecord
from rmsrepro.report.records import RunRecord
from rmsrepro.report.runs_index import Index
from rmsrepro.report.statistics import LEVEL
from rmsrepro.report.verdict import MIN_RUNS

By = Literal["step", "time"]
_TIME_POINTS = 100


@dataclass(frozen=True)
class MeanCurve:
    """The mean of `n` seeds over steps, or over seconds; the interval is None from fewer than three."""

    x: np.ndarray
    mean: np.ndarray
    n: int
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass
class ArmCurves:
    """All curves of one arm by metric: those of finished runs, and those that ended otherwise, with how."""

    whole: dict[str, list[CurveRecord]] = field(default_factory=dict)
    apart: dict[str, list[tuple[CurveRecord, str]]] = field(default_factory=dict)


def arm_curves(index: Index, runs: Iterable[RunRecord]) -> ArmCurves:
    """Collect the curves of one arm's runs; a run that is not done, or has values that are no numbers, stays apart."""
    found = ArmCurves()
    for run in runs:
        for curve in index.run_curves(run):
            if run.state == "done" and curve.is_finite:
                found.whole.setdefault(curve.metric, []).append(curve)
            else:
                why = run.state if run.state != "done" else "not finite"
                found.apart.setdefault(curve.metric, []).append((curve, why))
    return found


def mean_curve(curves: Sequence[CurveRecord], by: By, *, log: bool = False) -> MeanCurve | None:
    """Average over seeds where all of them have values; None where they share no range.

    Seeds logged at the same steps are averaged as they are. Otherwise, as always over time, each is interpolated
    linearly. The interval is Student's t, as that of every other mean. With `log`, mean and interval are those of the
    logarithms, so that a band on a logarithmic axis does not fall out of it; all values must be positive then.
    """
    if not curves:
        return None
    xs = [np.asarray(axis_of(curve, by), dtype=float) for curve in curves]
    ys = [np.log(curve.values) if log else np.asarray(curve.values) for curve in curves]
    if len(curves) == 1 or all(np.array_equal(xs[0], x) for x in xs[1:]):
        grid, rows = xs[0], np.stack(ys)
    else:
        low, high = max(x[0] for x in xs), min(x[-1] for x in xs)
        if low > high:
            return _one_point(xs, ys, log) if by == "time" and all(len(x) == 1 for x in xs) else None
        shared = xs[0][(xs[0] >= low) & (xs[0] <= high)]
        grid = np.linspace(low, high, _TIME_POINTS) if by == "time" else np.unique([low, *shared, high])
        rows = np.stack([np.interp(grid, x, y) for x, y in zip(xs, ys, strict=True)])
    n, mean = len(curves), rows.mean(axis=0)
    if n < MIN_RUNS:
        return MeanCurve(grid, _back(mean, log), n)
    sem = stats.sem(rows, axis=0)
    spread = sem > 0
    low, high = stats.t.interval(LEVEL, n - 1, loc=mean, scale=np.where(spread, sem, 1.0))
    low, high = np.where(spread, low, mean), np.where(spread, high, mean)
    return MeanCurve(grid, _back(mean, log), n, _back(low, log), _back(high, log))


def _one_point(xs: Sequence[np.ndarray], ys: Sequence[np.ndarray], log: bool) -> MeanCurve:
    """Average the only value of each seed at their mean time; they are of different times, so there is no band."""
    return MeanCurve(np.mean(xs, axis=0), _back(np.mean(ys, axis=0), log), len(xs))


def axis_of(curve: CurveRecord, by: By) -> Sequence[float]:
    """Return a curve's steps, or its seconds since the run began."""
    return curve.steps if by == "step" else curve.time_s


def _back(values: np.ndarray, log: bool) -> np.ndarray:
    return np.exp(values) if log else values
