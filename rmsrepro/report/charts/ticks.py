"""Words for axes of steps and of time."""

from __future__ import annotations

from rmsrepro.report.charts.scale import Scale, number

_UNITS = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def step_ticks(scale: Scale) -> tuple[str, list[tuple[float, str]]]:
    """Return the axis's name and its ticks for optimiser steps."""
    return "step", _ticks(scale, 1.0)


def time_ticks(scale: Scale) -> tuple[str, list[tuple[float, str]]]:
    """Return the axis's name and its ticks for seconds, in the largest unit of which there are at least three."""
    size, name = next(((size, name) for size, name in _UNITS if scale.high >= 3 * size), _UNITS[-1])
    return f"{name} since the start", _ticks(scale, size)


def _ticks(scale: Scale, size: float) -> list[tuple[float, str]]:
    own = Scale(scale.low / size, scale.high / size, scale.start, scale.end)
    values = own.ticks(5)
    step = values[1] - values[0] if len(values) > 1 else None
    return [(value * size, number(value, step)) for value in values]
