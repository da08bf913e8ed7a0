"""How far a download is: a bar on a terminal, a plain line now and then elsewhere, always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

PLAIN_INTERVAL_S = 10.0
_MB = 1e6


def say(text: str) -> None:
    """Print one plain line on stderr, where it cannot be mistaken for a command's result."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def byte_progress(label: str, total: int, done: int = 0) -> Generator[Callable[[int], None]]:
    """Show progress while the block runs; the yielded function takes the number of bytes there are now."""
    if sys.stderr.isatty():
        with _bar(label, total, done) as show:
            yield show
    else:
        yield _plain_lines(label, total, done)


@contextmanager
def _bar(label: str, total: int, done: int) -> Generator[Callable[[int], None]]:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda now: bar.update(task, completed=now)


def _plain_lines(label: str, total: int, done: int) -> Callable[[int], None]:
    say(f"fetching {label} ({total / _MB:.1f} MB)" + (f", {done / _MB:.1f} MB already here" if done else ""))
    last_shown = time.monotonic()

    def show(now: int) -> None:
        nonlocal last_shown
        if time.monotonic() - last_shown >= PLAIN_INTERVAL_S:
            last_shown = time.monotonic()
            say(f"fetching {label}: {now / _MB:.1f} of {total / _MB:.1f} MB ({100 * now / total:.0f} %)")

    return show
