"""The paper's figures and the speed bars as SVG files, from the same charts as the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rmsrepro.config import SIZES
from rmsrepro.report.charts.frame import FONT, WIDTH, Drawing, empty
from rmsrepro.report.charts.palette import GROUNDS
from rmsrepro.report.charts.panels import curve_drawings, speed_drawings
from rmsrepro.report.markup import join, tag
from rmsrepro.report.runs_index import Index
from rmsrepro.report.tables import Table
from rmsrepro.runs.atomic import write_bytes_atomic

_GUTTER = 36.0
_MARGIN = 16.0
_COLUMNS = 2


def write_figures(tables: Mapping[str, Sequence[Table]], index: Index, folder: Path) -> list[Path]:
    """Write one file per plan with curves and one per plan with times, each size apart; raises OSError.

    An earlier call's files of these plans that this one does not write anew are removed: they show what is no more.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, sized in tables.items():
        for table in sized:
            suffix = f"-{table.size}" if len(sized) > 1 else ""
            for kind, drawings in (("", curve_drawings(table, index)), ("-speed", speed_drawings(table))):
                if not drawings:
                    continue
                path = folder / f"{name}{kind}{suffix}.svg"
                write_bytes_atomic(path, stand_alone(_caption(table), drawings).encode())
                written.append(path)
    for name in tables:
        for path in _possible(name, folder) - set(written):
            path.unlink(missing_ok=True)
    return written


def _possible(plan: str, folder: Path) -> set[Path]:
    """Return every file that could be written for a plan."""
    suffixes = ("", *(f"-{size}" for size in SIZES))
    return {folder / f"{plan}{kind}{suffix}.svg" for kind in ("", "-speed") for suffix in suffixes}


def stand_alone(title: str, drawings: Sequence[Drawing]) -> str:
    """Return an SVG file with drawings side by side under a title, on a white ground."""
    if len({drawing.description for drawing in drawings}) == 1 and drawings[0].description == "not measured":
        drawings = [empty(drawings[0].title, "not measured")]
    columns = min(_COLUMNS, len(drawings))
    rows = [drawings[i : i + columns] for i in range(0, len(drawings), columns)]
    width = max(columns * WIDTH + (columns - 1) * _GUTTER + 2 * _MARGIN, 8.2 * len(title) + 2 * _MARGIN)
    top, groups = 44.0, []
    for row in rows:
        for column, drawing in enumerate(row):
            left = _MARGIN + column * (WIDTH + _GUTTER)
            groups.append(tag("g", drawing.body, transform=f"translate({left:g} {top:g})"))
        top += max(drawing.height for drawing in row) + 20
    return (
        tag(
            "svg",
            tag("title", title),
            tag("desc", "; ".join(f"{drawing.title}: {drawing.description}" for drawing in drawings)),
            tag("rect", width="100%", height="100%", fill="#ffffff"),
            tag("text", title, x=_MARGIN, y=26.0, font_size="14", font_weight="600", fill=GROUNDS["ink"][0]),
            join(groups),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width:g} {top:g}",
            width=width,
            height=top,
            font_family=FONT,
            font_size="12",
        )
        + "\n"
    )


def _caption(table: Table) -> str:
    data = sorted({run for cell in table.cells for run in cell.data.split(", ") if run})
    on = f" on {', '.join(data)}" if data else ""
    return f"{table.layout.plan.name}: {table.layout.title} (size {table.size}{on})"
