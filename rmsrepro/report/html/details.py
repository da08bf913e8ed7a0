"""Every number of a table with its interval, n, comparison, verdict, place and command, a block per column."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rmsrepro.report.cells import Cell
from rmsrepro.report.html.grid import Row, grid
from rmsrepro.report.html.signs import sign, standing_of
from rmsrepro.report.html.words import full_ours, places, why
from rmsrepro.report.markup import Child, Markup, tag
from rmsrepro.report.tables import Table
from rmsrepro.report.text import NONE, blocks, commands, paper_relative, relative, row_words


def details(table: Table) -> Iterator[Markup]:
    """Yield a block per column, open where something was measured."""
    numbers = {command: number for number, command in enumerate(commands(table), start=1)}
    several = len({cell.framework for cell in table.cells}) > 1
    columns = [list(group) for _, group in groupby(table.cells, key=lambda cell: cell.column)]
    for block, cells in zip(blocks(table), columns, strict=True):
        what = "ratio" if cells[0].is_ratio else "difference"
        headings = ["Arm", "Paper", "Ours", "n", f"Paper's {what}", f"Our {what}", "Verdict", "Measured on", "Again"]
        rows = [Row(_fields(table, cell, numbers, several)) for cell in cells]
        measured = sum(cell.state == "measured" for cell in cells)
        found = f"{measured} of {len(cells)} measured" if measured else "not measured"
        caption = f"{what.capitalize()}: to {_references(table, cells)}."
        yield tag(
            "details",
            tag("summary", tag("span", block.title), " ", tag("span", found, class_="quiet")),
            grid(caption, headings, rows, name="detail", cards=True),
            open=bool(measured),
        )


def command_id(table: Table, number: int) -> str:
    """Name the place of one command."""
    return f"{table.layout.plan.name}-{table.size}-command-{number}"


def _fields(table: Table, cell: Cell, numbers: dict[str, int], several: bool) -> list[Child]:
    standing = standing_of(cell)
    number = numbers.get(cell.command)
    again = tag("a", f"command {number}", href=f"#{command_id(table, number)}") if number else NONE
    verdict: Child = sign(standing) if standing else tag("span", NONE if cell.claim is None else "quoted")
    return [
        row_words(cell, with_framework=several),
        tag("b" if cell.best_paper else "span", cell.claim.printed if cell.claim else NONE, class_="num"),
        full_ours(cell),
        str(cell.ours.n) if cell.ours else "0",
        paper_relative(cell),
        relative(cell),
        [verdict, " ", tag("small", why(cell))],
        places(cell),
        again,
    ]


def _references(table: Table, cells: list[Cell]) -> str:
    names = dict.fromkeys(table.layout.label(cell.reference) for cell in cells if cell.reference)
    if len(names) < 2:
        return next(iter(names), "no arm")
    own = {cell.label: table.layout.label(cell.reference) for cell in cells if cell.reference}
    most = max(names, key=lambda name: sum(to == name for to in own.values()))
    odd = [f"{label}'s to {to}" for label, to in own.items() if to != most]
    return f"{most}, {', '.join(dict.fromkeys(odd))}"
