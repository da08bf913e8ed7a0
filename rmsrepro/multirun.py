"""`-m`: Hydra's sweep grammar, each job in a process of its own.

Hydra's own launcher runs all jobs in one process, where caches, generators and GPU contexts leak from one run into
the next, and one bad job stops the rest. Another launcher or sweeper, asked for by name, is left to Hydra.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """Return the override lists of all jobs: the product of every `key=a,b` and `key=range(...)`, `choice(...)`."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    chunks = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    return [list(job) for chunk in chunks for job in chunk]


def run(overrides: Sequence[str]) -> int:
    """Run every job of the sweep, go on when one fails, say which did, and return the worst exit code.

    SIGINT and SIGTERM are passed on to the job at work, which saves and leaves, and end the sweep.
    """
    jobs = expand(overrides)
    codes: list[int] = []
    signals = _PassedOn()
    for number, job in enumerate(jobs):
        print(f"[{number + 1}/{len(jobs)}] {' '.join(job)}", file=sys.stderr, flush=True)
        codes.append(signals.wait_for(subprocess.Popen([sys.executable, "-m", "rmsrepro", *job])))
        if signals.received:
            break
    print(f"{codes.count(0)} of {len(jobs)} runs done", file=sys.stderr)
    for job, code in zip(jobs, codes, strict=False):
        if code != 0:
            print(f"  exit {code}: {' '.join(job)}", file=sys.stderr)
    return 128 + signals.received if signals.received else max(codes, default=0)


class _PassedOn:
    """Hands SIGINT and SIGTERM to a child, whose own handling decides when it ends."""

    def __init__(self) -> None:
        self.received = 0
        self._child: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def wait_for(self, child: subprocess.Popen[bytes]) -> int:
        """Wait for the child's end and return its exit code, 128 + n where signal n killed it."""
        self._child = child
        code = child.wait()
        self._child = None
        return code if code >= 0 else 128 - code

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.received = number
        if self._child is not None:
            self._child.send_signal(number)
