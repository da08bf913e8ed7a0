"""Write a plan's finished runs as committed records, one line each, and their curves beside them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from rmsrepro.errors import DataError
from rmsrepro.report.curves import CurveRecord, write_curves
from rmsrepro.report.records import Record, RunRecord, best_of, read_records, write_runs
from rmsrepro.report.run_curves import read_curves
from rmsrepro.report.run_dirs import read_run_dirs
from rmsrepro.sweep.plan import load_plan

#: How a run may have ended to be worth a record: a model that cannot be trained is a finding too.
PUBLISHED_STATES = ("done", "diverged", "oom")


def publish(plan_name: str, runs_root: Path, folder: Path) -> tuple[Path, int]:
    """Add the plan's runs below `runs_root` to its file in `folder`; returns the file and how many runs it now has.

    Their curves go to a second file, curves-PLAN.jsonl. Of several records of one configuration and seed, wherever they
    are from, a finished one is kept, the newest. Raises DataError when there is nothing to publish or a file that is
    there cannot be read whole.
    """
    plan = load_plan(plan_name)
    runs, complaints = read_run_dirs(runs_root)
    new = [run for run in runs if run.plan == plan.runs_plan and run.state in PUBLISHED_STATES]
    if not new:
        reason = f" ({complaints[0]})" if complaints else ""
        raise DataError(f"{runs_root}: no finished run of plan {plan_name}{reason}; run it, or set runs.root=DIR")
    path = folder / f"runs-{plan.runs_plan}.jsonl"
    old = [record for record in _existing(path) if isinstance(record, RunRecord)]
    copies: dict[tuple[str, str, int], list[RunRecord]] = defaultdict(list)
    for run in (*old, *new):
        copies[run.arm, run.variant, run.seed].append(run)
    kept = [best_of(group) for group in copies.values()]
    curves_path = folder / f"curves-{plan.runs_plan}.jsonl"
    # Before anything is written, as one of them may be broken.
    curves = _all_curves(curves_path, [run for run in kept if any(run is other for other in new)])
    folder.mkdir(parents=True, exist_ok=True)
    write_runs(path, (replace(run, where="") for run in kept))
    if curves:
        write_curves(curves_path, curves)
    return path, len(kept)


def _all_curves(path: Path, runs: list[RunRecord]) -> list[CurveRecord]:
    """Return the curves of `runs`, and those of other runs that `path` holds."""
    new = [curve for run in runs for curve in read_curves(run)]
    replaced = {curve.run for curve in new}
    old = [record for record in _existing(path) if isinstance(record, CurveRecord)]
    return [*(curve for curve in old if curve.run not in replaced), *new]


def _existing(path: Path) -> list[Record]:
    if not path.exists():
        return []
    records, complaints = read_records(path)
    if complaints:
        raise DataError(f"{path.parent}/{complaints[0]}; mend or remove the line before publishing")
    return records
