"""Cells of quality: the mean over seeds in the column's unit, its interval, and what it says about the claim."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from rmsrepro.errors import DataError
from rmsrepro.report.cells import Cell
from rmsrepro.report.claims import Column
from rmsrepro.report.comparable import lost, unlike, without
from rmsrepro.report.curve_readings import READINGS, OverArms, read_off, why_missing
from rmsrepro.report.layout import Layout, LayoutRow
from rmsrepro.report.metrics import facts_of, metric_of, value_of
from rmsrepro.report.records import RunRecord
from rmsrepro.report.runs_index import Index
from rmsrepro.report.statistics import difference, estimate
from rmsrepro.report.units import convert, unit
from rmsrepro.report.verdict import Verdict, judge_fact, judge_failure, judge_quality, smoke_run
from rmsrepro.sweep.plan import Plan

_FAILED = ("failed", "diverged", "oom")


def quality_cell(layout: Layout, index: Index, row: LayoutRow, key: str, size: str) -> Cell:
    """Fill one cell from the runs of its arm; reading trouble makes it `contradictory` and is kept in the index."""
    cell = layout.cell(row, key, size)
    plan, column = layout.plan, layout.columns[key]
    if isinstance(READINGS.get(column.metric), OverArms):
        runs = [run for arm in plan.arms for run in index.arm_runs(plan, arm, size)]
        sweep = ["python", "-m", "rmsrepro.sweep", f"plan={plan.runs_plan}", f"size={size}"]
        cell.command = shlex.join([*sweep, f"seeds={_seeds(plan, runs)}"])
    elif row.planned:
        runs = index.arm_runs(plan, row.arm, size)
        cell.command = run_command(layout, row.arm, size, runs)
    else:
        return _measured_without_runs(layout, index, cell)
    done = [run for run in runs if run.state == "done"]
    paper_setting = _paper_setting(layout, runs, size) and not index.is_earlier(plan, row.arm, size)
    _describe(cell, done or runs)
    metric = metric_of((run.result for run in done if run.result), column, paper_setting=paper_setting)
    try:
        values = _values(layout, index, key, done, metric)
        their_runs = index.arm_runs(plan, cell.reference or "", size)
        theirs_done = [run for run in their_runs if run.state == "done"]
        apart = unlike(cell, plan, index, done, theirs_done)
        theirs = _values(layout, index, key, [] if apart else theirs_done, metric)
    except DataError as error:
        index.contradictions.append(f"{plan.name}, size {size}: {error}")
        cell.state, cell.detail = "contradictory", str(error)
        return cell
    cell.seeds = tuple(sorted(values))
    cell.metric = metric if values else ""
    _set_state(cell, layout, runs, values, column)
    if values:
        cell.ours, cell.ours_unit = estimate([values[seed] for seed in sorted(values)]), column.unit
    _compare(cell, layout, values, theirs)
    if values:
        earlier = "of an earlier recipe" if index.is_earlier(plan, cell.arm, size) else ""
        beside = {*cell.commits, *(run.commit for run in theirs_done if run.commit and theirs)}
        commits = f"runs of {len(beside)} commits" if len(beside) > 1 else ""
        if commits and theirs:
            commits += f", those of {layout.label(cell.reference or '')} among them"
        scored = f"sacrebleu {cell.signature}" if cell.signature else ""
        cell.detail = "; ".join(filter(None, (cell.detail, earlier, commits, scored, apart)))
    if not apart and (theirs_lost := lost(their_runs, theirs, column, metric)):
        apart = f"{layout.label(cell.reference or '')}: {theirs_lost}"
    fails = cell.claim is not None and cell.claim.fails
    gone = _scoreless(runs, values) if fails else lost(runs, values, column, metric)
    against = (_contradiction(index, plan, cell) or gone, apart)
    cell.verdict = _verdict(cell, layout, runs, values, theirs, against, paper_setting)
    if fails and cell.verdict and cell.verdict.outcome != "not tested":
        cell.state = "measured"  # runs without a score are what there was to find
    return cell


def _contradiction(index: Index, plan: Plan, cell: Cell) -> str:
    arms = [arm for arm in (cell.arm, cell.reference or "") if index.is_contradicted(plan, arm, cell.size)]
    return f"records of {' and '.join(arms)} contradict one another" if arms else ""


def _scoreless(runs: list[RunRecord], values: dict[int, float]) -> str:
    """Say how many runs of a model that may fail have neither a score nor diverged; empty if none."""
    count = sum(run.state != "diverged" and run.seed not in values for run in runs)
    return f"{count} of {len(runs)} runs have no score" if count else ""


def run_command(layout: Layout, arm: str, size: str, runs: list[RunRecord]) -> str:
    """Return the command that makes an arm's runs again with their seeds; those of the plan where there are none."""
    overrides = layout.plan.overrides(arm, size)
    return shlex.join(["python", "-m", "rmsrepro", "-m", *overrides, f"seed={_seeds(layout.plan, runs)}"])


def _seeds(plan: Plan, runs: list[RunRecord]) -> str:
    return ",".join(map(str, sorted({run.seed for run in runs}) or plan.seeds))


def _measured_without_runs(layout: Layout, index: Index, cell: Cell) -> Cell:
    cell.command = layout.command or ""
    for record in index.measurements:
        if record.cell != (layout.plan.name, cell.arm, cell.column):
            continue
        if record.cell in index.contradicted:
            cell.state, cell.detail = "contradictory", "two records give it different values"
            continue
        cell.command, given = record.command, unit(cell.unit, cell.heading)
        try:
            value = convert(record.value, given, given, record.where)
        except DataError as error:
            index.contradictions.append(f"{cell.table}/{cell.arm}: {error}")
            cell.state, cell.detail = "contradictory", str(error)
            continue
        cell.state, cell.ours, cell.ours_unit = "measured", estimate([value]), cell.unit
        if cell.claim is not None:
            cell.verdict = judge_fact(cell.claim, value)
    if cell.claim is not None and cell.claim.origin is not None:
        cell.detail = f"quoted from {cell.claim.origin}"
    return cell


def _values(layout: Layout, index: Index, key: str, runs: Iterable[RunRecord], metric: str) -> dict[int, float]:
    found = {run.seed: _value(run, layout, index, key, metric) for run in runs}
    return {seed: value for seed, value in found.items() if value is not None}


def _value(run: RunRecord, layout: Layout, index: Index, key: str, metric: str) -> float | None:
    if run.result is None:
        return None
    column = layout.columns[key]
    reading = READINGS.get(column.metric)
    try:
        if reading is None:
            return value_of(run.result, metric, column)
        return read_off(reading, column, run, layout.plan, index)
    except DataError as error:
        raise DataError(f"{run.arm}, seed {run.seed} ({run.where}): {error}") from error


def _paper_setting(layout: Layout, runs: list[RunRecord], size: str) -> bool:
    return size == "paper" and all(run.data == layout.plan.paper_data for run in runs)


def _describe(cell: Cell, runs: list[RunRecord]) -> None:
    cell.data = ", ".join(sorted({run.data for run in runs}))
    cell.impl = ", ".join(sorted({run.impl for run in runs}))
    cell.hardware = "; ".join(sorted({run.hardware for run in runs}))
    cell.runs = tuple(run.where for run in runs)
    cell.commits = tuple(sorted({run.commit for run in runs if run.commit}))
    if cell.unit == "BLEU":
        cell.signature = ", ".join(sorted({found for run in runs for found in _signatures(run)}))


def _signatures(run: RunRecord) -> set[str]:
    """Return how a run's BLEU was computed, for all of its test sets; none where it does not say."""
    scores = facts_of(run.result).get("scores")
    sets = scores.values() if isinstance(scores, dict) else ()
    return {str(one["bleu_signature"]) for one in sets if isinstance(one, dict) and one.get("bleu_signature")}


def _set_state(cell: Cell, layout: Layout, runs: list[RunRecord], values: dict[int, float], column: Column) -> None:
    failed = [run for run in runs if run.state in _FAILED]
    running = sum(run.state == "running" for run in runs)
    stopped = sum(run.state in ("interrupted", "dead") for run in runs)
    counts = {"failed": len(failed), "running": running, "interrupted": stopped}
    counts[f"without {cell.metric}"] = without(runs, values, column)
    cell.detail = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    untried, reading = layout.plan.untried_at(cell.size), READINGS.get(column.metric)
    if values:
        cell.state = "measured"
    elif running:
        cell.state = "running"
    elif failed:
        cell.state = "failed"
        cell.detail += f": {failed[-1].message}" if failed[-1].message else ""
    elif any(run.state == "done" for run in runs):
        cell.detail = "the runs do not report it" if reading is None else why_missing(reading, cell.size)
    elif untried is not None:
        cell.state = untried.state  # pyrefly: ignore[bad-assignment]
        cell.detail = untried.why


def _compare(cell: Cell, layout: Layout, ours: dict[int, float], theirs: dict[int, float]) -> None:
    reference = layout.claims.get((cell.reference or "", cell.column))
    if cell.claim is not None and reference is not None and not (cell.claim.fails or reference.fails):
        cell.paper_relative = cell.claim.value - reference.value
    if ours and theirs:
        found = difference(ours, theirs)
        cell.relative, cell.relative_interval = found.mean, found.interval


def _verdict(
    cell: Cell,
    layout: Layout,
    runs: list[RunRecord],
    ours: dict[int, float],
    theirs: dict[int, float],
    against: tuple[str, str],
    paper_setting: bool,
) -> Verdict | None:
    claim = cell.claim
    if claim is None:
        return None
    if cell.size == "tiny":
        return smoke_run(len(ours))
    if claim.fails:
        diverged = sum(run.state == "diverged" for run in runs)
        return judge_failure(
            claim,
            ours,
            diverged,
            paper_setting=paper_setting,
            lost=against[0],
            reference=(layout.label(claim.reference or ""), theirs.values()),
        )
    reference = layout.claims.get((claim.reference or "", cell.column))
    if reference is not None and reference.fails:
        reference = None  # a model that the paper could not train has no number to compare with
    return judge_quality(
        claim, reference, ours, theirs, paper_setting=paper_setting, lost=against[0], unlike=against[1]
    )
