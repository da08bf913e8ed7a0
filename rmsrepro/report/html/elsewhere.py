"""Numbers that are not the paper's, each kind under its own label and apart from every claim."""

from __future__ import annotations

from rmsrepro.report.elsewhere import UNSOURCED, ElsewhereFile
from rmsrepro.report.html.grid import Row, grid
from rmsrepro.report.markup import Markup, tag
from rmsrepro.report.text import NONE

_HEADINGS = ("Task", "Data", "Model", "Metric", "Value", "Unit", "Source", "Note")


def elsewhere_section(file: ElsewhereFile) -> Markup:
    """Return the references of one label."""
    rows = [
        Row(
            [
                item.task,
                item.data,
                item.model,
                item.metric,
                f"{item.value:g}",
                item.unit,
                item.source,
                item.note or NONE,
            ]
        )
        for item in file.references
    ]
    unsourced = file.label == UNSOURCED
    warning = (
        "No source is known for these. They are listed so that whoever meets them knows; nothing is compared with them."
        if unsourced
        else "Stated by other publications. None is a claim of the paper, and none is judged."
    )
    return tag(
        "section",
        tag("h3", file.label.capitalize()),
        tag("p", warning),
        tag(
            "details",
            tag("summary", f"The numbers ({len(rows)})"),
            grid(file.label.capitalize(), _HEADINGS, rows, name="elsewhere-numbers", cards=True),
        ),
        tag("ul", [tag("li", statement) for statement in file.statements]) if file.statements else None,
        id="unsourced" if unsourced else "published-elsewhere",
        class_="apart unsourced" if unsourced else "apart",
    )
