"""The report as one HTML file that needs nothing else: overview, a section per table, what is claimed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rmsrepro.report.charts.names import norm_of
from rmsrepro.report.charts.palette import NORMS
from rmsrepro.report.elsewhere import ElsewhereFile
from rmsrepro.report.html.elsewhere import elsewhere_section
from rmsrepro.report.html.overview import every_claim, glance
from rmsrepro.report.html.section import section
from rmsrepro.report.html.signs import symbols
from rmsrepro.report.html.style import script, style_sheet
from rmsrepro.report.html.words import plan_words
from rmsrepro.report.markup import Markup, tag
from rmsrepro.report.runs_index import Index
from rmsrepro.report.tables import Table
from rmsrepro.report.text import LEGEND, NONE, NOT_AVAILABLE

_KINDS = {"table": "The paper's tables", "figure": "The paper's figures", "": "What the paper does not have"}
_LEGEND = (
    LEGEND[0],
    f"{NONE}: not measured, or there is no such number; {NOT_AVAILABLE}: cannot be had from so few or such runs."
    " ≈: read from a plot. Bold: best of its column, ours and the paper's apart.",
    *LEGEND[2:],
)
_TITLE = "RMSNorm: the paper's claims, measured again"


def render_page(
    tables: Mapping[str, Sequence[Table]], index: Index, elsewhere: Sequence[ElsewhereFile], page: Path
) -> str:
    """Return the whole document; `page` is where it will lie, for links to run directories."""
    kinds: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for name in tables:
        kind = name.rstrip("0123456789")
        kinds[kind if kind in kinds else ""].append(name)
    norms = dict.fromkeys(NORMS)
    for sized in tables.values():
        norms |= {norm_of(sized[0].layout.plan, arm, sized[0].size): None for arm in sized[0].layout.plan.arms}
    parts = [
        tag(
            "section",
            tag("h2", _KINDS[kind]),
            [section(tables[name], index, page) for name in names],
            id=_kind_id(kind),
        )
        for kind, names in kinds.items()
        if names
    ]
    main = tag(
        "main",
        glance(tables),
        every_claim(tables),
        parts,
        tag(
            "section", tag("h2", "Numbers that are not the paper's"), map(elsewhere_section, elsewhere), id="elsewhere"
        ),
        _reading(index),
        id="main",
        tabindex="-1",
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", _TITLE),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(style_sheet(norms))),
    )
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#main", class_="skip"),
        symbols(),
        _header(),
        tag("div", _contents(kinds, tables), main, class_="columns"),
        tag("script", Markup(script())),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _header() -> Markup:
    paper = "“Root Mean Square Layer Normalization”, Biao Zhang and Rico Sennrich, NeurIPS 2019"
    toggle = tag("button", "Dark", type="button", id="theme", hidden=True, aria_pressed="false")
    return tag(
        "header",
        tag("div", tag("h1", _TITLE), toggle, class_="top"),
        tag(
            "p", f"What the numbers of {paper}, become when they are measured again, and what nobody has measured yet."
        ),
    )


def _contents(kinds: Mapping[str, Sequence[str]], tables: Mapping[str, Sequence[Table]]) -> Markup:
    links = [tag("li", tag("a", "At a glance", href="#glance")), tag("li", tag("a", "Every claim", href="#claims"))]
    for kind, names in kinds.items():
        inner = [tag("li", _contents_link(name, tables[name])) for name in names]
        if inner:
            links.append(tag("li", tag("a", _KINDS[kind], href=f"#{_kind_id(kind)}"), tag("ul", inner)))
    links.append(tag("li", tag("a", "Not the paper's", href="#elsewhere")))
    links.append(tag("li", tag("a", "How to read this", href="#reading")))
    return tag("nav", tag("details", tag("summary", "Contents"), tag("ul", links), open=True), aria_label="Contents")


def _contents_link(name: str, sized: Sequence[Table]) -> Markup:
    measured = any(cell.state == "measured" for table in sized for cell in table.cells)
    said = tag("span", ", has measurements", class_="unseen") if measured else None
    return tag("a", plan_words(name), said, href=f"#{name}", class_="has" if measured else None)


def _reading(index: Index) -> Markup:
    commits = sorted({run.commit[:12] for run in index.runs if run.commit})
    made = f"{len(index.runs)} runs, {len(index.timings)} timed arms"
    made += f"; source commits {', '.join(commits)}" if commits else ""
    notes = [tag("li", note) for note in [*index.contradictions, *index.notes]]
    return tag(
        "section",
        tag("h2", "How to read this"),
        tag("ul", [tag("li", line) for line in _LEGEND]),
        tag(
            "p",
            f"Made from {made} by ",
            tag("code", "python -m rmsrepro.report --html"),
            ", which computes nothing new.",
        ),
        tag("details", tag("summary", f"Records left out or in conflict ({len(notes)})"), tag("ul", notes))
        if notes
        else None,
        id="reading",
    )


def _kind_id(kind: str) -> str:
    return f"all-{kind or 'extension'}s"
