"""What a sweep asks of whatever starts its runs, and the runs of this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from os import environ
from pathlib import Path
from typing import Protocol

from rmsrepro.sweep.slots import Slot
from rmsrepro.sweep.specs import Spec

#: What makes a run; its overrides follow.
PROGRAM = (sys.executable, "-m", "rmsrepro")
#: In a run's directory: what the run's process printed.
CONSOLE = "console"


class Job(Protocol):
    """A run that has been started."""

    lost: str
    """Why the job ended without its run's exit code, where whatever ran it says so; else empty."""

    def poll(self) -> int | None:
        """Return the exit code, 128 + n where signal n killed the process, or None while it is at work."""

    def send_signal(self, number: int) -> None:
        """Pass SIGINT or SIGTERM on: the run saves and leaves."""


class Launcher(Protocol):
    """Starts runs, at most `limit` at a time."""

    limit: int

    def start(self, spec: Spec) -> Job:
        """Start one run in a process of its own; raises UserError or OSError where it cannot be started."""


def console_of(spec: Spec) -> Path:
    """Return the file that holds what the run's process printed."""
    return spec.rundir.path / CONSOLE


class LocalLauncher:
    """Runs on this machine, one in each slot."""

    def __init__(self, slots: Sequence[Slot], program: Sequence[str] = PROGRAM) -> None:
        self.limit = len(slots)
        self._free, self._program = list(slots), tuple(program)

    def start(self, spec: Spec) -> Job:
        """Start a run in the next free slot."""
        slot = self._free[0]
        gpu, held = slot.take_gpu()
        with held, slot.bound(), console_of(spec).open("wb") as console:
            process = subprocess.Popen(
                [*self._program, *spec.overrides],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env={**environ, **slot.environment, **gpu},
            )
            kept = held.pop_all()
        self._free.remove(slot)  # only now: a run that cannot be started takes no place
        return _LocalJob(process, slot, self._free, kept)


class _LocalJob:
    def __init__(self, process: subprocess.Popen[bytes], slot: Slot, free: list[Slot], gpu: ExitStack) -> None:
        self.lost = ""
        self._process, self._slot, self._free, self._gpu = process, slot, free, gpu
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None and (code := self._process.poll()) is not None:
            self._code = code if code >= 0 else 128 - code
            self._free.append(self._slot)
            self._gpu.close()
        return self._code

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)
