"""How far a sweep is: the state of every run, counts, and the time that is left."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rmsrepro.errors import DataError, single_line
from rmsrepro.runs.lock import is_locked
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
            damage = f"{single_line(error)}, as the next sweep does"
    if is_claimed(rundir):
        # A run that was claimed a moment ago still has the status, and the age, of its last attempt.
        at_work = status is not None and status.state == "running" and is_locked(rundir.lock_file)
        return RunState(spec, "running", running_s=_age_s(status.updated) if status and at_work else 0.0)
    if damage:
        return RunState(spec, "damaged", damage)
    if status is None:
        return RunState(spec, "missing")
    if status.state == "running":
        return RunState(spec, "dead", "its process was killed; it goes on from its last checkpoint")
    return RunState(spec, status.state, single_line(status.fields.get("message", "")))


def count(states: Sequence[RunState]) -> dict[str, int]:
    """Count runs as done, running, failed and to do."""
    return {group: sum(one.state in members for one in states) for group, members in COUNTED.items()}


def remaining_s(states: Sequence[RunState], workers: int) -> float | None:
    """Estimate the training time that is left, from finished runs of the same arm, else of the same plan.

    Runs take their places as in the sweep: those at work have theirs, each of the others the next that is free.
    None where nothing is finished to go by. Loading data, evaluations and start-up come on top.
    """
    left = sorted((one for one in states if one.state != "done"), key=lambda one: one.state != "running")
    free_in_s = [0.0] * max(1, min(places(states, workers), len(left)))
    for one in left:
        train_s = _expected_train_s(one, states)
        if train_s is None:
            return None
        heapq.heapreplace(free_in_s, free_in_s[0] + max(0.0, train_s - one.running_s))
    return max(free_in_s)


def places(states: Sequence[RunState], workers: int) -> int:
    """Return how many runs are made at a time: `workers`, or more where other sweeps have more at work."""
    return max(1, workers, sum(one.state == "running" for one in states))


def _expected_train_s(run: RunState, states: Sequence[RunState]) -> float | None:
    like = [one for one in states if one.train_s is not None and one.spec.plan == run.spec.plan]
    own = [one for one in like if one.spec.arm == run.spec.arm]
    return statistics.median(one.train_s or 0.0 for one in own or like) if like else None


def _age_s(updated: str) -> float:
    try:
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(updated)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
