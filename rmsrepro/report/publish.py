"""Write a plan's finished runs as committed records, one line each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rmsrepro.errors import DataError
from rmsrepro.report.records import RunRecord, read_records, write_runs
from rmsrepro.report.run_dirs import read_run_dirs
from rmsrepro.sweep.plan import load_plan

#: How a run may have ended to be worth a record: a model that cannot be trained is a finding too.
PUBLISHED_STATES = ("done", "diverged", "oom")


def publish(plan_name: str, runs_root: Path, folder: Path) -> tuple[Path, int]:
    """Add the plan's runs below `runs_root` to its file in `folder`; returns the file and how many runs it now has.

    A run replaces an earlier record of the same configuration and seed. Raises DataError when there is nothing to
    publish or the file that is there cannot be read whole.
    """
    plan = load_plan(plan_name)
    runs, complaints = read_run_dirs(runs_root)
    new = [run for run in runs if run.plan == plan.runs_plan and run.state in PUBLISHED_STATES]
    if not new:
        reason = f" ({complaints[0]})" if complaints else ""
        raise DataError(f"{runs_root}: no finished run of plan {plan_name}{reason}; run it, or set runs.root=DIR")
    path = folder / f"runs-{plan.runs_plan}.jsonl"
    old = _existing(path)
    kept = {_key(run): run for run in [*old, *new]}
    folder.mkdir(parents=True, exist_ok=True)
    write_runs(path, (replace(run, where="") for run in kept.values()))
    return path, len(kept)


def _existing(path: Path) -> list[RunRecord]:
    if not path.exists():
        return []
    records, complaints = read_records(path)
    if complaints:
        raise DataError(f"{path.parent}/{complaints[0]}; mend or remove the line before publishing")
    return [record for record in records if isinstance(record, RunRecord)]


def _key(run: RunRecord) -> tuple[str, str, int]:
    return run.arm, run.variant, run.seed
