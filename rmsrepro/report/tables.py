"""A plan's tables as data: for each size with records, every cell with value, comparison, verdict and command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from rmsrepro.config import SIZES
from rmsrepro.report.cells import Cell
from rmsrepro.report.curve_readings import READINGS, OverArms
from rmsrepro.report.layout import Layout, layout_of
from rmsrepro.report.quality_cells import quality_cell
from rmsrepro.report.runs_index import Index
from rmsrepro.report.time_cells import time_cells
from rmsrepro.report.units import unit
from rmsrepro.sweep.plan import Plan


@dataclass
class Table:
    """One plan at one size: its cells, column by column, and what is to be said beneath."""

    layout: Layout
    size: str
    cells: list[Cell]
    notes: list[str] = field(default_factory=list)


def build_tables(plan: Plan, index: Index, size: str | None = None, paper: Path | None = None) -> list[Table]:
    """Build one table per size, so that sizes never mix: the given one, or all that have records, largest first.

    A smoke run's table (size tiny) is shown only when asked for or when there is nothing else; with no records at all
    the paper's size is shown, with nothing measured in it.
    """
    layout = layout_of(plan, paper)
    sizes = [size] if size else [name for name in reversed(SIZES) if name in index.sizes(plan)]
    if len(sizes) > 1 and "tiny" in sizes:
        sizes.remove("tiny")
    return [_table(layout, index, name) for name in sizes or ["paper"]]


def _table(layout: Layout, index: Index, size: str) -> Table:
    cells: list[Cell] = []
    for key, column in layout.columns.items():
        for row in layout.rows:
            if not row.planned and (row.arm, key) not in layout.claims:
                continue
            if row.planned and isinstance(READINGS.get(column.metric), OverArms):
                continue  # it is of all arms together
            if unit(column.unit, key).is_time:
                cells += time_cells(layout, index, row, key, size)
            else:
                cells.append(quality_cell(layout, index, row, key, size))
    mark_best(cells)
    return Table(layout, size, cells, index.notes_of(layout.plan))


def mark_best(cells: list[Cell]) -> None:
    """Mark the best of each column by its declared direction, the paper's and ours apart; what reads equal ties.

    Compared are rows of one framework and, for ours, on the same data; of one impl and machine where it is times.
    """
    for _, column in groupby(cells, key=lambda cell: cell.column):
        group = list(column)
        if group[0].direction == "neutral":
            continue
        pick: Callable[[Iterable[float]], float] = max if group[0].direction == "max" else min
        for framework in {cell.framework for cell in group}:
            own = [cell for cell in group if cell.framework == framework]
            printed = [cell for cell in own if cell.claim is not None and not cell.claim.fails]
            if len(printed) > 1:
                best = pick(cell.claim.value for cell in printed if cell.claim)
                for cell in printed:
                    cell.best_paper = cell.claim is not None and cell.claim.value == best
            for place in {_place(cell) for cell in own}:
                _mark_ours([cell for cell in own if _place(cell) == place], pick)


def _place(cell: Cell) -> tuple[str, ...]:
    return (cell.impl, cell.hardware) if cell.is_ratio else (cell.data,)


def _mark_ours(cells: list[Cell], pick: Callable[[Iterable[float]], float]) -> None:
    means = [(cell, cell.mean) for cell in cells if cell.mean is not None]
    if len(means) > 1:
        best = pick(mean for _, mean in means)
        for cell, mean in means:
            # Two numbers that read the same are both best.
            cell.best_ours = cell.shown(mean) == cell.shown(best)
