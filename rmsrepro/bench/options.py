"""Values of the benchmarks' command lines that are refused before anything is measured."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from rmsrepro.bench.protocol import MIN_BLOCKS
from rmsrepro.errors import ConfigError
from rmsrepro.report.places import published_dir

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
    """Read a number of interleaved blocks."""
    if positive(text) < MIN_BLOCKS:
        raise argparse.ArgumentTypeError(
            f"{text}: expected a whole number of {MIN_BLOCKS} or more, as fewer blocks have no spread worth showing"
        )
    return int(text)


def refuse_ignored(args: argparse.Namespace, mode: str, ignored: Iterable[str]) -> None:
    """Raise ConfigError for an option that was given and that `mode`, another option, takes no notice of.

    `ignored` are names of `args`, whose values are None or False where they were not given.
    """
    given = [name for name in ignored if getattr(args, name) not in (None, False)]
    if given:
        raise ConfigError(f"--{given[0].replace('_', '-')}: means nothing with {mode}; leave one of them out")


def add_publishing(parser: argparse.ArgumentParser, what: str) -> None:
    """Give a benchmark the options that add `what` it measures to the committed records."""
    parser.add_argument("--publish", action="store_true", help=f"add the {what} to results/published")
    parser.add_argument("--published", metavar="DIR", help="with --publish: another folder of records")


def publishing_folder(args: argparse.Namespace) -> Path:
    """Return the folder of records; raises ConfigError where it was named and nothing goes there."""
    if args.published and not args.publish:
        raise ConfigError(f"--published {args.published}: nothing is published; add --publish")
    return Path(args.published) if args.published else published_dir()


def output_file(text: str) -> str:
    """Take the name of a file that can be written: a measurement must not be lost for want of a folder."""
    path = Path(text)
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: cannot be written; name a file in a folder that is there")
    return text
