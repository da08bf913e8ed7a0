"""What a plan's finished runs came to, arm by arm; the report judges, this only shows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rmsrepro.sweep.specs import Spec

#: The arm that others' step times are divided by.
REFERENCE_NORM = "layernorm"


@dataclass(frozen=True)
class ArmResult:
    """One arm's finished runs."""

    plan: str
    arm: str
    runs: int
    """Its finished runs that have the metric; one that lacks the test set is judged by another."""
    metric: str
    mean: float
    step_ms: float | None
    """The median over its runs of each run's median step; taken one after another, so no basis for a verdict."""
    times_reference: float | None
    """`step_ms` over the reference arm's; None without one, or on other hardware."""


def arm_results(specs: Sequence[Spec]) -> list[ArmResult]:
    """Return the result of every arm that has a finished run, in the order of the plan."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for spec in specs:
        result = spec.rundir.result()
        if result is not None:
            groups.setdefault((spec.plan, spec.arm), []).append(result)
    return [_arm(plan, arm, results, groups) for (plan, arm), results in groups.items()]


def results_text(results: Sequence[ArmResult]) -> str:
    """Show the arms as a table; nothing where no run is done."""
    if not results:
        return ""
    rows = [["arm", "runs", "metric", "mean", "step ms", f"times {REFERENCE_NORM}"]]
    for one in results:
        times = (f"{value:.3g}" if value is not None else "-" for value in (one.step_ms, one.times_reference))
        rows.append([one.arm, str(one.runs), one.metric, f"{one.mean:.6g}", *times])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "Times of single runs, one after another: `python -m rmsrepro.bench steps` compares."])


def _arm(
    plan: str, arm: str, results: list[dict[str, Any]], groups: dict[tuple[str, str], list[dict[str, Any]]]
) -> ArmResult:
    metric = results[0]["primary"]
    values = [float(result["metrics"][metric]) for result in results if metric in result["metrics"]]
    own, other = _step_ms(results), _step_ms(groups.get((plan, REFERENCE_NORM), []))
    comparable = own is not None and other is not None and _place(results) == _place(groups[plan, REFERENCE_NORM])
    times = own / other if own is not None and other is not None and comparable else None
    return ArmResult(plan, arm, len(values), metric, statistics.fmean(values), own, times)


def _step_ms(results: list[dict[str, Any]]) -> float | None:
    times = [result["timing"]["step_ms_median"] for result in results]
    return statistics.median(times) if times and None not in times else None


def _place(results: list[dict[str, Any]]) -> set[str]:
    return {result["device"] for result in results}
