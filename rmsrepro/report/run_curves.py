"""The curves that a run's own metrics.jsonl holds."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

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
    """Return the curves of a run whose directory is at hand, of any other none; raises DataError, OSError."""
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
    """Read a run's metrics.jsonl as metric -> points in order of their steps; raises DataError, OSError.

    A run that is still writing may lack its last line.
    """
    found: dict[str, dict[int, Point]] = defaultdict(dict)
    for row in read_jsonl(path):
        try:
            step, time_s = int(row["step"]), float(row["time_s"])
            if not (0 <= step <= MOST_STEPS and 0 <= time_s < math.inf):
                raise ValueError(f"step {row['step']} at {row['time_s']} s")
            for name, value in row.items():
                if name.startswith(_KINDS) and name not in _NO_CURVES:
                    found[name][step] = (step, time_s, float(value))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{path}: a line without step, time_s or number ({error})") from error
    return {name: [points[step] for step in sorted(points)] for name, points in sorted(found.items())}
