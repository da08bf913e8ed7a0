"""The section of one table or figure: numbers, curves, speeds, notes, runs and commands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from rmsrepro.report.charts.frame import Drawing, embed
from rmsrepro.report.charts.panels import curve_drawings, speed_drawings
from rmsrepro.report.html.details import command_id, details
from rmsrepro.report.html.matrix import matrix
from rmsrepro.report.html.signs import bar, standings
from rmsrepro.report.html.words import plan_words
from rmsrepro.report.markup import Child, Markup, join, tag
from rmsrepro.report.records import RunRecord
from rmsrepro.report.runs_index import Index
from rmsrepro.report.tables import Table
from rmsrepro.report.text import commands

_MEANING = (
    "Lines are means over seeds, on a logarithmic axis geometric means. Bands are 95 % intervals of the mean by"
    " Student's t; fewer than three seeds have none and are marked n=1 or n=2. A dashed line that ends in a cross is a"
    " single run that counts in no mean, as it did not end well or has not ended yet."
)


def section(tables: Sequence[Table], index: Index, page: Path) -> Markup:
    """Return the section of one plan, its sizes one after another; `page` is where links start from."""
    layout, name = tables[0].layout, tables[0].layout.plan.name
    facts = [
        layout.source and f"The paper's numbers: {layout.source}",
        layout.hardware and f"timed on {layout.hardware}",
    ]
    if not layout.source:
        facts = ["An extension: the paper has no such table, and no claim is judged by it"]
    own = layout.plan.runs_plan
    shared = None
    if layout.plan.runs_of:
        shared = tag("p", "Filled by the runs of ", tag("a", plan_words(own), href=f"#{own}"), ".", class_="quiet")
    counts = list(standings([cell for table in tables for cell in table.cells]))
    return tag(
        "section",
        tag("h3", tag("span", plan_words(name), class_="tab"), " ", layout.title),
        tag("p", "; ".join(part for part in facts if part), ".", class_="quiet"),
        shared,
        bar(counts) if layout.claims else None,
        [_sized(table, index, page, alone=len(tables) == 1) for table in tables],
        _listed("What the paper says in words (not judged)", layout.statements),
        _listed("What differs from the paper", layout.deviations),
        id=name,
        aria_label=f"{plan_words(name)}: {layout.title}",
    )


def _sized(table: Table, index: Index, page: Path, *, alone: bool) -> Markup:
    sizeless = table.layout.task == "none" or not any(cell.state == "measured" for cell in table.cells)
    size = None if alone and sizeless else f"Size {table.size}"
    return join(
        [
            tag("h4", size) if size else None,
            matrix(table),
            _charts(
                "Speed", speed_drawings(table), "Bars: our time as a share; whiskers: its 95 % interval; ◇: the paper."
            ),
            _charts("Curves", curve_drawings(table, index), _MEANING),
            tag("div", list(details(table)), class_="blocks"),
            _listed("Left out", table.notes),
            _commands(table),
            _runs(table, index, page),
        ]
    )


def _charts(title: str, drawings: Sequence[Drawing], meaning: str) -> Markup | None:
    if not drawings:
        return None
    if all(drawing.description == "not measured" for drawing in drawings):
        names = ", ".join(dict.fromkeys(drawing.title for drawing in drawings))
        return tag("p", f"{title} ({names}): not measured.", class_="missing")
    figures = [tag("figure", embed(drawing)) for drawing in drawings]
    return join([tag("div", figures, class_="charts"), tag("p", meaning, class_="quiet note")])


def _commands(table: Table) -> Markup | None:
    found = commands(table)
    if not found:
        return None
    items = []
    for number, (command, labels) in enumerate(found.items(), start=1):
        place = command_id(table, number)
        copy = tag("button", "Copy", type="button", class_="copy", data_copy=place, hidden=True)
        items.append(tag("li", tag("span", ", ".join(labels)), tag("div", tag("code", command, id=place), copy)))
    return tag(
        "details",
        tag("summary", f"Commands that make these numbers ({len(found)})"),
        tag("ol", items),
        class_="commands",
    )


def _runs(table: Table, index: Index, page: Path) -> Markup | None:
    """List the runs of every arm; a run whose directory is at hand is a link to it."""
    items, count = [], 0
    for row in table.layout.rows:
        runs = index.arm_runs(table.layout.plan, row.arm, table.size) if row.planned else []
        count += len(runs)
        if runs:
            links: list[Child] = []
            for run in runs:
                words = f"seed {run.seed}" + ("" if run.state == "done" else f" ({run.state})")
                links += [_link(run, words, page), " "]
            items.append(tag("li", tag("span", row.label), " ", links))
    if not items:
        return None
    return tag("details", tag("summary", f"Runs ({count})"), tag("ul", items), class_="runs")


def _link(run: RunRecord, words: str, page: Path) -> Markup:
    if run.folder is None:
        return tag("span", words, title=run.where)
    way = Path(os.path.relpath(run.folder, page.parent)).as_posix()
    return tag("a", words, href=quote(os.fsencode(way)) + "/")


def _listed(title: str, items: Iterable[str]) -> Markup | None:
    listed = [tag("li", item) for item in items]
    return tag("details", tag("summary", f"{title} ({len(listed)})"), tag("ul", listed)) if listed else None
