"""A sweep in words: who is done, what failed, how long it will take; for people and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from rmsrepro.runs.progress import format_duration
from rmsrepro.sweep.outcome import Outcome
from rmsrepro.sweep.states import FAILED, RunState, count, places, remaining_s

SCHEMA = 1


def listing(states: Sequence[RunState]) -> str:
    """List every run's state and full command, one a line."""
    width = max((len(one.state) for one in states), default=0)
    return "\n".join(f"{one.state:<{width}}  {shlex.join(one.spec.words)}" for one in states)


def status_text(states: Sequence[RunState], size: str, workers: int) -> str:
    """Show arms x seeds, counts, failures with their logs, and what is left."""
    parts = [_grid([one for one in states if one.spec.plan == plan], plan, size) for plan in _plans(states)]
    bad = [one for one in states if one.state in FAILED]
    parts += ["\n".join(f"{one.spec.name}: {one.state}: {one.message}; see {one.spec.rundir.path}" for one in bad)]
    return "\n\n".join(part for part in (*parts, _estimate(states, workers)) if part)


def as_json(states: Sequence[RunState], size: str, workers: int) -> dict[str, Any]:
    """Return the runs, their states, the counts and the estimate."""
    return {
        "schema": SCHEMA,
        "size": size,
        "expected": len(states),
        **{group.replace(" ", "_"): number for group, number in count(states).items()},
        "workers": workers,
        "estimated_train_s_left": remaining_s(states, workers),
        "runs": [one.as_dict() for one in states],
    }


def summary_text(outcomes: Sequence[Outcome], expected: int) -> str:
    """Say how many runs are done, and one line for each that is not."""
    done = sum(outcome.state == "done" for outcome in outcomes)
    lines = [f"{done} of {expected} runs done"]
    for outcome in outcomes:
        if outcome.state != "done":
            log = f"; see {outcome.log}" if outcome.log else ""
            lines.append(f"  {outcome.spec.name}: {outcome.state}: {outcome.message}{log}")
    if expected > len(outcomes):
        lines.append(f"  {expected - len(outcomes)} not started")
    return "\n".join(lines)


def _plans(states: Sequence[RunState]) -> list[str]:
    return list(dict.fromkeys(one.spec.plan for one in states))


def _grid(states: Sequence[RunState], plan: str, size: str) -> str:
    arms = list(dict.fromkeys(one.spec.arm for one in states))
    seeds = list(dict.fromkeys(one.spec.seed for one in states))
    cells = {(one.spec.arm, one.spec.seed): one.state for one in states}
    rows = [["arm", *(f"seed {seed}" for seed in seeds)]]
    rows += [[arm, *(cells.get((arm, seed), "") for seed in seeds)] for arm in arms]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    counts = ", ".join(f"{number} {group}" for group, number in count(states).items())
    heading = f"{plan}, size {size}: {len(states)} expected: {counts}"
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([heading, *table])


def _estimate(states: Sequence[RunState], workers: int) -> str:
    if all(one.state == "done" for one in states):
        return ""
    left_s = remaining_s(states, workers)
    if left_s is None:
        return "time left: unknown until a run of the plan is done"
    at_once = places(states, workers)
    at_a_time = "one run" if at_once == 1 else f"{at_once} runs"
    return f"time left: about {format_duration(left_s)} of training, {at_a_time} at a time"
