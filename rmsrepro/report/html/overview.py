"""All claims at a glance: how many stand how, table by table, task by task, and each one in a list to filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmsrepro.report.cells import Cell
from rmsrepro.report.charts.palette import STANDINGS, standing_class
from rmsrepro.report.html.grid import Row, grid
from rmsrepro.report.html.signs import bar, sign, standing_of, standings
from rmsrepro.report.html.words import plan_words, short_ours, why
from rmsrepro.report.markup import Child, Markup, join, tag
from rmsrepro.report.tables import Table
from rmsrepro.report.text import NONE, row_words

_MEANINGS = {
    "reproduced": "our interval agrees with the paper's number or ratio",
    "direction only": "the comparison comes out as in the paper, the number itself is not at issue or differs",
    "not reproduced": "the interval excludes the paper's number or, at a smaller size or on other data, its relation",
    "not tested": "there are numbers, but too few or too spread to tell",
    "not measured": "no number of ours yet; the reason stands beside it",
}


def glance(tables: Mapping[str, Sequence[Table]]) -> Markup:
    """Return the counts of all claims, the words for them, and a row per table and per task."""
    cells = _claims(tables)
    counts = list(standings(cells))
    figures = [tag("li", tag("strong", str(n)), sign(name), tag("small", _MEANINGS[name])) for name, n in counts]
    return tag(
        "section",
        tag("h2", "At a glance"),
        bar(counts),
        tag("ul", figures, class_="counts"),
        _by_table(tables),
        _by_task(tables),
        id="glance",
    )


def every_claim(tables: Mapping[str, Sequence[Table]]) -> Markup:
    """Return the list of claims under its filters, which work by keyboard and without a script."""
    cells = _claims(tables)
    counts = [("all", len(cells)), *standings(cells)]
    choices = []
    for name, n in counts:
        key = f"only-{standing_class(name)}" if name != "all" else "only-all"
        box = tag("input", type="radio", name="only", id=key, checked=name == "all")
        words = sign(name) if name != "all" else "all"
        choices.append(tag("label", box, tag("span", words, " ", tag("b", str(n))), for_=key))
    several = {name for name, sized in tables.items() if len({c.framework for t in sized for c in t.cells}) > 1}
    rows = [_claim_row(cell, cell.table in several) for cell in cells]
    rows += [
        Row([tag("span", f"No claim is {name}."), *[""] * 5], f"none {standing_class(name)}")
        for name, n in counts[1:]
        if not n
    ]
    search = tag(
        "label", "Search ", tag("input", type="search", id="search", autocomplete="off"), hidden=True, id="find"
    )
    return tag(
        "section",
        tag("h2", "Every claim"),
        tag(
            "p",
            "A row for each number of the paper, and for each size, impl and machine that it was measured with.",
            class_="quiet",
        ),
        tag("fieldset", tag("legend", "Show"), choices, class_="only"),
        search,
        tag("p", id="shown", role="status", class_="quiet"),
        grid("Claims", ["Claim", "What", "Paper", "Ours", "Verdict", "Why"], rows, name="claims", cards=True),
        id="claims",
    )


def _claims(tables: Mapping[str, Sequence[Table]]) -> list[Cell]:
    every = [cell for sized in tables.values() for table in sized for cell in table.cells]
    return [cell for cell in every if standing_of(cell) is not None]


def _claim_row(cell: Cell, several: bool) -> Row:
    standing = standing_of(cell)
    assert standing is not None
    assert cell.claim is not None
    where = [tag("a", plan_words(cell.table), href=f"#{cell.table}"), f" {row_words(cell, with_framework=several)}"]
    what = f"{cell.heading} ({cell.unit})"
    ours: Child = short_ours(cell)
    if cell.state == "measured":
        ours = [
            ours,
            " ",
            tag("small", " · ".join(part for part in (cell.size, cell.impl if cell.is_ratio else "") if part)),
        ]
    return Row([where, what, cell.claim.printed, ours, sign(standing), why(cell)], standing_class(standing))


def _by_table(tables: Mapping[str, Sequence[Table]]) -> Markup:
    rows = []
    for name, sized in tables.items():
        layout = sized[0].layout
        cells = [cell for table in sized for cell in table.cells]
        measured = any(cell.state == "measured" for cell in cells)
        link = tag("a", plan_words(name), href=f"#{name}")
        sizes = ", ".join(table.size for table in sized) if measured else NONE
        total, *counts = _standing_fields(cells, layout.source)
        rows.append(Row([link, total, layout.title, *counts, sizes]))
    headings = ["Table", "Claims", "What it shows", *STANDINGS, "Sizes measured"]
    return grid("Table by table", headings, rows, name="by-table")


def _by_task(tables: Mapping[str, Sequence[Table]]) -> Markup:
    by_task: dict[str, list[str]] = {}
    for name, sized in tables.items():
        by_task.setdefault(sized[0].layout.task, []).append(name)
    rows = []
    for task, names in by_task.items():
        cells = [cell for name in names for table in tables[name] for cell in table.cells]
        links: list[Child] = [[tag("a", plan_words(name), href=f"#{name}"), " "] for name in names]
        data = sorted({part for cell in cells for part in cell.data.split(", ") if part})
        sourced = next((tables[name][0].layout.source for name in names), None)
        words = "no training" if task == "none" else task
        total, *counts = _standing_fields(cells, sourced)
        rows.append(Row([words, total, tag("span", links, class_="links"), *counts, ", ".join(data) or NONE]))
    headings = ["Task", "Claims", "Tables and figures", *STANDINGS, "Data measured on"]
    return grid("Task by task", headings, rows, name="by-task")


def _standing_fields(cells: Sequence[Cell], sourced: str | None) -> list[Child]:
    counts = list(standings(list(cells)))
    total = sum(n for _, n in counts)
    if not total:
        words = "in words only" if sourced else "an extension"
        return [_quiet(words), *[_quiet(NONE)] * len(counts)]
    fields = [tag("span", str(n), class_=f"count {standing_class(name)}") if n else _quiet(NONE) for name, n in counts]
    return [join([f"{total} ", bar(counts)]), *fields]


def _quiet(words: str) -> Markup:
    return tag("span", words, class_="quiet")
