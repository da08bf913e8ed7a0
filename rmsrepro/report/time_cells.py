"""Cells of time: one per impl and machine, from interleaved sessions; only ratios are compared with the paper."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from rmsrepro.report.cells import Cell
from rmsrepro.report.layout import Layout, LayoutRow
from rmsrepro.report.records import TimingRecord
from rmsrepro.report.runs_index import Index
from rmsrepro.report.statistics import estimate, log_ratio
from rmsrepro.report.verdict import Verdict, judge_time, most_noise, noise_of, refuse_session, smoke_run


def time_cells(layout: Layout, index: Index, row: LayoutRow, key: str, size: str) -> list[Cell]:
    """Return one cell per impl and machine that was timed, or a single one that says it was not measured."""
    timings = index.plan_timings(layout.plan, size)
    places = {(timing.impl, timing.hardware) for timing in timings}
    cells = []
    for impl, hardware in sorted(places, key=lambda key: (key[0] != "composed", key)):
        arms = {
            (timing.arm, timing.repeat): timing
            for timing in timings
            if (timing.impl, timing.hardware) == (impl, hardware)
        }
        if (row.arm, 0) in arms:
            cells.append(_timed(layout, index, row, key, size, arms))
    if not cells:
        cell = layout.cell(row, key, size)
        if find_spec("rmsrepro.bench.steps"):  # whole steps are timed by a benchmark of their own, where there is one
            cell.command = f"python -m rmsrepro.bench steps --plan {layout.plan.runs_plan} --size {size} --publish"
        _paper_ratio(cell, layout)
        return [cell]
    return cells


def _timed(
    layout: Layout, index: Index, row: LayoutRow, key: str, size: str, arms: dict[tuple[str, int], TimingRecord]
) -> Cell:
    cell, timing = layout.cell(row, key, size), arms[row.arm, 0]
    cell.state, cell.is_ratio, cell.ours_unit = "measured", True, "ms/step"
    cell.impl, cell.hardware, cell.command = timing.impl, timing.hardware, timing.command
    cell.ours, cell.runs, cell.metric = estimate(timing.block_ms), (timing.where,), "block_ms"
    _paper_ratio(cell, layout)
    reference = arms.get((cell.reference or "", 0))
    if cell.reference is None and cell.claim is not None:
        cell.verdict = _refused(timing, "the paper compares it with no other arm")
        return cell
    if reference is None or len(reference.block_ms) != len(timing.block_ms):
        if cell.claim is not None:
            cell.verdict = _refused(timing, "its reference was not timed beside it")
        return cell
    against = _against(layout, index, timing, reference)
    if against:
        if cell.claim is None:
            cell.detail = against
        else:
            cell.verdict = _refused(timing, against)
        return cell
    found = log_ratio(timing.block_ms, reference.block_ms)
    cell.relative, cell.relative_interval = found.ratio, found.interval
    claim, claimed = cell.claim, layout.claims.get((cell.reference or "", key))
    if claim is None or claimed is None:
        return cell
    ours, theirs = timing.block_ms, reference.block_ms
    twice = _timed_twice(arms, reference.arm, row.arm)
    refusal = smoke_run(found.n) if size == "tiny" else refuse_session(ours, theirs, twice, timing.sentinel_drift)
    noise = most_noise(noise_of(twice))
    cell.verdict = refusal or judge_time(claim, claimed, ours, theirs, paper_setting=size == "paper", noise=noise)
    return cell


def _against(layout: Layout, index: Index, *timings: TimingRecord) -> str:
    """Say why these arms' times are not compared; empty if they are."""
    earlier = [layout.label(one.arm) for one in timings if index.is_earlier_timing(one)]
    if earlier:
        return f"{' and '.join(earlier)} timed with an earlier recipe"
    contradicted = any(one.turn in index.contradicted for one in timings)
    return "two records give different times for the same turn" if contradicted else ""


def _refused(timing: TimingRecord, reason: str) -> Verdict:
    return Verdict("not tested", "like with like", reason, len(timing.block_ms))


def _timed_twice(
    arms: dict[tuple[str, int], TimingRecord], *compared: str
) -> tuple[Sequence[float], Sequence[float]] | None:
    """Return both timings of the noise floor: of two arms that are compared one is LayerNorm's, which has it."""
    found = next((arm for arm in compared if (arm, 1) in arms), None)
    return None if found is None else (arms[found, 0].block_ms, arms[found, 1].block_ms)


def _paper_ratio(cell: Cell, layout: Layout) -> None:
    cell.is_ratio = True
    reference = layout.claims.get((cell.reference or "", cell.column))
    if cell.claim is not None and reference is not None:
        cell.paper_relative = cell.claim.value / reference.value
