"""How far a run is: a bar with the time to go on a terminal, now and then a line anywhere else."""

import sys
import time
from typing import IO, Any, Self, SupportsFloat

from rmsrepro.runs.logs import setup_run_logging

__all__ = ["Progress", "setup_run_logging"]

_BAR_INTERVAL_S = 0.2
_LINE_INTERVAL_S = 30.0
_LINE_SHARE = 0.1  # of all steps
_SMOOTHING = 0.3  # weight of the newest stretch in the shown rate


class Progress:
    """Context that shows steps, rate, time to go and the latest values on stderr.

    A terminal gets a rich bar; anything else gets a line every 10 % of the steps, and every 30 s in between.
    """

    def __init__(
        self, total_steps: int, start_step: int = 0, description: str = "", stream: IO[str] | None = None
    ) -> None:
        self._total = total_steps
        self._step = start_step
        self._description = description
        self._stream = stream if stream is not None else sys.stderr
        self._values: dict[str, SupportsFloat] = {}
        self._rate: float | None = None  # steps per second
        self._bar: Any = None
        self._task: Any = None
        self._shown_step = start_step
        self._line_steps = max(1, int(total_steps * _LINE_SHARE))
        self._next_line_step = (start_step // self._line_steps + 1) * self._line_steps

    def __enter__(self) -> Self:
        self._shown_s = time.monotonic()
        self._due_s = self._shown_s
        if self._stream.isatty():
            self._start_bar()
            self._next_line_step = self._total + 1
        else:
            self._due_s += _LINE_INTERVAL_S
        return self

    def __exit__(self, *exception: object) -> None:
        if self._step > self._shown_step:
            self._show(time.monotonic())
        if self._bar is not None:
            self._bar.stop()

    def update(self, step: int, **values: SupportsFloat) -> None:
        """Say that ``step`` steps are done.

        Values are turned into numbers only when they are shown, a few times per second at most, so that
        passing a tensor costs no device synchronisation in between.
        """
        self._step = step
        self._values = values
        now = time.monotonic()
        if now >= self._due_s or step >= self._next_line_step:
            self._show(now)

    def _show(self, now: float) -> None:
        self._measure_rate(now)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._step, text=self._text())
            self._bar.refresh()
            self._due_s = now + _BAR_INTERVAL_S
        else:
            percent = 100 * self._step // max(1, self._total)
            head = f"{self._description} " if self._description else ""
            print(
                f"{head}{self._step}/{self._total} ({percent} %) {self._text()}",
                file=self._stream,
                flush=True,
            )
            self._due_s = now + _LINE_INTERVAL_S
            self._next_line_step = (self._step // self._line_steps + 1) * self._line_steps

    def _measure_rate(self, now: float) -> None:
        steps, seconds = self._step - self._shown_step, now - self._shown_s
        if steps > 0 and seconds > 0:
            newest = steps / seconds
            smoothed = newest if self._rate is None else _SMOOTHING * newest + (1 - _SMOOTHING) * self._rate
            self._rate = smoothed
            self._shown_step, self._shown_s = self._step, now

    def _text(self) -> str:
        parts = []
        if self._rate is not None:
            left_s = max(0, self._total - self._step) / self._rate
            parts = [f"{self._rate:.3g} steps/s", f"{format_duration(left_s)} left"]
        parts += [f"{name} {float(value):.4g}" for name, value in self._values.items()]
        return ", ".join(parts)

    def _start_bar(self) -> None:
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[text]}"),
        )
        # stdout stays as it is: scripts read the path of result.json from its last line.
        self._bar = progress.Progress(
            *columns, console=Console(file=self._stream), auto_refresh=False, redirect_stdout=False
        )
        self._task = self._bar.add_task(self._description, total=self._total, completed=self._step, text="")
        self._bar.start()


def format_duration(seconds: float) -> str:
    """Write seconds as ``45 s``, ``3 min 05 s`` or ``2 h 07 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
