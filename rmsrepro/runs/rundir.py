"""A run's directory: where it lies, what is in it, what state it is in and who works on it."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from rmsrepro.errors import ConfigError, DataError
from rmsrepro.paths import expanded
from rmsrepro.runs.atomic import TEMPORARY_SUFFIX, read_json, write_json_atomic
from rmsrepro.runs.lock import exclusive_lock, is_locked
from rmsrepro.runs.result import read_result

State = Literal["running", "done", "failed", "diverged", "oom", "interrupted"]
STATES: tuple[str, ...] = get_args(State)
RUNS_ROOT_VARIABLE = "RMSREPRO_RUNS"


@dataclass(frozen=True)
class RunStatus:
    """What status.json says: the state, when it was written (UTC, ISO 8601) and free fields."""

    state: str
    updated: str
    fields: dict[str, Any] = field(default_factory=dict)


class RunDir:
    """The files of one run under ``<runs root>/<task>/<norm>/<config hash>/``."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.config_yaml = self.path / "config.yaml"
        self.manifest_json = self.path / "manifest.json"
        self.metrics_jsonl = self.path / "metrics.jsonl"
        self.status_json = self.path / "status.json"
        self.result_json = self.path / "result.json"
        self.log = self.path / "log"
        self.checkpoints = self.path / "checkpoints"
        self.lock_file = self.path / ".lock"
        self._locked_here = False

    @classmethod
    def locate(cls, runs_root: Path, task: str, norm: str, config_hash: str) -> "RunDir":
        """Name the directory of a run; touches nothing."""
        return cls(Path(runs_root) / task / norm / config_hash)

    def __repr__(self) -> str:
        return f"RunDir({str(self.path)!r})"

    def create(self) -> None:
        """Make the directory and its checkpoints folder.

        Raises ConfigError if they cannot be written or the directory holds other things and is no run.
        """
        with self._writable():
            self._refuse_other_directories()
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            self.lock_file.touch()

    @contextmanager
    def lock(self) -> Generator[None]:
        """Hold the run for the block, or raise RunLockedError in one line if another process has it.

        Partial files of a writer that was killed are removed, since with the lock held nobody writes them.
        """
        self.create()
        with exclusive_lock(self.lock_file):
            self._locked_here = True
            for folder in (self.path, self.checkpoints):
                for partial in folder.glob(f".*{TEMPORARY_SUFFIX}"):
                    partial.unlink(missing_ok=True)
            try:
                yield
            finally:
                self._locked_here = False

    def status(self) -> RunStatus | None:
        """Return what status.json says, or None if there is none that can be read."""
        try:
            content = dict(read_json(self.status_json))
            return RunStatus(str(content.pop("state")), str(content.pop("updated")), content)
        except (OSError, DataError, TypeError, ValueError, KeyError):
            return None

    def write_status(self, state: State, **fields: Any) -> None:
        """Replace status.json; ``fields`` are free (step, exit code, error text). Raises OSError."""
        if state not in STATES:
            raise ValueError(f"state: got {state!r}, allowed are {', '.join(STATES)}")
        origin = {"pid": os.getpid(), "host": os.uname().nodename}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_json_atomic(self.status_json, {"state": state, "updated": now, **origin, **fields})

    def effective_state(self) -> str | None:
        """Return the state, or ``dead`` for a run that says ``running`` while no process holds its lock."""
        status = self.status()
        if status is None:
            return None
        if status.state == "running" and not is_locked(self.lock_file):
            return "dead"
        return status.state

    def is_done(self) -> bool:
        """Say whether the run ended well and left a whole result, as a table needs it."""
        return self.result() is not None

    def result(self) -> dict[str, Any] | None:
        """Return the result of a run that is done, None of any other."""
        status = self.status()
        if status is None or status.state != "done":
            return None
        try:
            return read_result(self.result_json)
        except DataError:
            return None

    def clear(self) -> None:
        """Remove what the harness wrote here, so that the run starts afresh; holds the lock meanwhile.

        Files it does not know stay, W&B's records of earlier attempts too. Raises RunLockedError when
        another process works here, ConfigError for a directory of other things that is no run.
        """
        if not self.path.exists():
            return
        if not self._locked_here:
            with self.lock():
                self.clear()
            return
        with self._writable():
            # Result and status go first: cut short, a clearing leaves a run that is not taken for done.
            first = (self.result_json, self.status_json, self.metrics_jsonl, self.log)
            last = (self.manifest_json, self.config_yaml)
            for file in (*first, *self.checkpoints.glob("*.pt"), *last):
                file.unlink(missing_ok=True)

    def _refuse_other_directories(self) -> None:
        if not self.path.is_dir():
            return
        signs = {self.lock_file, self.config_yaml, self.manifest_json, self.status_json}
        outputs = {self.result_json, self.metrics_jsonl, self.log, self.checkpoints, self.path / "wandb"}
        content = set(self.path.iterdir())
        others = content - signs - outputs
        if others and not content & signs:
            raise ConfigError(
                f"{self.path}: not a run directory (it holds {min(others).name});"
                " move it away or set runs.root to another folder"
            )

    @contextmanager
    def _writable(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigError(
                f"runs.root: cannot write to {self.path} ({error.strerror});"
                f" set runs.root=DIR or {RUNS_ROOT_VARIABLE} to a directory that can be written"
            ) from error


def find_runs(runs_root: Path) -> list[RunDir]:
    """List every run under a root that has a status, sorted by path."""
    return [RunDir(status.parent) for status in sorted(Path(runs_root).glob("*/*/*/status.json"))]


def runs_root(configured: str | None) -> Path:
    """Return the absolute folder of all runs.

    ``configured`` (runs.root) comes first, then $RMSREPRO_RUNS, then results/runs of the source checkout
    that this package is imported from, then results/runs under the launch directory.
    """
    chosen = configured or os.environ.get(RUNS_ROOT_VARIABLE)
    if chosen:
        origin = "runs.root" if configured else RUNS_ROOT_VARIABLE
        return expanded(os.path.expandvars(chosen), origin).absolute()
    checkout = source_checkout()
    if checkout is not None and _can_write(checkout / "results" / "runs"):
        return checkout / "results" / "runs"
    return Path.cwd() / "results" / "runs"


def source_checkout() -> Path | None:
    """Return the source tree that rmsrepro is imported from, or None for an installed package."""
    tree = Path(__file__).resolve().parents[2]
    return tree if (tree / "pyproject.toml").is_file() else None


def _can_write(folder: Path) -> bool:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
