"""How one run of a sweep ended: read from its directory, and written there where its process no longer could."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from rmsrepro.errors import UserError, single_line
from rmsrepro.runs.rundir import RunDir, RunStatus
from rmsrepro.sweep.launcher import console_of
from rmsrepro.sweep.specs import Spec

#: How much of the end of a console is read for its last line.
_TAIL_BYTES = 4096


@dataclass(frozen=True)
class Outcome:
    """One run's end, as the sweep reports it."""

    spec: Spec
    state: str
    """done, failed, diverged, oom or interrupted."""
    message: str = ""
    """The last line of the error."""
    log: Path | None = None
    """The file with the traceback."""
    elsewhere: bool = False
    """Whether another process made the run."""


def ended(spec: Spec, code: int, before: RunStatus | None, lost: str = "") -> Outcome:
    """Return how a run ended whose process left `code`; `before` is the status that it found when it started.

    A process that was killed, or refused the run before it began, has written no ending: it is written for it.
    `lost` says why its job ended without its exit code, if it did.
    """
    rundir = spec.rundir
    if rundir.is_done():
        return Outcome(spec, "done")
    status = rundir.status()
    wrote_ending = status is not None and status != before and status.state not in ("running", "done")
    if code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
        said = status.fields.get("message") if status is not None and wrote_ending else None
        return Outcome(spec, "interrupted", single_line(said or "the same sweep goes on with it"))
    if status is not None and wrote_ending:
        log = rundir.log if rundir.log.is_file() else console_of(spec)
        return Outcome(spec, status.state, single_line(status.fields.get("message", "")), log)
    if lost:  # its console may be an earlier attempt's
        _write_failure(rundir, code, lost)
        return Outcome(spec, "failed", lost)
    message = last_line(console_of(spec)) or "it printed nothing"
    if code > 128:
        message = f"killed by {_signal_name(code - 128)}; it had printed: {message}"
    elif code == 0:
        message = f"it ended without a result: {message}"
    _write_failure(rundir, code, message)
    return Outcome(spec, "failed", message, console_of(spec))


def not_started(spec: Spec, error: Exception, *, claimed: bool = False) -> Outcome:
    """Return how a run ended that could not be started; a run that the sweep has `claimed` keeps that as its status."""
    message = single_line(error)
    if claimed:
        _write_failure(spec.rundir, 1, message)
    return Outcome(spec, "failed", message)


def last_line(file: Path) -> str:
    """Return the last line of a file that is not empty; nothing where there is none."""
    try:
        with file.open("rb") as opened:
            opened.seek(0, 2)
            opened.seek(max(0, opened.tell() - _TAIL_BYTES))
            text = opened.read().decode(errors="replace")
    except OSError:
        return ""
    return single_line(next((line for line in reversed(text.splitlines()) if line.strip()), ""))


def _write_failure(rundir: RunDir, code: int, message: str) -> None:
    try:
        with rundir.lock():
            rundir.write_status("failed", exit_code=code, message=message)
    except (UserError, OSError):
        pass  # another process has the run now, or the disk is full: the sweep's summary says what happened


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
