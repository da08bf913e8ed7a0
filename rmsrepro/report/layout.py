"""What a table looks like before anything is measured: rows, columns and the paper's numbers in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rmsrepro.report.cells import Cell
from rmsrepro.report.claims import REFERENCE_NORM, Claim, Column, load_columns, load_table
from rmsrepro.sweep.plan import Plan

#: Digits after the point where the paper has no number to say how many.
_DIGITS = {"BLEU": 1, "%": 2, "fraction": 4, "perplexity": 2, "rank": 1}


@dataclass(frozen=True)
class LayoutRow:
    """A row: an arm of the plan, a row of the paper's table, or both."""

    arm: str
    label: str
    framework: str | None
    origin: str | None
    planned: bool
    """Whether the plan has runs for it."""


@dataclass
class Layout:
    """A plan's table: the paper's where there is one, else the plan's own columns."""

    plan: Plan
    title: str
    rows: list[LayoutRow]
    columns: dict[str, Column]
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    task: str = ""
    source: str | None = None
    hardware: str | None = None
    deviations: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    command: str | None = None

    def reference(self, row: LayoutRow) -> str | None:
        """Return the arm that a row is compared with: LayerNorm's, for LayerNorm the one without a norm."""
        of_paper = next((claim.reference for (arm, _), claim in self.claims.items() if arm == row.arm), None)
        if of_paper is not None or self.claims:
            return of_paper
        return REFERENCE_NORM if row.arm != REFERENCE_NORM and REFERENCE_NORM in self.plan.arms else None

    def label(self, arm: str) -> str:
        """Return a row's label."""
        return next((row.label for row in self.rows if row.arm == arm), arm)

    def digits(self, key: str) -> int:
        """Return how many digits after the point a column is shown with: as the paper's."""
        printed = [claim.digits for (_, column), claim in self.claims.items() if column == key]
        return max(printed, default=_DIGITS.get(self.columns[key].unit, 2))

    def cell(self, row: LayoutRow, key: str, size: str) -> Cell:
        """Return a cell with what is known before anything is measured."""
        column, claim = self.columns[key], self.claims.get((row.arm, key))
        return Cell(
            table=self.plan.name,
            size=size,
            arm=row.arm,
            label=row.label,
            framework=row.framework,
            column=key,
            heading=column.heading,
            unit=column.unit,
            direction=column.direction,
            claim=claim,
            state="not measured",
            digits=self.digits(key),
            reference=self.reference(row),
        )


def layout_of(plan: Plan, paper: Path | None = None) -> Layout:
    """Lay out a plan's table: the paper's rows first, then arms that the paper does not have."""
    if plan.table is None:
        columns = load_columns(plan.columns, Path(f"conf/plan/{plan.name}.yaml"))
        return Layout(plan, plan.title, _extra_rows(plan, set()), columns, task=plan.task)
    table = load_table(plan.table, paper)
    rows = [
        LayoutRow(row.arm, row.label, row.framework, row.origin, row.arm in plan.arms and row.origin is None)
        for row in table.paper.rows
    ]
    return Layout(
        plan,
        table.paper.title,
        rows + _extra_rows(plan, {row.arm for row in rows}),
        table.columns,
        table.claims,
        task=table.paper.task,
        source=table.paper.source,
        hardware=table.paper.hardware,
        deviations=table.paper.deviations,
        statements=table.paper.statements,
        command=table.paper.command,
    )


def _extra_rows(plan: Plan, known: set[str]) -> list[LayoutRow]:
    return [LayoutRow(arm, plan.arm(arm).label or arm, None, None, True) for arm in plan.arms if arm not in known]
