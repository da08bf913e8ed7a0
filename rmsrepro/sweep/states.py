"""How far a sweep is: the state of every run, counts, and the time that is left."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rmsrepro.errors import DataError
from rmsrepro.runs.result import read_result
from rmsrepro.sweep.claim import is_claimed
from rmsrepro.sweep.specs import Spec

#: States of a run that ended badly; a sweep tries each again.
FAILED = ("failed", "diverged", "oom", "dead", "damaged")
#: The groups in which runs are counted, with the states of each.
COUNTED = {"done": ("done",), "running": ("running",), "failed": FAILED, "to do": ("missing", "interrupted")}


@dataclass(frozen=True)
class RunState:
    """One run's state now."""

    spec: Spec
    state: str
    """done, running, failed, diverged, oom, dead (its process was killed), damaged (it ended well, but result.json is
    no whole result), interrupted or missing (never started)."""
    message: str = ""
    """The last line of what went wrong."""
    train_s: float | None = None
    """How long a finished run trained."""
    running_s: float = 0.0
    """How long a run that is at work has been."""

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON file keeps."""
        spec = self.spec
        return {
            "plan": spec.plan,
            "arm": spec.arm,
            "seed": spec.seed,
            "state": self.state,
            "config_hash": spec.rundir.path.name,
            "directory": str(spec.rundir.path),
            "command": spec.words,
            "train_s": self.train_s,
            "message": self.message,
        }


def run_state(spec: Spec) -> RunState:
    """Read one run's state from its directory."""
    rundir, damage = spec.rundir, ""
    status = rundir.status()
    if status is not None and status.state == "done":
        try:
            return RunState(spec, "done", train_s=read_result(rundir.result_json)["timing"]["train_s"])
        except DataError as error:
            damage = f"{' '.join(str(error).split())}, as the next sweep does"
    if is_claimed(rundir):
        return RunState(spec, "running", running_s=_age_s(status.updated) if status else 0.0)
    if damage:
        return RunState(spec, "damaged", damage)
    if status is None:
        return RunState(spec, "missing")
    if status.state == "running":
        return RunState(spec, "dead", "its process was killed; it goes on from its last checkpoint")
    return RunState(spec, status.state, " ".join(str(status.fields.get("message", "")).split()))


def count(states: Sequence[RunState]) -> dict[str, int]:
    """Count runs as done, running, failed and to do."""
    return {group: sum(one.state in members for one in states) for group, members in COUNTED.items()}


def remaining_s(states: Sequence[RunState], workers: int) -> float | None:
    """Estimate the training time that is left, from finished runs of the same arm, else of the same plan.

    None where nothing is finished to go by. Loading data, evaluations and start-up come on top.
    """
    finished = [one for one in states if one.train_s is not None]
    left_s = 0.0
    for one in states:
        if one.state == "done":
            continue
        own = [other for other in finished if (other.spec.plan, other.spec.arm) == (one.spec.plan, one.spec.arm)]
        like = own or [other for other in finished if other.spec.plan == one.spec.plan]
        if not like:
            return None
        left_s += max(0.0, statistics.median(other.train_s or 0.0 for other in like) - one.running_s)
    return left_s / max(1, workers)


def _age_s(updated: str) -> float:
    try:
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(updated)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
