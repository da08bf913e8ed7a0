"""SIGTERM and SIGINT ask a run to save and leave; asked again, it ends at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

#: A terminal and a launcher may both deliver one request; signals this close together are one.
SAME_REQUEST_S = 1.0


class Interrupted(BaseException):
    """A signal arrived where there is nothing to save; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


class StopSignals:
    """While entered, the first SIGTERM or SIGINT raises Interrupted, or within `deferred` is kept in `received`."""

    def __init__(self) -> None:
        self.received = 0
        self._received_s = 0.0
        self._deferring = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        """Take over the handlers; only a process's main thread may."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the handlers back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Generator[None]:
        """Let a signal wait for whoever looks at `received`: the training loop, which saves before it leaves."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False

    def _handle(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.received:
            if now - self._received_s < SAME_REQUEST_S:
                return
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.received, self._received_s = number, now
        if not self._deferring:
            raise Interrupted(number)
