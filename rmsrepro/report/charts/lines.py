"""A chart of lines: means with their bands, single runs that broke, hollow marks for the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from rmsrepro.report.charts.frame import (
    WIDTH,
    Drawing,
    empty,
    heading,
    stroke,
    text,
    text_width,
    x_axis,
    y_axis,
)
from rmsrepro.report.charts.labels import Label, place_labels
from rmsrepro.report.charts.palette import DASHES, GROUNDS, norm_class, norm_colour
from rmsrepro.report.charts.scale import Scale, linear, logarithmic, number
from rmsrepro.report.charts.ticks import step_ticks, time_ticks
from rmsrepro.report.markup import Markup, join, tag
from rmsrepro.report.statistics import LARGEST

_HEIGHT = 256.0
_TOP, _BOTTOM = 30.0, 212.0
_MOST_DRAWN, _MOST_DRAWN_BROKEN = 120, 40


@dataclass(frozen=True)
class Line:
    """A line with an optional band; `broken` ends it in a cross, and no band or label stands beside it."""

    label: str
    norm: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    low: Sequence[float] | np.ndarray | None = None
    high: Sequence[float] | np.ndarray | None = None
    said: str = ""
    """What a pointer on the line says, and the description for those who cannot see it."""
    dash: int = 0
    broken: bool = False


@dataclass(frozen=True)
class Mark:
    """A number of the paper: a hollow circle."""

    label: str
    norm: str
    x: float
    y: float


@dataclass
class LineChart:
    """Lines over steps or seconds; `limits` are horizontal lines with a word each."""

    title: str
    x_is: str
    lines: list[Line] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    limits: list[tuple[str, float]] = field(default_factory=list)
    note: str = ""
    why_empty: str = "not measured"
    id: str = "chart"
    x_label: str | None = None
    log: bool = False
    """Whether the y axis is logarithmic; all values must be positive then."""


def draw_lines(chart: LineChart) -> Drawing:
    """Draw a chart; one without anything to show says why."""
    lines = [_thinned(line) for line in chart.lines]
    ys = _extent(lines, chart)
    if not ys:
        return empty(chart.title, "no finite value" if chart.lines else chart.why_empty)
    xs = [x for line in lines for x in line.x] + [mark.x for mark in chart.marks]
    xs = xs or [0.0, 1.0]
    names = [line.label for line in lines if line.label] + [mark.label for mark in chart.marks]
    right = WIDTH - max([text_width(name) + 26 for name in names] + [20.0])
    y = (logarithmic if chart.log else linear)(ys, _BOTTOM, _TOP)
    left = max(text_width(number(tick)) for tick in [*y.ticks(), 0.25]) + 8
    x = Scale(min(0.0, *xs), max(*xs, 1e-9), left, right)
    label, ticks = (time_ticks if chart.x_is == "time" else step_ticks)(x)
    clip = f"{chart.id}-c"
    box = {"x": left, "y": _TOP - 4, "width": right - left + 5, "height": _BOTTOM - _TOP + 6}
    body = [
        heading(chart.title + (" (log scale)" if chart.log else "")),
        y_axis(y, left, right),
        x_axis(x, _TOP, _BOTTOM, chart.x_label or label, ticks),
        tag("clipPath", tag("rect", **box), id=clip),
        tag("g", [_drawn(line, x, y) for line in lines], clip_path=f"url(#{clip})"),
        [_limit(word, y(value), left, right) for word, value in chart.limits],
        [_mark(mark, x, y) for mark in chart.marks],
        _names(lines, chart.marks, x, y, right),
        [] if not chart.note else text(left, _HEIGHT + 8, chart.note, quiet=True),
    ]
    said = [line.said for line in lines if line.said]
    said += [f"paper, {mark.label}: {mark.y:g} at {number(mark.x)}" for mark in chart.marks]
    said += [chart.note] if chart.note else []
    return Drawing(chart.title, "; ".join(said), WIDTH, _HEIGHT + (14 if chart.note else 0), join(body))


def _extent(lines: Sequence[Line], chart: LineChart) -> list[float]:
    """Return what the y axis must hold: means and marks, and of bands and broken runs what stays near them."""
    whole = [line for line in lines if not line.broken] or lines
    known = [float(y) for line in whole for y in line.y]
    known += [mark.y for mark in chart.marks] + [value for _, value in chart.limits]
    if not known:
        return []
    room = 0.3 * (max(known) - min(known)) or abs(known[0]) * 0.05 or 1.0
    floor, roof = (min(known) / 2, max(known) * 2) if chart.log else (min(known) - room, max(known) + room)
    others = [ends for line in whole for ends in (line.low, line.high) if ends is not None]
    others += [line.y for line in lines if line.broken]
    return known + [min(max(float(end), floor), roof) for ends in others for end in ends]


def _thinned(line: Line) -> Line:
    """Keep about as many points as the paper can show, and only numbers."""
    most = _MOST_DRAWN_BROKEN if line.broken else _MOST_DRAWN
    keep = np.unique(np.linspace(0, len(line.x) - 1, min(len(line.x), most)).round().astype(int))
    keep = keep[np.abs(np.asarray(line.y, dtype=float)[keep]) <= LARGEST]

    def kept(part: Sequence[float] | np.ndarray | None) -> np.ndarray | None:
        return None if part is None else np.asarray(part, dtype=float)[keep]

    x, y = (np.asarray(part, dtype=float)[keep] for part in (line.x, line.y))
    return replace(line, x=x, y=y, low=kept(line.low), high=kept(line.high))


def _drawn(line: Line, x: Scale, y: Scale) -> Markup:
    points = [(x(a), y(b)) for a, b in zip(line.x, line.y, strict=True)]
    if not points:
        return Markup()
    parts: list[Markup] = []
    if line.low is not None and line.high is not None:
        above = [(x(a), y(b)) for a, b in zip(line.x, line.high, strict=True)]
        below = [(x(a), y(b)) for a, b in zip(line.x, line.low, strict=True)]
        band = {"d": _path(above + below[::-1]) + "z", "fill": norm_colour(line.norm), "fill_opacity": "0.16"}
        parts.append(tag("path", **band, class_=f"{norm_class(line.norm)} b"))
    thin = {"stroke_width": "1", "stroke_dasharray": "3 3"} if line.broken else {"stroke_width": "1.8"}
    if not line.broken and DASHES[line.dash % len(DASHES)]:
        thin["stroke_dasharray"] = str(DASHES[line.dash % len(DASHES)])
    parts.append(tag("path", d=_path(points), **stroke(line.norm, stroke_linejoin="round", **thin)))
    if len(points) == 1:
        parts.append(tag("circle", cx=points[0][0], cy=points[0][1], r=2.5, **stroke(line.norm, stroke_width="1.8")))
    if line.broken:
        a, b = points[-1][0], y.within(points[-1][1])
        cross = f"M{a - 4:.1f} {b - 4:.1f}l8 8m0 -8l-8 8"
        parts.append(tag("path", d=cross, **stroke(line.norm, stroke_width="1.8")))
    return tag("g", tag("title", line.said) if line.said else None, parts)


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Return a path in relative moves of a tenth, which is the shortest way to write it."""
    at = [(round(a * 10), round(b * 10)) for a, b in points]
    moves = [f"M{at[0][0] / 10:g} {at[0][1] / 10:g}"]
    for (a, b), (c, d) in pairwise(at):
        moves.append(f"l{(c - a) / 10:g} {(d - b) / 10:g}")
    return "".join(moves)


def _mark(mark: Mark, x: Scale, y: Scale) -> Markup:
    ring = stroke(mark.norm, stroke_width="1.8")
    ring["fill"] = GROUNDS["ground"][0]
    ring["class_"] = f"{norm_class(mark.norm)} hollow"
    said = tag("title", f"paper, {mark.label}: {mark.y:g}")
    return tag("circle", said, cx=x(mark.x), cy=y(mark.y), r=4, **ring)


def _limit(word: str, at: float, left: float, right: float) -> Markup:
    line = {"stroke": GROUNDS["quiet"][0], "stroke_dasharray": "5 4", "class_": "ax", "fill": "none"}
    path = tag("path", d=f"M{left:.1f} {at:.1f}L{right:.1f} {at:.1f}", **line)
    return join([path, text(left + 8, at - 5, word, quiet=True)])


def _names(lines: Sequence[Line], marks: Sequence[Mark], x: Scale, y: Scale, right: float) -> Markup:
    """Write each name beside the end of its line, moved apart where they would touch."""
    wanted = [
        Label(line.label, line.norm, y.within(y(float(line.y[-1]))), x(float(line.x[-1])), line.dash)
        for line in lines
        if line.label and len(line.x)
    ]
    named = {label.text for label in wanted}
    for mark in sorted(marks, key=lambda mark: -mark.x):
        if mark.label not in named:
            named.add(mark.label)
            wanted.append(Label(mark.label, mark.norm, y(mark.y), x(mark.x), 0, hollow=True))
    return place_labels(wanted, right, _TOP, _BOTTOM)
