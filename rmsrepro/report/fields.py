"""Fields of a committed line, checked as they are read: each raises KeyError, or ValueError that says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rmsrepro.config import SIZES
from rmsrepro.errors import single_line


def text(row: Mapping[str, Any], key: str) -> str:
    """Return a text that can be written again: JSON also has halves of surrogate pairs, which cannot."""
    value = row[key]
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"{key} {value!r}; expected text")
    return value


def text_or_none(row: Mapping[str, Any], key: str) -> str | None:
    """Return a text; None where the key is missing or null."""
    return None if row.get(key) is None else text(row, key)


def free_text(row: Mapping[str, Any], key: str) -> str:
    """Return a text that says something and names nothing, as one printable line; empty if it is missing or null."""
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{key} {value!r}; expected text")
    return one_line(value or "")


def one_line(value: str) -> str:
    """Return a text on one line that can be written, as a message of any library is not bound to be."""
    return single_line(printable(value))


def printable(value: Any) -> Any:
    """Return a JSON value whose texts can be written: bytes that were no UTF-8 are escaped, as in r"\udcff"."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {printable(key): printable(part) for key, part in value.items()}
    return [printable(part) for part in value] if isinstance(value, list) else value


def texts_by_name(row: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return a mapping from name to text; an empty one where the key is missing or null."""
    found = row.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"{key} {found!r}; expected a mapping from name to text")
    return {text({"name": name}, "name"): text(found, name) for name in found}


def size_name(row: Mapping[str, Any]) -> str:
    """Return the size, one of those there are: tables of any other are shown nowhere."""
    value = text(row, "size")
    if value not in SIZES:
        raise ValueError(f"size {value!r}; known are {', '.join(SIZES)}")
    return value


def whole_number(row: Mapping[str, Any], key: str) -> int:
    """Return a whole number of 0 or more."""
    return _whole(row[key], key)


def whole_numbers(row: Mapping[str, Any], key: str) -> tuple[int, ...]:
    """Return a list's numbers, whole and 0 or more."""
    return tuple(_whole(value, key) for value in _list(row, key))


def numbers(row: Mapping[str, Any], key: str) -> tuple[float, ...]:
    """Return a list's numbers; "NaN" and "Infinity" are read as such."""
    return tuple(float(value) for value in _list(row, key))


def finite_or_none(row: Mapping[str, Any], key: str) -> float | None:
    """Return a finite number; None where the key is missing or null."""
    value = row.get(key)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{key} {value!r}; expected a finite number")
    return float(value)


def _list(row: Mapping[str, Any], key: str) -> list[Any]:
    if not isinstance(row[key], list):
        raise ValueError(f"{key} {row[key]!r}; expected a list of numbers")
    return row[key]


def _whole(value: Any, key: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{key} {value!r}; expected a whole number of 0 or more")
    return value
