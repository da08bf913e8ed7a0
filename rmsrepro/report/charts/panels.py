"""Every chart that belongs to a table, drawn."""

from __future__ import annotations

from rmsrepro.report.charts.bars import draw_bars
from rmsrepro.report.charts.curves_of_table import curve_charts
from rmsrepro.report.charts.frame import Drawing
from rmsrepro.report.charts.lines import draw_lines
from rmsrepro.report.charts.share_of_table import share_chart
from rmsrepro.report.charts.speed_of_table import speed_charts
from rmsrepro.report.runs_index import Index
from rmsrepro.report.tables import Table

_BY_SHARE = "figure3"


def curve_drawings(table: Table, index: Index) -> list[Drawing]:
    """Draw how the runs went."""
    if table.layout.plan.name == _BY_SHARE:
        return [draw_lines(share_chart(table, index))]
    return [draw_lines(chart) for chart in curve_charts(table, index)]


def speed_drawings(table: Table) -> list[Drawing]:
    """Draw the time columns."""
    return [draw_bars(chart) for chart in speed_charts(table)]
