"""Axes: from values to places on the paper, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps [low, high] to [start, end] in SVG units, by the logarithm if `log`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value; values outside the range land outside it."""
        at, low, high = (math.log10(v) if self.log else v for v in (max(value, 1e-300), self.low, self.high))
        if not self.log:
            at = value
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def within(self, place: float) -> float:
        """Return a place moved to the nearest end of the axis where it lies outside."""
        return min(max(place, min(self.start, self.end)), max(self.start, self.end))

    def ticks(self, count: int = 5) -> list[float]:
        """Return round values within the range, about `count` of them."""
        if not self.log:
            step = _round_step((self.high - self.low) / count)
            first = math.ceil(self.low / step - 1e-9)
            last = math.floor(self.high / step + 1e-9)
            return [number * step for number in range(first, last + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1,), (1, 3), (1, 2, 5)):
            found = [f * 10.0**d for d in decades for f in factors if self.low <= f * 10.0**d <= self.high]
            if len(found) >= 3:
                break
        else:
            return Scale(self.low, self.high, self.start, self.end).ticks(count)
        return found[:: math.ceil(len(found) / (count + 1))]


def linear(values: Iterable[float], start: float, end: float, *, zero: bool = False) -> Scale:
    """Return a scale that holds all values with a little room; `zero` makes it begin at 0."""
    known = list(values)
    low, high = min(known), max(known)
    if zero:
        low = min(low, 0.0)
    if high - low <= abs(high) * 1e-9:
        low, high = low - (abs(low) * 0.05 or 0.5), high + (abs(high) * 0.05 or 0.5)
    room = (high - low) * 0.04
    return Scale(low if zero and low == 0 else low - room, high + room, start, end)


def logarithmic(values: Iterable[float], start: float, end: float) -> Scale:
    """Return a logarithmic scale of positive values with a little room."""
    known = list(values)
    low, high = min(known), max(known)
    room = max((high / low) ** 0.04, 1.02)
    return Scale(low / room, high * room, start, end, log=True)


def number(value: float, step: float | None = None) -> str:
    """Write a tick's value: 0.95, 12, 30k, 1.5M; `step` to the next tick says how many digits are needed."""
    if value == 0:
        return "0"
    for limit, letter in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scale = 1e6 if letter == "M" else 1e3
            return f"{value / scale:.4g}{letter}"
    if abs(value) < 1e-4:
        return f"{value:.3g}".replace("e-0", "e-")
    if step:
        digits = max(0, -math.floor(math.log10(abs(step)) + 1e-9))
        return f"{value:.{digits}f}"
    return f"{value:.4g}"


def _round_step(rough: float) -> float:
    size = 10.0 ** math.floor(math.log10(rough))
    return next(factor * size for factor in (1, 2, 5, 10) if factor * size >= rough * (1 - 1e-9))
