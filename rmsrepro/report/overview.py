"""All claims at a glance, and the numbers that are not the paper's, kept apart from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from rmsrepro.report.cells import Cell
from rmsrepro.report.elsewhere import ElsewhereFile
from rmsrepro.report.markdown import escape, grid
from rmsrepro.report.tables import Table
from rmsrepro.report.text import NONE, Text
from rmsrepro.report.verdict import Outcome

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class Tally:
    """How the claims of one table stand, at one size, for quality or for the times of one impl on one machine."""

    plan: str
    title: str
    size: str
    what: str
    claims: int
    outcomes: Counter[str]
    unmeasured: Counter[str]
    """Claims without a number of ours, by the reason."""


def tally(tables: Iterable[Table]) -> list[Tally]:
    """Count verdicts; a claim that has no number of ours counts by why, not as tested."""
    found = []
    for table in tables:
        by_kind: dict[str, list[Cell]] = {}
        for cell in table.cells:
            if cell.claim is not None and cell.claim.origin is None:
                by_kind.setdefault(_kind(cell, table), []).append(cell)
        if not by_kind and table.layout.source:
            words = Counter({"said in words or a plot only": 1})
            found.append(Tally(table.layout.plan.name, table.layout.title, table.size, NONE, 0, Counter(), words))
        for kind, cells in by_kind.items():
            outcomes = Counter(_outcome(cell) for cell in cells if cell.state == "measured")
            unmeasured: Counter[str] = Counter(cell.state for cell in cells if cell.state != "measured")
            plan = table.layout.plan.name
            found.append(Tally(plan, table.layout.title, table.size, kind, len(cells), outcomes, unmeasured))
    return found


def render_overview(tables: Sequence[Table]) -> str:
    """Render the overview as Markdown."""
    headings = ["Table", "What", "Size", "Kind", "Claims", *OUTCOMES, "Without a number of ours"]
    rows = []
    for line in tally(tables):
        missing = ", ".join(f"{count} {state}" for state, count in line.unmeasured.items())
        counts = [str(line.outcomes[outcome]) if line.outcomes[outcome] else NONE for outcome in OUTCOMES]
        fields = [line.plan, line.title, line.size, line.what, str(line.claims), *counts, missing or NONE]
        rows.append([Text(field) for field in fields])
    return "\n".join(["# The paper's claims at a glance", "", *grid(headings, rows), ""])


def render_elsewhere(files: Sequence[ElsewhereFile]) -> str:
    """Render what is published or claimed elsewhere, each under its own label."""
    lines = ["# Numbers that are not the paper's", "", "None of these is a claim of the paper and none is judged.", ""]
    for file in files:
        headings = ["Task", "Data", "Model", "Metric", "Value", "Unit", "Label", "Source", "Note"]
        rows = [
            [
                *(Text(part) for part in (item.task, item.data, item.model, item.metric, f"{item.value:g}", item.unit)),
                *(Text(part or NONE) for part in (file.label, item.source, item.note)),
            ]
            for item in file.references
        ]
        lines += [f"## {file.label.capitalize()}", "", *grid(headings, rows), ""]
        lines += [f"- {escape(statement)}" for statement in file.statements]
    return "\n".join(lines).rstrip() + "\n"


def _kind(cell: Cell, table: Table) -> str:
    """Name what a cell counts towards: quality, or the times of one impl on one machine."""
    if not cell.is_ratio:
        return "quality"
    machines = {other.hardware for other in table.cells if other.is_ratio and other.impl == cell.impl}
    return "time" + (f", impl={cell.impl}" if cell.impl else "") + (f", {cell.hardware}" if len(machines) > 1 else "")


def _outcome(cell: Cell) -> str:
    return cell.verdict.outcome if cell.verdict else "not tested"
