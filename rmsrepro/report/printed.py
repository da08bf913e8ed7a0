"""Cells as a paper prints them: `22.4`, `665 ± 32.5`, `501 ± 11.8 (24.7%)`, `≈5.97`, `yes`, `fails`, `-`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rmsrepro.errors import DataError

_NUMBER = r"-?\d+(?:\.\d+)?"
_CELL = re.compile(rf"(?P<about>≈)?(?P<value>{_NUMBER})(?: ± (?P<spread>{_NUMBER}))?(?: \((?P<percent>{_NUMBER})%\))?")
_FORMS = "a number like 22.4, 665 ± 32.5, 501 ± 11.8 (24.7%) or ≈5.97, or yes, no, fails, or - for none"


@dataclass(frozen=True)
class Printed:
    """What a printed cell says; `digits` are those after the value's point."""

    value: float
    digits: int = 0
    spread: float | None = None
    speedup_percent: float | None = None
    approximate: bool = False
    fails: bool = False


def parse_printed(text: str, where: str) -> Printed | None:
    """Read one printed cell, None for `-`; raises DataError that names `where` it stands.

    `fails` is a model that could not be trained; its value is 0, the score that the paper gives it.
    """
    if text == "-":
        return None
    if text in ("yes", "no"):
        return Printed(1.0 if text == "yes" else 0.0)
    if text == "fails":
        return Printed(0.0, fails=True)
    match = _CELL.fullmatch(text)
    if match is None:
        raise DataError(f"{where}: cannot read {text!r}; a cell is {_FORMS}")
    part = match.groupdict()
    return Printed(
        value=float(part["value"]),
        digits=len(part["value"].partition(".")[2]),
        spread=None if part["spread"] is None else float(part["spread"]),
        speedup_percent=None if part["percent"] is None else float(part["percent"]),
        approximate=part["about"] is not None,
    )
