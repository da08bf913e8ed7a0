"""Weights & Biases as a listener: it can be absent, offline or dead without the run noticing."""

import logging
import os
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

from rmsrepro.errors import single_line
from rmsrepro.runs.rundir import RunDir
from rmsrepro.runs.sinks import Row
from rmsrepro.runs.wandb_mode import WandbMode, resolve_mode
from rmsrepro.runs.wandb_session import end_session, start_session

MARGIN_S = 10.0  # on top of W&B's own time limits, for what these do not cover
_QUEUED_ROWS = 10_000

_log = logging.getLogger(__name__)


class WandbSink:
    """Sends config, rows and summary to one W&B run per attempt, from a thread of its own.

    A row costs the training loop a queue entry, whatever the network does. W&B's failures are one warning,
    after which the sink does nothing. The constructor waits at most ``init_timeout_s`` plus `MARGIN_S`,
    `finish` at most ``finish_timeout_s`` plus `MARGIN_S`.
    """

    def __init__(
        self,
        run_dir: RunDir,
        *,
        config: dict[str, Any],
        project: str = "rmsrepro",
        entity: str | None = None,
        group: str | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        mode: str = "auto",
        job_type: str | None = "train",
        init_timeout_s: float = 15.0,
        finish_timeout_s: float = 20.0,
    ) -> None:
        """Start the run in ``mode`` auto, online, offline or disabled.

        Online without a key, or with a server that does not answer in time, becomes offline with one
        warning. Raises ConfigError for an unknown mode, and nothing else.
        """
        resolve_mode(mode, {})  # a misspelt mode is the user's to mend, not W&B's failure
        attempt = 1 + sum(1 for _ in (run_dir.path / "wandb").glob("*run-*"))
        self.run_id = f"{run_dir.path.name}-{attempt}-{os.urandom(3).hex()}"
        self.mode: WandbMode = "disabled"
        self._init_limit_s = init_timeout_s + MARGIN_S
        self._finish_timeout_s = finish_timeout_s
        self._session = {"mode": mode, "init_timeout_s": init_timeout_s, "finish_timeout_s": finish_timeout_s}
        self._run_options = {
            "config": config,
            "project": project,
            "entity": entity,
            "group": group,
            "name": name,
            "tags": tuple(tags),
            "job_type": job_type,
            "id": self.run_id,
            "dir": str(run_dir.path),
        }
        self._off = mode == "disabled"
        self._dropped_rows = False
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=_QUEUED_ROWS)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._work, name="wandb-sink", daemon=True)
        if not self._off:
            self._thread.start()
            if not self._started.wait(self._init_limit_s):
                self._give_up(f"it did not start within {self._init_limit_s:.0f} s")

    def log(self, step: int, row: Row) -> None:
        """Queue a row; when W&B cannot keep up, rows are left out with one warning."""
        if self._off:
            return
        try:
            self._queue.put_nowait(("log", (step, row)))
        except queue.Full:
            if not self._dropped_rows:
                self._dropped_rows = True
                _log.warning("W&B cannot keep up and misses rows; metrics.jsonl has them all")

    def summary(self, values: dict[str, Any]) -> None:
        """Queue values for the run's summary."""
        self._put("summary", values)

    def finish(self, exit_code: int) -> None:
        """Close the W&B run, as failed unless ``exit_code`` is 0, within the stated time."""
        if self._off:
            return
        limit_s = self._finish_timeout_s + MARGIN_S
        deadline_s = time.monotonic() + limit_s
        self._put("finish", exit_code)
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        if self._thread.is_alive():
            self._give_up(f"it did not finish within {limit_s:.0f} s")
        self._off = True

    def _put(self, kind: str, value: Any) -> None:
        if self._off:
            return
        try:
            self._queue.put((kind, value), timeout=MARGIN_S)
        except queue.Full:
            self._give_up("it stopped taking data")

    def _give_up(self, reason: str) -> None:
        if not self._off:
            self._off = True
            _log.warning("W&B is switched off for this run: %s; metrics.jsonl is complete", reason)

    def _work(self) -> None:
        """Do all that touches wandb, in the sink's own thread."""
        try:
            run, self.mode = start_session(self._run_options, **self._session)
            self._off = self._off or run is None
            self._started.set()
            kind = ""
            while not self._off and kind != "finish":
                kind, value = self._queue.get()
                self._send(run, kind, value)
        except BaseException as error:  # wandb raises SystemExit and KeyboardInterrupt of its own, too
            self._give_up(single_line(f"{type(error).__name__}: {error}"))
        finally:
            self._started.set()

    def _send(self, run: Any, kind: str, value: Any) -> None:
        if kind == "log":
            step, row = value
            run.log(row, step=step)
        elif kind == "summary":
            run.summary.update(value)
        else:
            started_s = time.monotonic()
            end_session(run, value)
            if self.mode == "online" and time.monotonic() - started_s >= self._finish_timeout_s:
                _log.warning("W&B did not take everything in time; send the rest with: wandb sync")
