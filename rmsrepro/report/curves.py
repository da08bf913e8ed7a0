"""Curves: how a metric of one run moved over steps and time, from its metrics.jsonl or from committed records.

A committed curve holds at most `MOST_POINTS` of the logged values, thinned and never averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from rmsrepro.report.fields import numbers, size_name, text, whole_number, whole_numbers
from rmsrepro.report.statistics import is_number
from rmsrepro.runs.atomic import atomic_writer, to_json

SCHEMA = 1
MOST_POINTS = 200
#: Larger ones are no exact floats.
MOST_STEPS = 1 << 53

#: Step, seconds since the run began, value.
Point = tuple[int, float, float]


@dataclass(frozen=True)
class CurveRecord:
    """One metric of one run, as logged: values by step, and by seconds since the run began."""

    plan: str
    arm: str
    size: str
    seed: int
    variant: str
    metric: str
    steps: tuple[int, ...]
    time_s: tuple[float, ...]
    values: tuple[float, ...]
    where: str = ""

    @property
    def run(self) -> tuple[str, str, str, int]:
        """Name the run that this is a curve of."""
        return self.plan, self.arm, self.variant, self.seed

    def first(self, count: int) -> CurveRecord:
        """Return the curve's first points."""
        return replace(self, steps=self.steps[:count], time_s=self.time_s[:count], values=self.values[:count])

    @property
    def is_finite(self) -> bool:
        """Say whether every value is a number that can be computed with."""
        return all(map(is_number, self.values))


def thin(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Keep at most `most` points, the first and the last always.

    Half of them are evenly spaced by index; the others grow apart, as a loss moves most at its start. Where a value is
    not finite, the first such point stays too: a run that broke must show it.
    """
    if len(points) <= most:
        return list(points)
    broken = next((i for i, point in enumerate(points) if not is_number(point[2])), None)
    room = most - 1 if broken is not None else most
    even, last = room // 2, len(points) - 1
    kept = {round(i * last / (even - 1)) for i in range(even)}
    kept |= {round(len(points) ** (i / (room - even - 1))) - 1 for i in range(room - even)}
    if broken is not None:
        kept.add(broken)
    return [points[i] for i in sorted(kept)]


def parse_curve(row: dict[str, Any], where: str) -> CurveRecord:
    """Read one committed line; raises KeyError, TypeError or ValueError that say what is wrong with it."""
    texts = {key: text(row, key) for key in ("plan", "arm", "variant", "metric")}
    steps = whole_numbers(row, "steps")
    time_s, values = numbers(row, "time_s"), numbers(row, "values")
    if not len(steps) == len(time_s) == len(values):
        raise ValueError(f"steps, time_s and values hold {len(steps)}, {len(time_s)} and {len(values)} numbers")
    if not 0 < len(steps) <= MOST_POINTS:
        raise ValueError(f"{len(steps)} points; a curve holds 1 to {MOST_POINTS}")
    if any(later <= earlier for earlier, later in pairwise(steps)):
        raise ValueError("steps do not rise")
    if steps[-1] > MOST_STEPS:
        raise ValueError(f"steps are too large; allowed are 0 to {MOST_STEPS}")
    if not all(0 <= a <= b < math.inf for a, b in zip(time_s, time_s[1:] or time_s, strict=False)):
        raise ValueError("time_s falls, or is no time")
    size, seed = size_name(row), whole_number(row, "seed")
    return CurveRecord(**texts, size=size, seed=seed, steps=steps, time_s=time_s, values=values, where=where)


def curve_row(curve: CurveRecord) -> dict[str, Any]:
    """Return the line of one curve: values to six digits, times to the hundredth of a second."""
    return {
        "kind": "curve",
        "schema": SCHEMA,
        "plan": curve.plan,
        "arm": curve.arm,
        "size": curve.size,
        "seed": curve.seed,
        "variant": curve.variant,
        "metric": curve.metric,
        "steps": list(curve.steps),
        "time_s": [round(seconds, 2) for seconds in curve.time_s],
        "values": [float(f"{value:.6g}") for value in curve.values],
    }


def write_curves(path: Path, curves: Iterable[CurveRecord]) -> None:
    """Write curves, sorted, in one step; raises OSError."""
    ordered = sorted(curves, key=lambda c: (c.plan, c.size, c.arm, c.variant, c.seed, c.metric))
    with atomic_writer(path) as file:
        for curve in ordered:
            file.write((to_json(curve_row(curve)) + "\n").encode())
