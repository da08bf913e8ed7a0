"""What all charts share: the SVG element around one, text, axes with ticks and grid, and the chart that has no data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from rmsrepro.report.charts.palette import GROUNDS, norm_class, norm_colour
from rmsrepro.report.charts.scale import Scale, number
from rmsrepro.report.markup import Markup, join, tag

WIDTH = 420.0
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
_LETTER = 7.5  # a letter's mean width at 12 units


@dataclass(frozen=True)
class Drawing:
    """A chart's inside with its size, so that it can stand alone or beside others."""

    title: str
    description: str
    width: float
    height: float
    body: Markup


def embed(drawing: Drawing) -> Markup:
    """Return a drawing as an SVG element of a page; its colours follow the page's theme."""
    return tag(
        "svg",
        drawing.body,
        viewBox=f"0 0 {drawing.width:g} {drawing.height:g}",
        role="img",
        aria_label=f"{drawing.title}. {drawing.description}",
        class_="chart",
    )


def text(x: float, y: float, content: str, *, anchor: str = "start", quiet: bool = False, bold: bool = False) -> Markup:
    """Return a text at 12 units."""
    return tag(
        "text",
        content,
        x=x,
        y=y,
        text_anchor=None if anchor == "start" else anchor,
        fill=GROUNDS["quiet" if quiet else "ink"][0],
        class_="q" if quiet else None,
        font_weight="600" if bold else None,
    )


def text_width(content: str) -> float:
    """Guess how wide a text will be."""
    return len(content) * _LETTER


def stroke(norm: str, **attributes: object) -> dict[str, object]:
    """Return the attributes of a line in a norm's colour: the class for a page, the colour for a file."""
    return {"class_": norm_class(norm), "stroke": norm_colour(norm), "fill": "none", **attributes}


def rule(x1: float, y1: float, x2: float, y2: float, *, strong: bool = False) -> Markup:
    """Return a hairline of grid or axis."""
    colour = GROUNDS["quiet" if strong else "line"][0]
    return tag("path", d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}", stroke=colour, class_="ax" if strong else "gr")


def x_axis(scale: Scale, top: float, bottom: float, label: str, ticks: Iterable[tuple[float, str]]) -> Markup:
    """Return ticks with their words below the chart, and the axis's name."""
    parts = [rule(scale.start, bottom, scale.end, bottom, strong=True)]
    for value, words in ticks:
        parts += [
            rule(scale(value), top, scale(value), bottom),
            text(scale(value), bottom + 16, words, anchor="middle"),
        ]
    parts.append(text((scale.start + scale.end) / 2, bottom + 34, label, anchor="middle", quiet=True))
    return join(parts)


def y_axis(scale: Scale, left: float, right: float) -> Markup:
    """Return horizontal grid lines with their values at the left."""
    ticks = scale.ticks()
    step = min((b - a for a, b in pairwise(ticks)), default=None)
    parts = []
    for value in ticks:
        words = number(value, None if scale.log else step)
        parts += [rule(left, scale(value), right, scale(value)), text(left - 6, scale(value) + 4, words, anchor="end")]
    return join(parts)


def empty(title: str, why: str, height: float = 150.0, width: float = WIDTH) -> Drawing:
    """Return what stands in a chart's place where nothing was measured: a frame that says so."""
    body = join(
        [
            heading(title),
            tag(
                "rect",
                x=0.5,
                y=28.0,
                width=width - 1,
                height=height - 29,
                rx=4,
                fill="none",
                stroke=GROUNDS["line"][0],
                stroke_dasharray="4 4",
                class_="gr",
            ),
            text(width / 2, (height + 34) / 2, why, anchor="middle", quiet=True),
        ]
    )
    return Drawing(title, why, width, height, body)


def heading(title: str) -> Markup:
    """Return a chart's title at its top left."""
    return text(0, 14, title, bold=True)
