"""Speed bars of a table's time column: one chart per impl and machine, for each framework of the paper's."""

from __future__ import annotations

from itertools import groupby

from rmsrepro.report.cells import Cell
from rmsrepro.report.charts.bars import Bar, BarChart
from rmsrepro.report.charts.names import norm_of
from rmsrepro.report.claims import REFERENCE_NORM
from rmsrepro.report.tables import Table


def speed_charts(table: Table) -> list[BarChart]:
    """Return the bar charts of every time column."""
    charts = []
    times = [cell for cell in table.cells if cell.is_ratio]
    for _, column in groupby(times, key=lambda cell: cell.column):
        cells = list(column)
        for framework in dict.fromkeys(cell.framework for cell in cells):
            own = [cell for cell in cells if cell.framework == framework]
            several = any(cell.framework != framework for cell in cells)
            places = dict.fromkeys((cell.impl, cell.hardware) for cell in own if cell.state == "measured")
            for place in places or [("", "")]:
                chart = _chart(table, own, *place)
                chart.title += f", {framework}" if several and framework else ""
                charts.append(chart)
    return [chart for chart in charts if chart.bars]


def _chart(table: Table, cells: list[Cell], impl: str, hardware: str) -> BarChart:
    norms = {cell.arm: norm_of(table.layout.plan, cell.arm, table.size) for cell in cells}
    others = [cell for cell in cells if norms[cell.arm] != REFERENCE_NORM]
    reference = next((cell.reference for cell in others if cell.reference), None)
    where = f": {impl}, {hardware}" if impl else ""
    chart = BarChart(f"Time per step{where}", table.layout.label(reference) if reference else "reference")
    for arm in dict.fromkeys(cell.arm for cell in cells):
        own = [cell for cell in cells if cell.arm == arm]
        cell = next((cell for cell in own if (cell.impl, cell.hardware) == (impl, hardware)), None)
        any_cell = cell or own[0]
        if arm == reference:
            bar = Bar(any_cell.label, norms[arm], 1.0 if cell and cell.ours else None, paper=_one(any_cell))
        else:
            interval = cell.relative_interval if cell else None
            ends = (interval.low, interval.high) if interval else (None, None)
            paper = any_cell.paper_relative if any_cell.reference == reference else None
            bar = Bar(any_cell.label, norms[arm], cell.relative if cell else None, *ends, paper)
        chart.bars.append(bar)
    if not impl and all(bar.paper is None for bar in chart.bars):
        chart.bars = []
    return chart


def _one(cell: Cell) -> float | None:
    return 1.0 if cell.claim is not None else None
