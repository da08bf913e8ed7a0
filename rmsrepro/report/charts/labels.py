"""Names at the ends of lines, moved apart where they would overlap, each with a piece of its line before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rmsrepro.report.charts.frame import stroke, text
from rmsrepro.report.charts.palette import DASHES
from rmsrepro.report.markup import Markup, join, tag

_GAP = 15.0


@dataclass(frozen=True)
class Label:
    """A name and the place that it belongs to."""

    text: str
    norm: str
    y: float
    x: float
    dash: int = 0
    hollow: bool = False


def place_labels(labels: Sequence[Label], left: float, top: float, bottom: float) -> Markup:
    """Write names in a column that begins at `left`."""
    ordered = sorted(labels, key=lambda label: label.y)
    parts = []
    for label, at in zip(ordered, spread([label.y for label in ordered], top, bottom), strict=True):
        start = min(label.x + 5 if label.hollow else label.x, left)
        way = f"M{start:.1f} {label.y:.1f}L{left + 6:.1f} {at:.1f}"
        parts.append(tag("path", d=way, **stroke(label.norm, stroke_width="0.8", stroke_opacity="0.5")))
        sign: dict[str, object] = {"stroke_width": "2.4"}
        if DASHES[label.dash % len(DASHES)]:
            sign["stroke_dasharray"] = "3 2"
        if label.hollow:
            parts.append(tag("circle", cx=left + 12, cy=at, r=3.2, **stroke(label.norm, stroke_width="1.5")))
        else:
            parts.append(tag("path", d=f"M{left + 6:.1f} {at:.1f}h10", **stroke(label.norm, **sign)))
        parts.append(text(left + 20, at + 4, label.text))
    return join(parts)


def spread(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Return places in the same order, near the wanted ones, with room for a line of text between two.

    `wanted` rises. Where there is too little room for all, they are set evenly.
    """
    if not wanted:
        return []
    gap = min(_GAP, (bottom - top) / max(1, len(wanted) - 1))
    places = [min(max(at, top), bottom) for at in wanted]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    if places[-1] > bottom:
        places[-1] = bottom
        for i in range(len(places) - 2, -1, -1):
            places[i] = min(places[i], places[i + 1] - gap)
    return places
