"""Words that sections share."""

from __future__ import annotations

import re

from rmsrepro.report.cells import Cell
from rmsrepro.report.markup import Markup, tag
from rmsrepro.report.text import NONE, data_words, ours
from rmsrepro.report.units import fixed


def plan_words(name: str) -> str:
    """Return `Table 4` for `table4`."""
    found = re.fullmatch(r"(table|figure)(\d+)", name)
    return f"{found[1].capitalize()} {found[2]}" if found else name


def short_ours(cell: Cell) -> str:
    """Return our number without its interval; of a time the ratio to the reference arm too."""
    if cell.mean is None:
        return NONE
    ratio = f", ×{fixed(cell.relative, 2)}" if cell.is_ratio and cell.relative is not None else ""
    return cell.shown(cell.mean) + ratio


def full_ours(cell: Cell) -> Markup:
    """Return our number with spread and interval, bold where it is the column's best."""
    return tag("strong" if cell.best_ours else "span", ours(cell), class_="num")


def why(cell: Cell) -> str:
    """Say what a verdict rests on, or why there is none beyond that nothing was measured."""
    if cell.state == "measured":
        return "; ".join(part for part in (cell.verdict.reason if cell.verdict else "", cell.detail) if part)
    said = "" if cell.state == "not measured" else cell.state
    return ": ".join(part for part in (said, cell.detail) if part)


def places(cell: Cell) -> str:
    """Name data, impl and hardware."""
    return " · ".join(part for part in (data_words(cell), cell.impl, cell.hardware) if part) or NONE
