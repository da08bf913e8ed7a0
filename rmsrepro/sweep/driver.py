"""The sweep itself: start what is missing, share it with other sweeps, outlive failures, leave when asked to."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import FrameType

from rmsrepro.errors import UserError
from rmsrepro.runs.lock import is_locked
from rmsrepro.runs.progress import format_duration
from rmsrepro.runs.rundir import RunStatus
from rmsrepro.sweep.claim import claim, is_claimed
from rmsrepro.sweep.launcher import Job, Launcher, console_of
from rmsrepro.sweep.outcome import Outcome, ended, last_line, not_started
from rmsrepro.sweep.specs import Spec
from rmsrepro.sweep.states import FAILED

#: Seconds between two looks at the runs of this sweep, and at those of others.
POLL_S, POLL_OTHERS_S = 0.1, 1.0
#: Seconds between two words on how far the runs at work are.
SAY_S = 30.0


@dataclass
class _AtWork:
    spec: Spec
    job: Job
    held: ExitStack
    before: RunStatus | None
    started_s: float = field(default_factory=time.monotonic)
    said: str = ""


class Sweep:
    """Every run once: done ones are left alone, those of other sweeps waited for, all others started.

    A run is tried once a sweep, so a failure does not keep it from ending; the next sweep tries again.
    """

    def __init__(self, specs: Sequence[Spec], launcher: Launcher, say: Callable[[str], None]) -> None:
        self.received = 0
        """The signal that ended the sweep early, or 0."""
        self._launcher, self._say = launcher, say
        self._total = len(specs)
        self._pending = deque(specs)
        self._at_work: list[_AtWork] = []
        self._others: list[tuple[Spec, RunStatus | None]] = []
        self._outcomes: list[Outcome] = []
        self._looked_s, self._said_s = 0.0, time.monotonic()

    def run(self) -> list[Outcome]:
        """Run to the end, or until SIGINT or SIGTERM: then the runs at work save and leave; returns how each ended."""
        previous = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while self._pending or self._at_work or self._others:
                self._collect()
                if not self.received:
                    self._look_at_others()
                    self._start_some()
                elif not self._at_work:
                    break
                self._say_how_far()
                time.sleep(POLL_S)
        finally:
            for work in self._at_work:  # only where the sweep itself failed
                work.job.send_signal(signal.SIGTERM)
            for number, handler in previous.items():
                signal.signal(number, handler)
        return self._outcomes

    def _start_some(self) -> None:
        while self._pending and len(self._at_work) < self._launcher.limit and not self.received:
            spec = self._pending.popleft()
            if spec.rundir.is_done():
                self._outcomes.append(Outcome(spec, "done", elsewhere=True))
                continue
            try:
                held = claim(spec.rundir)
            except (UserError, OSError) as error:
                self._note(not_started(spec, error))
                continue
            if held is None:
                self._leave_to_others(spec)
            elif spec.rundir.is_done():  # another sweep has just finished it
                held.close()
                self._outcomes.append(Outcome(spec, "done", elsewhere=True))
            else:
                self._start(spec, held)

    def _start(self, spec: Spec, held: ExitStack) -> None:
        before = spec.rundir.status()
        try:
            self._at_work.append(_AtWork(spec, self._launcher.start(spec), held, before))
        except (UserError, OSError) as error:
            outcome = not_started(spec, error, claimed=True)
            held.close()
            self._note(outcome)
            return
        except BaseException:
            held.close()
            raise
        self._say(f"{spec.name}: started in {spec.rundir.path}")
        if self.received:  # it arrived while the process was being made
            self._at_work[-1].job.send_signal(self.received)

    def _collect(self) -> None:
        for work in list(self._at_work):
            code = work.job.poll()
            if code is None:
                continue
            self._at_work.remove(work)
            lost = code == 2 and is_locked(work.spec.rundir.lock_file)  # somebody's single run was quicker
            if lost:
                work.held.close()
                self._leave_to_others(work.spec)
                continue
            outcome = ended(work.spec, code, work.before, work.job.lost)
            work.held.close()
            self._note(outcome, format_duration(time.monotonic() - work.started_s))

    def _leave_to_others(self, spec: Spec) -> None:
        self._say(f"{spec.name}: another process works on it; waiting for it")
        self._others.append((spec, spec.rundir.status()))

    def _look_at_others(self) -> None:
        """Take over what others left unfinished, and note what they finished."""
        if time.monotonic() - self._looked_s < POLL_OTHERS_S:
            return
        self._looked_s = time.monotonic()
        for entry in list(self._others):
            spec, before = entry
            if not (done := spec.rundir.is_done()) and is_claimed(spec.rundir):
                continue
            self._others.remove(entry)
            status = spec.rundir.status()
            if done:
                self._note(Outcome(spec, "done", elsewhere=True), "by another process")
            elif status is not None and status != before and status.state in FAILED:
                self._note(ended(spec, 1, before), "by another process")
            else:
                self._pending.append(spec)

    def _note(self, outcome: Outcome, how: str = "not started") -> None:
        self._outcomes.append(outcome)
        self._say(f"[{len(self._outcomes)}/{self._total}] {describe(outcome)} ({how})")

    def _say_how_far(self) -> None:
        if time.monotonic() - self._said_s < SAY_S:
            return
        self._said_s = time.monotonic()
        for work in self._at_work:
            line = last_line(console_of(work.spec))
            if line and line != work.said:
                work.said = line
                self._say(f"  {work.spec.name}: {line}")

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.received = number
        for work in self._at_work:
            work.job.send_signal(number)


def describe(outcome: Outcome) -> str:
    """Say in one line how a run ended."""
    text = f"{outcome.spec.name}: {outcome.state}"
    if outcome.message:
        text += f": {outcome.message}"
    return f"{text}; see {outcome.log}" if outcome.log else text
