"""Write a plan's finished runs as committed records, one line each, and their curves beside them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from rmsrepro.errors import DataError
from rmsrepro.report.claims import load_table
from rmsrepro.report.curves import CurveRecord, write_curves
from rmsrepro.report.places import updating
from rmsrepro.report.records import RunRecord, best_of, read_records, write_runs
from rmsrepro.report.run_curves import read_curves
from rmsrepro.report.run_dirs import read_run_dirs
from rmsrepro.report.same_data import by_data
from rmsrepro.sweep.plan import load_plan

_Kind = TypeVar("_Kind", RunRecord, CurveRecord)

#: How a run may have ended to be worth a record: a model that cannot be trained is a finding too.
PUBLISHED_STATES = ("done", "diverged", "oom")


def publish(plan_name: str, runs_root: Path, folder: Path) -> tuple[Path, int]:
    """Add the plan's runs below `runs_root` to its file in `folder`; returns the file and how many runs it now has.

    Their curves go to a second file, curves-PLAN.jsonl. Of several records of one configuration and seed, wherever they
    are from, a finished one is kept, the newest. Raises DataError when there is nothing to publish, a file cannot be
    read whole, or its runs of the same configuration were made of other data.
    """
    plan = load_plan(plan_name)
    if not plan.arms:
        command = load_table(plan.table).paper.command if plan.table else None
        raise DataError(f"plan {plan_name} has no runs; what it shows comes from {command or 'the paper alone'}")
    runs, complaints = read_run_dirs(runs_root)
    new = [run for run in runs if run.plan == plan.runs_plan and run.state in PUBLISHED_STATES]
    if not new:
        reason = f" ({complaints[0]})" if complaints else ""
        raise DataError(f"{runs_root}: no finished run of plan {plan_name}{reason}; run it, or set runs.root=DIR")
    path = folder / f"runs-{plan.runs_plan}.jsonl"
    with updating(folder):
        return path, _merge(path, folder / f"curves-{plan.runs_plan}.jsonl", new)


def _merge(path: Path, curves_path: Path, new: list[RunRecord]) -> int:
    old = _existing(path, RunRecord)
    _refuse_other_data(path, old, new)
    copies: dict[tuple[str, str, int], list[RunRecord]] = defaultdict(list)
    for run in (*old, *new):
        copies[run.arm, run.variant, run.seed].append(run)
    kept = [best_of(group) for group in copies.values()]
    # Before anything is written, as one of them may be broken.
    curves = _all_curves(curves_path, [run for run in kept if any(run is other for other in new)])
    write_runs(path, (replace(run, where="") for run in kept))
    if curves:
        write_curves(curves_path, curves)
    return len(kept)


def _refuse_other_data(path: Path, old: list[RunRecord], new: list[RunRecord]) -> None:
    """Raise DataError where runs of one configuration would stand beside, or in place of, those of other files."""
    for arm, configuration in {(run.arm, run.variant) for run in new}:
        alike = [[run for run in runs if (run.arm, run.variant) == (arm, configuration)] for runs in (old, new)]
        if len(by_data(alike[1])) > 1:
            raise DataError(
                f"{alike[1][0].plan}/{arm}: its runs are of unlike data under one name, {alike[1][0].data};"
                " keep those of one below runs.root"
            )
        if len(by_data(chain(*alike))) > 1:
            raise DataError(
                f"{path}: {arm} was recorded with other data under the same name, {alike[1][0].data};"
                " remove those lines first, or name another folder with --published"
            )


def _all_curves(path: Path, runs: list[RunRecord]) -> list[CurveRecord]:
    """Return the curves of `runs`, and those of other runs that `path` holds."""
    new = [curve for run in runs for curve in read_curves(run)]
    replaced = {curve.run for curve in new}
    old = _existing(path, CurveRecord)
    return [*(curve for curve in old if curve.run not in replaced), *new]


def _existing(path: Path, kind: type[_Kind]) -> list[_Kind]:
    """Return the records of a file that is written anew; raises DataError where it holds any that would be lost."""
    if not path.exists():
        return []
    records, complaints = read_records(path)
    if complaints:
        raise DataError(f"{path.parent}/{complaints[0]}; mend or remove the line before publishing")
    for record in records:
        if not isinstance(record, kind):
            raise DataError(f"{path.parent}/{record.where}: publishing would lose this line; move it to another file")
    return [record for record in records if isinstance(record, kind)]
