"""A table as the paper lays it out: a row per arm, a column per quantity, ours above the paper's in each field."""

from __future__ import annotations

from rmsrepro.report.cells import Cell
from rmsrepro.report.charts.names import norm_of
from rmsrepro.report.charts.palette import norm_class
from rmsrepro.report.html.grid import Row, grid
from rmsrepro.report.html.signs import sign, standing_of
from rmsrepro.report.html.words import short_ours
from rmsrepro.report.markup import Markup, tag
from rmsrepro.report.tables import Table
from rmsrepro.report.text import NONE, row_words
from rmsrepro.report.units import fixed


def matrix(table: Table) -> Markup:
    """Return the table at a glance; empty where the plan has no columns."""
    columns = list(dict.fromkeys((cell.column, cell.heading, cell.unit) for cell in table.cells))
    if not columns:
        return Markup()
    several = len({cell.framework for cell in table.cells}) > 1
    rows = []
    for arm in dict.fromkeys(cell.arm for cell in table.cells):
        own = [cell for cell in table.cells if cell.arm == arm]
        name = [_swatch(norm_of(table.layout.plan, arm, table.size)) if arm in table.layout.plan.arms else None]
        name.append(tag("span", row_words(own[0], with_framework=several)))
        fields = [_field([cell for cell in own if cell.column == key]) for key, _, _ in columns]
        rows.append(Row([name, *fields]))
    headings = ["Arm", *(f"{heading} ({unit})" for _, heading, unit in columns)]
    caption = "Ours above, the paper's below. " if table.layout.claims else "Ours. "
    caption += "Bold is best in its column." if any(cell.best_ours or cell.best_paper for cell in table.cells) else ""
    caption += " × is the ratio to the reference arm's time." if any(cell.is_ratio for cell in table.cells) else ""
    return grid(caption, headings, rows, name="matrix")


def _swatch(norm: str) -> Markup:
    line = tag("path", d="M0 5h14", **{"stroke-width": "3"}, class_=norm_class(norm))
    return tag("svg", line, class_="swatch", viewBox="0 0 14 10", aria_hidden="true")


def _field(cells: list[Cell]) -> list[Markup]:
    if not cells:
        return [tag("span", NONE, class_="quiet")]
    mine = [_ours(cell, len(cells) > 1) for cell in cells]
    # The paper's number is the same for every impl and machine.
    return [tag("div", mine, tag("span", _paper(cells[0]), class_="paper") if cells[0].claim else None, class_="pair")]


def _ours(cell: Cell, several: bool) -> Markup:
    standing = standing_of(cell)
    if cell.state != "measured":
        return tag("span", NONE, tag("span", cell.state, class_="unseen"), class_="quiet")
    number = tag("strong" if cell.best_ours else "span", short_ours(cell), class_="ours")
    place = tag("small", cell.impl) if several and cell.impl else None
    return tag("span", number, sign(standing, word=False) if standing else None, place)


def _paper(cell: Cell) -> Markup:
    claim = cell.claim
    assert claim is not None
    ratio = f", ×{fixed(cell.paper_relative, 2)}" if cell.is_ratio and cell.paper_relative is not None else ""
    words = claim.printed.partition(" (")[0] + ratio
    return tag("b" if cell.best_paper else "span", words)
