"""What stands against judging an arm by its runs, or comparing them with its reference arm's, in words."""

from __future__ import annotations

from collections import Counter

from rmsrepro.report.cells import Cell
from rmsrepro.report.claims import Column
from rmsrepro.report.curve_readings import READINGS, AtTimeOf, OverArms
from rmsrepro.report.records import RunRecord
from rmsrepro.report.runs_index import Index
from rmsrepro.report.same_data import contents, differ
from rmsrepro.sweep.plan import Plan


def without(runs: list[RunRecord], values: dict[int, float], column: Column) -> int:
    """Count finished runs that lack a number which others have, for no want of another arm's run to read it by."""
    if not values or isinstance(READINGS.get(column.metric), OverArms | AtTimeOf):
        return 0
    return sum(run.state == "done" and run.seed not in values for run in runs)


def lost(runs: list[RunRecord], values: dict[int, float], column: Column, metric: str) -> str:
    """Say how many of an arm's runs ended without the number; empty if none did."""
    ends = Counter(run.state for run in runs)
    counts = {
        "diverged": ends["diverged"],
        "ran out of memory": ends["oom"],
        f"without {metric}": without(runs, values, column),
    }
    return ", ".join(f"{count} of {len(runs)} runs {what}" for what, count in counts.items() if count)


def unlike(cell: Cell, plan: Plan, index: Index, ours: list[RunRecord], theirs: list[RunRecord]) -> str:
    """Say why a cell's finished runs are not compared with its reference arm's; empty if they are, or there are none.

    They are of the same data and of the recipe that today's configuration has: two earlier ones may differ in it.
    """
    if not ours or not theirs:
        return ""
    on = {run.data for run in theirs}
    if {run.data for run in ours} != on:
        return f"not compared with {cell.reference}, which is on {', '.join(sorted(on))}"
    if differ(contents(ours), contents(theirs)):
        return f"not compared with {cell.reference}, whose data of that name have other contents"
    if index.is_earlier(plan, cell.reference or "", cell.size):
        return f"not compared with {cell.reference}, which is of an earlier recipe"
    if index.is_earlier(plan, cell.arm, cell.size):
        return f"not compared with {cell.reference}, which is of today's recipe"
    return ""
