"""What a number of the paper's figures is in terms of our runs: a metric at a step, at a time, or over all arms.

The rule: a curve is read where the paper reads its own, and only where that means the same. The paper's steps do so at
its own size, so at any other nothing is read off. Between two logged values the line is straight, but they must not be
further apart than `WIDEST_GAP` of where it is read; outside of the logged range there is nothing. Times are those of
runs of one seed, impl and machine. What cannot be read is not measured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rmsrepro.report.claims import Column
from rmsrepro.report.curves import CurveRecord
from rmsrepro.report.metrics import unit_of
from rmsrepro.report.records import RunRecord
from rmsrepro.report.runs_index import Index
from rmsrepro.report.units import convert, unit
from rmsrepro.sweep.plan import Plan

#: How far apart two logged values may be to be joined, as a share of the step or time between them.
WIDEST_GAP = 0.2
#: Figure 1 in nats per target token, which is what its values can be; the loss itself is a sum over each sentence.
FIGURE1_METRIC, FIGURE1_STEPS = "train/token_loss", (3_000, 10_000)
#: Figure 4 has a point for every validation of the paper.
POINT_STEPS, FIGURE4_POINTS = 30_000, (0, 10, 20, 29, 32)


@dataclass(frozen=True)
class AtStep:
    """A metric at one of the paper's steps."""

    metric: str
    step: int

    @property
    def missing(self) -> str:
        """Say what there is not where this cannot be read."""
        return f"no {self.metric} logged around step {self.step}"


@dataclass(frozen=True)
class AtTimeOf:
    """A metric at the time at which another arm's run of the same seed, impl and machine reached a step."""

    metric: str
    arm: str
    step: int

    @property
    def missing(self) -> str:
        """Say what there is not where this cannot be read."""
        return f"no {self.metric} logged around the time of step {self.step} of {self.arm}, by seed, impl and machine"


@dataclass(frozen=True)
class OverArms:
    """The extreme of what the runs of all arms end with, seed by seed; it means the same at every size."""

    metric: str
    pick: Callable[[Iterable[float]], float]

    @property
    def missing(self) -> str:
        """Say what there is not where this cannot be read."""
        return f"no seed has {self.metric} of every arm"


Reading = AtStep | AtTimeOf | OverArms

#: Metric as results/paper names it -> how it is read.
READINGS: dict[str, Reading] = {
    **{f"curve/train_loss_step_{step}": AtStep(FIGURE1_METRIC, step) for step in FIGURE1_STEPS},
    "curve/train_loss_equal_time": AtTimeOf(FIGURE1_METRIC, "baseline", FIGURE1_STEPS[0]),
    **{f"curve/valid_bleu_point_{n}": AtStep("valid/bleu", n * POINT_STEPS) for n in FIGURE4_POINTS},
    "curve/valid_bleu_lowest": OverArms("valid/bleu", min),
    "curve/valid_bleu_highest": OverArms("valid/bleu", max),
}


def why_missing(reading: Reading, size: str) -> str:
    """Say why no finished run of this size gives the number."""
    if size != "paper" and not isinstance(reading, OverArms):
        return "the paper's steps mean the same at size=paper only"
    return reading.missing


def read_off(reading: Reading, column: Column, run: RunRecord, plan: Plan, index: Index) -> float | None:
    """Return the number that a finished run gives, in the column's unit; None where there is none.

    Raises DataError for a value that its unit cannot have. `OverArms` gives the same for each of a seed's runs.
    """
    if isinstance(reading, OverArms):
        same = (plan.name, reading, column.unit, column.heading, run.size, run.seed, run.data)
        if same not in index.over_arms:
            index.over_arms[same] = _over_arms(reading, column, run, plan, index)
        return index.over_arms[same]
    curve = _curve(index, run, reading.metric)
    if run.size != "paper" or curve is None:
        return None
    if isinstance(reading, AtStep):
        value = value_at(curve.steps, curve.values, reading.step)
    else:
        time_s = _time_of(reading, run, plan, index)
        value = None if time_s is None else value_at(curve.time_s, curve.values, time_s)
    return None if value is None else _in_unit(value, reading.metric, column, run)


def value_at(x: Sequence[float], y: Sequence[float], at: float) -> float | None:
    """Return the value at `at` of a curve whose `x` rise; None outside of them and in a gap that is too wide."""
    if not x or not x[0] <= at <= x[-1]:
        return None
    right = bisect_left(x, at)
    if x[right] == at:
        return y[right]
    left = right - 1
    if x[right] - x[left] > WIDEST_GAP * at:
        return None
    share = (at - x[left]) / (x[right] - x[left])
    return y[left] + share * (y[right] - y[left])


def _time_of(reading: AtTimeOf, run: RunRecord, plan: Plan, index: Index) -> float | None:
    for other in index.arm_runs(plan, reading.arm, run.size):
        alike = (other.seed, other.impl, other.hardware, other.data) == (run.seed, run.impl, run.hardware, run.data)
        curve = _curve(index, other, reading.metric) if alike and other.state == "done" else None
        if curve is not None:
            return value_at(curve.steps, curve.time_s, reading.step)
    return None


def _over_arms(reading: OverArms, column: Column, run: RunRecord, plan: Plan, index: Index) -> float | None:
    values = []
    for arm in plan.arms:
        runs = index.arm_runs(plan, arm, run.size)
        found = [other for other in runs if (other.seed, other.data) == (run.seed, run.data)]
        metrics = found[0].result["metrics"] if found and found[0].result else {}
        if reading.metric not in metrics:
            return None
        values.append(_in_unit(float(metrics[reading.metric]), reading.metric, column, found[0]))
    return reading.pick(values)


def _curve(index: Index, run: RunRecord, metric: str) -> CurveRecord | None:
    return next((curve for curve in index.run_curves(run) if curve.metric == metric and curve.is_finite), None)


def _in_unit(value: float, metric: str, column: Column, run: RunRecord) -> float:
    return convert(value, unit_of(run.result or {}, metric), unit(column.unit, column.heading), metric)
