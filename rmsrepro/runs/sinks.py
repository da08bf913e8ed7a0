"""Where metrics go: the run's own JSON lines first, then whatever else listens."""

import io
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rmsrepro.errors import DataError
from rmsrepro.runs.atomic import append_jsonl, read_jsonl, to_json, write_bytes_atomic

Row = dict[str, float | int | str]

_log = logging.getLogger(__name__)


class Sink(Protocol):
    """Takes the rows of one run in order of their steps."""

    def log(self, step: int, row: Row) -> None:
        """Take one row of values that belong to ``step``."""

    def summary(self, values: dict[str, Any]) -> None:
        """Take the values that sum the run up, once, near its end."""

    def finish(self, exit_code: int) -> None:
        """Close; ``exit_code`` other than 0 means that the run failed."""


class JsonlSink:
    """The run's record: a line ``{"step": ..., "time_s": ..., **row}`` per call, on its way to disk at once.

    ``time_s`` counts seconds since the first row's sink was opened, and goes on from the last kept row
    after a resume. The summary is not written here; it is result.json.
    """

    def __init__(self, path: Path, resume_step: int | None = None) -> None:
        """Open ``path`` and drop rows past ``resume_step``; None starts an empty record. Raises OSError.

        A run that resumes at ``resume_step`` so ends with the rows of a run that was never interrupted.
        """
        last_s = _keep_rows_until(Path(path), resume_step)
        self._start_s = time.monotonic() - last_s
        self._file = io.FileIO(path, "ab")  # unbuffered: a killed run keeps every row

    def log(self, step: int, row: Row) -> None:
        """Append one line; raises OSError (disk full) since a run without its record is of no use."""
        elapsed_s = round(time.monotonic() - self._start_s, 6)
        append_jsonl(self._file, {"step": step, "time_s": elapsed_s, **row})

    def summary(self, values: dict[str, Any]) -> None:
        """Do nothing: result.json holds the summary."""

    def finish(self, exit_code: int) -> None:
        """Bring the record to disk and close it; a second call does nothing."""
        if self._file.closed:
            return
        try:
            os.fsync(self._file.fileno())
        finally:
            self._file.close()


class SinkGroup:
    """Hands everything to a primary sink, whose errors count, and to others, whose errors do not.

    Another sink that raises is switched off with one warning; training goes on.
    """

    def __init__(self, primary: Sink, others: Sequence[Sink] = ()) -> None:
        self._primary = primary
        self._others = list(others)

    def log(self, step: int, row: Row) -> None:
        """Give every sink the row."""
        self._primary.log(step, row)
        self._each_other("log", step, row)

    def summary(self, values: dict[str, Any]) -> None:
        """Give every sink the summary."""
        self._primary.summary(values)
        self._each_other("summary", values)

    def finish(self, exit_code: int) -> None:
        """Close every sink, the others too when the primary one fails to close."""
        try:
            self._primary.finish(exit_code)
        finally:
            self._each_other("finish", exit_code)

    def _each_other(self, method: str, *arguments: Any) -> None:
        for sink in tuple(self._others):
            try:
                getattr(sink, method)(*arguments)
            except Exception as error:  # whatever a tracker raises is no reason to lose a run
                self._others.remove(sink)
                _log.warning("%s is switched off: %s", type(sink).__name__, error)


def _keep_rows_until(path: Path, step: int | None) -> float:
    """Cut the record back to ``step`` in one atomic write; return the last kept row's time in seconds.

    Raises DataError naming the way out where the record is damaged before its last line.
    """
    if step is None:
        write_bytes_atomic(path, b"")
        return 0.0
    try:
        before = path.read_bytes()
    except FileNotFoundError:
        return 0.0
    try:
        rows = [row for row in read_jsonl(path) if int(row["step"]) <= step]
        last_s = float(rows[-1]["time_s"]) if rows else 0.0
    except (DataError, KeyError, TypeError, ValueError) as error:
        said = str(error) if isinstance(error, DataError) else f"{path}: a line without step or time_s ({error})"
        raise DataError(f"{said}; mend the line, or set runs.overwrite=true to train afresh") from error
    kept = "".join(to_json(row) + "\n" for row in rows).encode()
    if kept != before:
        write_bytes_atomic(path, kept)
    return last_s
