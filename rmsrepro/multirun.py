"""`-m`: Hydra's sweep grammar, each job in a process of its own.

Hydra's own launcher runs all jobs in one process, where caches, generators and GPU contexts leak from one run into
the next, and one bad job stops the rest. Another launcher or sweeper, asked for by name, is left to Hydra.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """Return the override lists of all jobs: the product of every `key=a,b` and `key=range(...)`, `choice(...)`."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    chunks = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    return [list(job) for chunk in chunks for job in chunk]


def run(overrides: Sequence[str]) -> int:
    """Run every job of the sweep, go on when one fails, say which did, and return the worst exit code."""
    jobs = expand(overrides)
    codes = []
    for number, job in enumerate(jobs):
        print(f"[{number + 1}/{len(jobs)}] {' '.join(job)}", file=sys.stderr, flush=True)
        code = subprocess.run([sys.executable, "-m", "rmsrepro", *job], check=False).returncode
        codes.append(code if code >= 0 else 128 - code)
        if codes[-1] == 130:
            break  # Ctrl-C stops the sweep, not only the job that received it.
    print(f"{codes.count(0)} of {len(jobs)} runs done", file=sys.stderr)
    for job, code in zip(jobs, codes, strict=False):
        if code != 0:
            print(f"  exit {code}: {' '.join(job)}", file=sys.stderr)
    return max(codes, default=0)
