"""Tables of the page: scrolling in a box of their own, and as cards where the window is narrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rmsrepro.report.markup import Child, Markup, join, tag


@dataclass(frozen=True)
class Row:
    """One row: the first field is its heading."""

    fields: Sequence[Child]
    class_: str | None = None
    id: str | None = None


def grid(caption: Child, headings: Sequence[str], rows: Iterable[Row], *, name: str, cards: bool = False) -> Markup:
    """Return a table in a box that scrolls by itself; `cards` makes each row a card on a phone.

    Roles are said outright, because a table whose display changes loses them.
    """
    head = tag("tr", [tag("th", words, scope="col", role="columnheader") for words in headings], role="row")
    body = [_row(row, headings if cards else ()) for row in rows]
    table = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", head, role="rowgroup"),
        tag("tbody", join(body), role="rowgroup"),
        role="table",
        class_="cards" if cards else None,
    )
    return tag("div", table, class_=f"box {name}", role="region", aria_label=name.replace("-", " "), tabindex="0")


def _row(row: Row, labels: Sequence[str]) -> Markup:
    fields = []
    for number, field in enumerate(row.fields):
        said = labels[number] if labels else None
        kind = {"scope": "row", "role": "rowheader"} if number == 0 else {"role": "cell"}
        whole = tag("span", field) if labels and field else field  # one box beside its label on a card
        fields.append(tag("th" if number == 0 else "td", whole, **kind, data_l=said))
    return tag("tr", fields, role="row", class_=row.class_, id=row.id)
