"""Values of the benchmarks' command lines that are refused before anything is measured."""

from __future__ import annotations

import argparse
from pathlib import Path


def positive(text: str) -> int:
    """Read a whole number of 1 or more."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number of 1 or more")
    return int(text)


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
