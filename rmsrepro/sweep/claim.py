"""Which sweep works on a run: a lock in the run's directory, held from before the run starts until it has ended.

The run itself holds another lock while it trains, so no run is ever made twice. The claim keeps two sweeps from both
starting a process for it, of which one would find the other's lock some seconds later.
"""

from __future__ import annotations

from contextlib import ExitStack

from rmsrepro.runs.lock import RunLockedError, exclusive_lock, is_locked
from rmsrepro.runs.rundir import RunDir

CLAIM = ".claim"


def claim(rundir: RunDir) -> ExitStack | None:
    """Claim a run and return what to close when it has ended; None when another process works on it.

    Raises ConfigError where the directory cannot be written or the file system has no locks.
    """
    rundir.create()
    held = ExitStack()
    try:
        held.enter_context(exclusive_lock(rundir.path / CLAIM))
    except RunLockedError:
        return None
    if is_locked(rundir.lock_file):
        held.close()
        return None
    return held


def is_claimed(rundir: RunDir) -> bool:
    """Say whether a sweep has claimed the run or a process trains it."""
    return is_locked(rundir.path / CLAIM) or is_locked(rundir.lock_file)
