"""Speed bars: each arm's time as a share of its reference's, with the interval, and the paper's share as a diamond."""

from __future__ import annotations

from dataclasses import dataclass, field

from rmsrepro.report.charts.frame import WIDTH, Drawing, empty, heading, rule, text, text_width, x_axis
from rmsrepro.report.charts.palette import GROUNDS, norm_class, norm_colour
from rmsrepro.report.charts.scale import Scale, linear, number
from rmsrepro.report.markup import Markup, join, tag
from rmsrepro.report.units import fixed, telling_digits

_ROW = 36.0
_TOP = 34.0
#: Room for the end of the last tick's number.
_END = 14.0
_LEAST_PLOT = 140.0


@dataclass(frozen=True)
class Bar:
    """One arm; `ratio` is None where nothing was measured, `paper` where the paper says nothing."""

    label: str
    norm: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    paper: float | None = None


@dataclass
class BarChart:
    """Bars of one impl on one machine."""

    title: str
    reference: str
    bars: list[Bar] = field(default_factory=list)
    note: str = ""


def draw_bars(chart: BarChart) -> Drawing:
    """Draw the bars from 0, so that their lengths are the times; 1 is the reference."""
    known = [v for bar in chart.bars for v in (bar.ratio, bar.high, bar.paper) if v is not None]
    if not known:
        return empty(chart.title, "not measured")
    words = [_words(bar) for bar in chart.bars]
    widest = max(text_width(part) for part in [*words, *(bar.label for bar in chart.bars)])
    left, right = min(widest + 10, WIDTH - _END - _LEAST_PLOT), WIDTH - _END
    bottom = _TOP + _ROW * len(chart.bars)
    x = linear([*known, 1.0], left, right, zero=True)
    label = f"time per step; {chart.reference} = 1"
    ticks = x.ticks(4)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else None
    body = [
        heading(chart.title),
        x_axis(x, _TOP - 6, bottom, label, [(tick, number(tick, step)) for tick in ticks]),
        rule(x(1.0), _TOP - 6, x(1.0), bottom, strong=True),
    ]
    for row, (bar, line) in enumerate(zip(chart.bars, words, strict=True)):
        middle = _TOP + _ROW * (row + 0.5) - 2
        body.append(text(left - 8, middle - 3, _fitting(bar.label, left - 8), anchor="end"))
        body.append(text(left - 8, middle + 12, line, anchor="end", quiet=True))
        body.append(_bar(bar, x, middle, line))
    if chart.note:
        body.append(text(0, bottom + 52, chart.note, quiet=True))
    height = bottom + (60 if chart.note else 40)
    said = "; ".join(f"{bar.label} {line}" for bar, line in zip(chart.bars, words, strict=True))
    return Drawing(chart.title, said, WIDTH, height, join(body))


def _fitting(label: str, width: float) -> str:
    """Cut a label that is wider than its column; what a pointer on the bar says has the whole of it."""
    if text_width(label) <= width:
        return label
    return next(cut for end in range(len(label), -1, -1) if text_width(cut := f"{label[:end].rstrip()}…") <= width)


def _words(bar: Bar) -> str:
    paper = "" if bar.paper is None else f"paper {bar.paper:.2f}"
    if bar.ratio is None:
        return f"not measured; {paper}" if paper else "not measured"
    interval = ""
    if bar.low is not None and bar.high is not None:
        digits = telling_digits([bar.low, bar.high], 2, 1.0)
        interval = f" [{fixed(bar.low, digits)}, {fixed(bar.high, digits)}]"
    return f"{bar.ratio:.2f}{interval}" + (f"; {paper}" if paper else "")


def _bar(bar: Bar, x: Scale, middle: float, said: str) -> Markup:
    parts = [tag("title", f"{bar.label}: {said}")]
    if bar.ratio is not None:
        size = {"x": x(0), "y": middle - 6, "width": max(x(bar.ratio) - x(0), 0.5), "height": 12}
        fill = {"fill": norm_colour(bar.norm), "fill_opacity": "0.75", "class_": f"{norm_class(bar.norm)} s"}
        parts.append(tag("rect", **size, **fill))
    if bar.low is not None and bar.high is not None:
        low, high = x(bar.low), x(bar.high)
        way = f"M{low:.1f} {middle - 4:.1f}v8M{high:.1f} {middle - 4:.1f}v8M{low:.1f} {middle:.1f}H{high:.1f}"
        parts.append(tag("path", d=way, stroke=GROUNDS["ink"][0], stroke_width="1.4", class_="ink"))
    if bar.paper is not None:
        at = x(bar.paper)
        ring = {"stroke": GROUNDS["ink"][0], "stroke_width": "1.4", "fill": GROUNDS["ground"][0], "class_": "dia"}
        parts.append(tag("path", d=f"M{at:.1f} {middle - 6:.1f}l5 6l-5 6l-5 -6z", **ring))
    return tag("g", parts)
