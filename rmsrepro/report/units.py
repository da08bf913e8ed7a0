"""Units that tables may use, and the only conversions between them that mean something."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rmsrepro.errors import DataError

Direction = Literal["max", "min", "neutral"]
DIRECTIONS: tuple[Direction, ...] = ("max", "min", "neutral")


@dataclass(frozen=True)
class Unit:
    """A unit: values of one `dimension` convert by `scale`; `low` and `high` bound what a value can be."""

    name: str
    dimension: str
    scale: float = 1.0
    low: float = 0.0
    high: float = math.inf

    @property
    def is_time(self) -> bool:
        """Say whether this measures time, of which only ratios are compared with the paper."""
        return self.dimension in ("time per step", "time per epoch")

    @property
    def allowed(self) -> str:
        """Say what a value can be."""
        return f"{self.low:g} {'or' if self.dimension == 'yes/no' else 'to'} {self.high:g}"

    def can_be(self, value: float) -> bool:
        """Say whether there is such a value; what is not finite has no unit, but is neither yes nor no."""
        if self.dimension == "yes/no":
            return value in (self.low, self.high)
        return not math.isfinite(value) or self.low <= value <= self.high


_UNITS = (
    Unit("BLEU", "BLEU", high=100.0),
    Unit("fraction", "share", high=1.0),
    Unit("%", "share", scale=0.01, high=100.0),
    Unit("rank", "rank", low=1.0),
    Unit("perplexity", "perplexity", low=1.0),
    Unit("nats", "nats", low=-math.inf),
    Unit("1", "number", low=-math.inf),
    Unit("yes/no", "yes/no", high=1.0),
    Unit("ms/step", "time per step", scale=1e-3),
    Unit("s/1k steps", "time per step", scale=1e-3),
    Unit("s/0.1k steps", "time per step", scale=1e-2),
    Unit("min/10k steps", "time per step", scale=60e-4),
    Unit("s/epoch", "time per epoch"),
)
UNITS = {unit.name: unit for unit in _UNITS}


def unit(name: str, where: str) -> Unit:
    """Return the unit of this name, or raise DataError that names `where` it was found."""
    if not isinstance(name, str) or name not in UNITS:
        raise DataError(f"{where}: unit {name!r} is not known; known are {', '.join(UNITS)}")
    return UNITS[name]


def convert(value: float, given: Unit, wanted: Unit, where: str) -> float:
    """Return `value` in the wanted unit.

    Raises DataError when the units measure different things or the value cannot be one of its unit, as 98.5 cannot be
    a fraction: a number under the wrong unit is refused, never averaged with others.
    """
    if given.dimension != wanted.dimension:
        raise DataError(f"{where}: {given.name} cannot be shown as {wanted.name}")
    if not given.can_be(value):
        raise DataError(
            f"{where}: {value:g} is no value in the declared unit ({given.name}: {given.allowed});"
            " declare its unit or mend the record"
        )
    return value if given == wanted else value * given.scale / wanted.scale


def fixed(value: float, digits: int) -> str:
    """Format with so many digits after the point; a negative zero loses its sign."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0.0 else text


def telling_digits(values: Iterable[float], digits: int, mark: float = 0.0) -> int:
    """Return how many digits after the point show on which side of `mark` each value lies: `digits`, or up to 3 more.

    A value printed as 0.0, or a ratio as 1.00, says less than is known of it.
    """
    apart = [value for value in values if value != mark and math.isfinite(value)]
    hides = (more for more in range(3) if any(float(fixed(value, digits + more)) == mark for value in apart))
    return digits + max(hides, default=-1) + 1


def step_time(seconds: float) -> str:
    """Format a duration in the unit that reads best, naming it: 20.0 µs, 10.0 ms, 1.50 s."""
    if seconds < 1e-3:
        return f"{fixed(seconds * 1e6, 1)} µs"
    if seconds < 1.0:
        return f"{fixed(seconds * 1e3, 1)} ms"
    return f"{fixed(seconds, 2)} s"
