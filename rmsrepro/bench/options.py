"""Values of the benchmarks' command lines that are refused before anything is measured."""

from __future__ import annotations

import argparse
from pathlib import Path

#: Digits of the longest number that is read: torch counts in 64 bits, and these hold every number of so many.
_MOST_DIGITS = 18
#: More threads than a machine has processors; starting many more than that fails.
_MOST_THREADS = 1024


def positive(text: str) -> int:
    """Read a whole number of 1 or more."""
    if len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number of at most {_MOST_DIGITS} digits")
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number of 1 or more")
    return int(text)


def thread_count(text: str) -> int:
    """Read how many threads torch computes with."""
    if positive(text) > _MOST_THREADS:
        raise argparse.ArgumentTypeError(f"{text}: expected at most {_MOST_THREADS} threads")
    return int(text)


def whole_numbers(text: str, separator: str, form: str) -> list[int]:
    """Read whole numbers of 1 or more, as many as `form` has names, with `separator` between them."""
    parts = [part.strip() for part in text.split(separator)]
    if len(parts) != len(form.split(separator)):
        raise argparse.ArgumentTypeError(f"{text}: expected {form} with whole numbers of 1 or more")
    try:
        return [positive(part) for part in parts]
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{text}: expected {form}, but {error}") from error


def block_count(text: str) -> int:
    """Read a number of interleaved blocks: two or more, as one has no spread."""
    if positive(text) < 2:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number of 2 or more, as one block has no spread")
    return int(text)


def output_file(text: str) -> str:
    """Take the name of a file that can be written: a measurement must not be lost for want of a folder."""
    path = Path(text)
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: cannot be written; name a file in a folder that is there")
    return text
