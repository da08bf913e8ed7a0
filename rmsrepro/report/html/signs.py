"""Verdicts as signs whose shape says what their colour says, and how a claim stands."""

from __future__ import annotations

from collections.abc import Iterator

from rmsrepro.report.cells import Cell
from rmsrepro.report.charts.palette import STANDINGS, standing_class
from rmsrepro.report.markup import Markup, join, tag

#: Standing -> its sign, drawn in a square of 16 units.
_SHAPES = {
    "reproduced": '<circle cx="8" cy="8" r="6.5" fill="currentColor"/>',
    "direction only": '<circle cx="8" cy="8" r="5.7"/><path d="M8 2.3a5.7 5.7 0 0 1 0 11.4z" fill="currentColor"/>',
    "not reproduced": '<path d="M3 3l10 10M13 3l-10 10" stroke-width="2.6"/>',
    "not tested": '<circle cx="8" cy="8" r="5.7"/>',
    "not measured": '<path d="M4 8h8"/>',
}


def standing_of(cell: Cell) -> str | None:
    """Return how a claim stands: the verdict's outcome, `not measured` without a number of ours, None if no claim."""
    if cell.claim is None or cell.claim.origin is not None:
        return None
    if cell.state != "measured":
        return "not measured"
    return cell.verdict.outcome if cell.verdict else "not tested"


def standings(cells: list[Cell]) -> Iterator[tuple[str, int]]:
    """Yield every standing with how many claims have it."""
    found = [standing_of(cell) for cell in cells]
    for standing in STANDINGS:
        yield standing, found.count(standing)


def sign(standing: str, *, word: bool = True) -> Markup:
    """Return a sign, with its word or with the word for those who cannot see it."""
    use = tag("svg", tag("use", href=f"#s-{standing_class(standing)}"), class_="sign", aria_hidden="true")
    said = tag("span", standing, class_=None if word else "unseen")
    return tag("span", use, said, class_=f"standing {standing_class(standing)}")


def symbols() -> Markup:
    """Return the shapes that signs refer to."""
    shapes = [
        tag("symbol", Markup(shape), id=f"s-{standing_class(name)}", viewBox="0 0 16 16")
        for name, shape in _SHAPES.items()
    ]
    return tag("svg", join(shapes), width="0", height="0", aria_hidden="true", class_="symbols")


def bar(counts: list[tuple[str, int]]) -> Markup:
    """Return counts as one stacked bar; the words stand beside it, so it is for the eye only."""
    parts = [tag("i", class_=standing_class(name), style=f"flex-grow:{n}") for name, n in counts if n]
    return tag("span", parts, class_="stack", aria_hidden="true")
