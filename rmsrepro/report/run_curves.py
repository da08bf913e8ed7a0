"""The curves that a run's own metrics.jsonl holds."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from rmsrepro.errors import DataError
from rmsrepro.report.curves import MOST_STEPS, CurveRecord, Point, thin
from rmsrepro.report.fields import printable
from rmsrepro.report.records import RunRecord
from rmsrepro.runs.atomic import read_jsonl
from rmsrepro.runs.rundir import RunDir

#: Metrics of these kinds are curves; learning rates, times and the like are not.
_KINDS = ("train/", "valid/")
_NO_CURVES = ("train/lr", "train/grad_norm", "train/skipped_steps")


def read_curves(run: RunRecord) -> list[CurveRecord]:
    """Return the curves of a run whose directory is at hand, of any other none; raises DataError."""
    if run.folder is None:
        return []
    path = RunDir(run.folder).metrics_jsonl
    if not path.is_file():
        return []
    curves = []
    for metric, points in printable(read_metrics(path)).items():
        steps, time_s, values = zip(*thin(points), strict=True)
        curves.append(
            CurveRecord(run.plan, run.arm, run.size, run.seed, run.variant, metric, steps, time_s, values, run.where)
        )
    return curves


def read_metrics(path: Path) -> dict[str, list[Point]]:
    """Read a run's metrics.jsonl as metric -> points in order of their steps; raises DataError.

    A run that is still writing may lack its last line.
    """
    found: dict[str, dict[int, Point]] = defaultdict(dict)
    for row in _rows(path):
        try:
            step, time_s = int(row["step"]), float(row["time_s"])
            if not (0 <= step <= MOST_STEPS and 0 <= time_s < math.inf):
                raise ValueError(f"step {row['step']} at {row['time_s']} s")
            for name, value in row.items():
                if name.startswith(_KINDS) and name not in _NO_CURVES:
                    found[name][step] = (step, time_s, float(value))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{path}: a line without step, time_s or number ({error})") from error
    curves = {name: [points[step] for step in sorted(points)] for name, points in sorted(found.items())}
    for name, points in curves.items():
        for (earlier, before_s, _), (step, time_s, _) in pairwise(points):
            if time_s < before_s:
                raise DataError(f"{path}: {name} has step {step} at {time_s} s, before step {earlier} at {before_s} s")
    return curves


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        return read_jsonl(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
