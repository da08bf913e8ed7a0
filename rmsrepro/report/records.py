"""Committed records: JSON lines in results/published that tables are made from where no run directory is at hand.

A line is one of four kinds, told apart by its key `kind`; results/published/README.md lists the keys.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rmsrepro.report.curves import CurveRecord, parse_curve
from rmsrepro.report.fields import (
    finite_or_none,
    free_text,
    numbers,
    printable,
    size_name,
    text,
    text_or_none,
    texts_by_name,
    whole_number,
)
from rmsrepro.runs.atomic import atomic_writer, to_json
from rmsrepro.runs.result import InvalidResultError, validate_result

SCHEMA = 1
RUN_STATES = ("done", "running", "failed", "diverged", "oom", "interrupted", "dead")


@dataclass(frozen=True)
class RunRecord:
    """One training run: where it belongs, how it ended and, if it ended well, its result."""

    plan: str
    arm: str
    size: str
    seed: int
    state: str
    data: str
    impl: str
    hardware: str
    command: str
    variant: str
    """Names the configuration without its seed: runs of one variant are repetitions of one another."""
    started: str
    commit: str | None
    result: dict[str, Any] | None
    where: str
    """Names the record's source in words: a run's directory, or the line of a committed file."""
    message: str = ""
    folder: Path | None = None
    """The run's directory where it is at hand; its name need not be text that can be written, `where` is."""
    data_checksums: Mapping[str, str] = field(default_factory=dict)
    """The checksums of the data's files by name; none in records of earlier versions."""


@dataclass(frozen=True)
class TimingRecord:
    """One arm of one interleaved timing session: its blocks' mean time per step, in the order they were run."""

    plan: str
    arm: str
    size: str
    impl: str
    hardware: str
    session: str
    """Names the process that timed all arms in turn; only arms of one session are compared."""
    repeat: int
    """0, or 1 for the second timing of the same arm that shows the noise floor."""
    block_ms: tuple[float, ...]
    command: str
    where: str
    sentinel_drift: float | None = None
    """How much slower the session's fixed work became from its first quarter to its last; None where nobody says."""
    variant: str | None = None
    """Names the configuration that was timed, as a run's does, but without the impl; None in earlier records."""

    @property
    def turn(self) -> tuple[str, str, str, str, str, str, int]:
        """Name what was timed, of which a session has one record."""
        return self.plan, self.arm, self.size, self.impl, self.hardware, self.session, self.repeat


@dataclass(frozen=True)
class MeasurementRecord:
    """A number that no training run makes, such as whether an invariance holds."""

    plan: str
    arm: str
    column: str
    value: float
    command: str
    where: str

    @property
    def cell(self) -> tuple[str, str, str]:
        """Name what was measured, which has one value."""
        return self.plan, self.arm, self.column


Record = RunRecord | TimingRecord | MeasurementRecord | CurveRecord


def best_of(copies: Iterable[RunRecord]) -> RunRecord:
    """Choose among records of one configuration and seed: a finished one, of these the newest, of these the last."""
    return sorted(copies, key=lambda run: (run.state == "done", run.started))[-1]


def read_records(path: Path) -> tuple[list[Record], list[str]]:
    """Read one file; returns the records and a line about each that cannot be used.

    A line that was cut short is one of those, as the last of a run's own log is not: nobody is still writing here.
    """
    name = printable(path.name)
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        return [], [printable(str(error))]
    records: list[Record] = []
    complaints = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(_parse(_row(line), f"{name}:{number}"))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            said = f"no key {error}" if isinstance(error, KeyError) else str(error)
            complaints.append(f"{name}:{number}: {said}")
    return records, complaints


def write_runs(path: Path, records: Iterable[RunRecord]) -> None:
    """Write run records, sorted, in one step; raises OSError."""
    ordered = sorted(records, key=lambda r: (r.plan, r.size, r.arm, r.seed))
    with atomic_writer(path) as file:
        for record in ordered:
            file.write((to_json(run_row(record)) + "\n").encode())


def run_row(record: RunRecord) -> dict[str, Any]:
    """Return the line of one run: the keys of result.json, and beside them where the run belongs."""
    own: dict[str, Any] = {
        "kind": "run",
        "schema": SCHEMA,
        "plan": record.plan,
        "arm": record.arm,
        "size": record.size,
        "seed": record.seed,
        "state": record.state,
        "data": record.data,
        "impl": record.impl,
        "hardware": record.hardware,
        "command": record.command,
        "variant": record.variant,
        "started": record.started,
        "commit": record.commit,
    }
    if record.data_checksums:
        own["data_checksums"] = dict(record.data_checksums)
    return {**own, "message": record.message} if record.result is None else {**own, **record.result}


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, found {line[:60]!r}")
    return row


def _parse(row: dict[str, Any], where: str) -> Record:
    if row["schema"] != SCHEMA:
        raise ValueError(f"schema {row['schema']!r}, this version reads {SCHEMA}")
    kind = row["kind"]
    if kind == "run":
        return _run(row, where)
    if kind == "timing":
        return _timing(row, where)
    if kind == "curve":
        return parse_curve(row, where)
    if kind == "measurement":
        texts = {key: text(row, key) for key in ("plan", "arm", "column", "command")}
        return MeasurementRecord(**texts, value=float(row["value"]), where=where)
    raise ValueError(f"kind {kind!r}; known are run, timing, curve, measurement")


def _run(row: dict[str, Any], where: str) -> RunRecord:
    if row["state"] not in RUN_STATES:
        raise ValueError(f"state {row['state']!r}; known are {', '.join(RUN_STATES)}")
    result = None
    if row["state"] == "done":
        result = row
        try:
            validate_result(row)
        except InvalidResultError as error:
            raise ValueError(str(error)) from error
    keys = ("plan", "arm", "state", "data", "impl", "hardware", "command", "variant", "started")
    return RunRecord(
        **{key: text(row, key) for key in keys},
        size=size_name(row),
        seed=whole_number(row, "seed"),
        commit=text_or_none(row, "commit"),
        result=result,
        where=where,
        message=free_text(row, "message"),
        folder=None,
        data_checksums=texts_by_name(row, "data_checksums"),
    )


def _timing(row: dict[str, Any], where: str) -> TimingRecord:
    block_ms = numbers(row, "block_ms")
    if not block_ms or not all(math.isfinite(value) and value > 0 for value in block_ms):
        raise ValueError("block_ms is empty or holds a time that is not positive")
    keys = ("plan", "arm", "impl", "hardware", "session", "command")
    return TimingRecord(
        **{key: text(row, key) for key in keys},
        size=size_name(row),
        repeat=whole_number(row, "repeat") if "repeat" in row else 0,
        block_ms=block_ms,
        where=where,
        sentinel_drift=_sentinel_drift(row.get("conditions")),
        variant=text_or_none(row, "variant"),
    )


def _sentinel_drift(conditions: Any) -> float | None:
    if conditions is None:
        return None  # sessions of earlier versions
    if not isinstance(conditions, dict):
        raise ValueError(f"conditions {conditions!r}; expected a mapping")
    return finite_or_none(conditions, "sentinel_drift")
