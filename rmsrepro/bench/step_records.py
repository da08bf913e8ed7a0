"""Step timings as committed records, which the report's tables are made from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from rmsrepro.bench.protocol import Timing
from rmsrepro.bench.step_session import Session
from rmsrepro.bench.step_table import block_ms
from rmsrepro.errors import ConfigError
from rmsrepro.report.places import updating
from rmsrepro.report.records import SCHEMA, read_records
from rmsrepro.report.run_dirs import arm_variant, hardware_name
from rmsrepro.runs.atomic import atomic_writer, read_jsonl, to_json
from rmsrepro.runs.machine import hardware


def publish(session: Session, folder: Path, threads: int | None = None) -> Path:
    """Write a session to `timing-PLAN.jsonl`, in place of an older one of the same size, impl and hardware.

    `threads`: those that the session was told to use, which its command then names.
    """
    path = folder / f"timing-{session.contest.name}.jsonl"
    new = rows(session, threads)
    key = _place(new[0])
    try:
        with updating(folder):
            kept = [row for row in _existing(path) if row["kind"] != "timing" or _place(row) != key]
            with atomic_writer(path) as file:
                for row in [*kept, *new]:
                    file.write((to_json(row) + "\n").encode())
    except OSError as error:
        raise ConfigError(f"--published {folder}: cannot be written ({error.strerror}); name another folder") from error
    return path


def rows(session: Session, threads: int | None = None) -> list[dict[str, Any]]:
    """Return the lines of one session: every arm, and its reference arms a second time as repeat 1."""
    timed = [(arm, 0, timing) for arm, timing in session.timings.items()]
    again = [(arm, 1, timing) for arm, timing in session.again.items()]
    contest = session.contest
    words = f"--plan {contest.name} --size {contest.size} --impls {session.impl}"
    command = f"python -m rmsrepro.bench steps {words}{f' --threads {threads}' if threads else ''} --publish"
    return [_row(session, command, *one) for one in (*timed, *again)]


def _row(session: Session, command: str, arm: str, repeat: int, timing: Timing) -> dict[str, Any]:
    contest = session.contest
    device = torch.cuda.get_device_name() if session.device == "cuda" else None
    return {
        "kind": "timing",
        "schema": SCHEMA,
        "plan": contest.name,
        "arm": arm,
        "size": contest.size,
        "variant": arm_variant(contest.name, arm, contest.size),
        "impl": session.impl,
        "hardware": hardware_name(hardware(), device),
        "session": session.name,
        "repeat": repeat,
        "block_ms": block_ms(timing.block_us),
        "command": command,
        "conditions": {
            **session.conditions,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "calls_per_block": timing.calls_per_block,
            "sentinel_drift": round(session.drift, 4),
            "share_cut_short": round(session.cut_short.get(arm, 0.0), 4),
        },
    }


def _existing(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        return []
    _, complaints = read_records(path)
    if complaints:
        raise ConfigError(f"{path.parent}/{complaints[0]}; mend or remove the line before publishing")
    return read_jsonl(path)


def _place(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["size"], row["impl"], row["hardware"]
