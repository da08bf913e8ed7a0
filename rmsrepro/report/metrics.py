"""What a run's metrics are measured in: declared in its result, else by the metric's name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rmsrepro.errors import DataError
from rmsrepro.report.claims import Column
from rmsrepro.report.units import Unit, convert, unit

#: Units by the last part of a metric's name, where a result has no `units` of its own.
_UNITS = {
    "accuracy": "fraction",
    "error": "fraction",
    "frequency": "fraction",
    "bleu": "BLEU",
    "perplexity": "perplexity",
    "loss": "nats",
    "mean_rank": "rank",
    "median_rank": "rank",
    "r1": "%",
    "r5": "%",
    "r10": "%",
}


def facts_of(result: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a result says beside its metrics; nothing where there is no result or that is no mapping."""
    facts = (result or {}).get("facts")
    return facts if isinstance(facts, dict) else {}


def unit_of(result: dict[str, Any], metric: str) -> Unit:
    """Return the unit of one metric of a result; raises DataError when nobody declares it."""
    declared = result.get("units") or {}
    if not isinstance(declared, dict):
        raise DataError(f"units {declared!r}: expected a mapping from metric to unit")
    name = declared.get(metric)
    if name is None:
        last = metric.rpartition("/")[2]
        name = next((known for end, known in _UNITS.items() if last == end or last.endswith("_" + end)), None)
    if name is None:
        raise DataError(f"{metric}: no unit is declared; add it to the result's units")
    return unit(name, metric)


def metric_of(results: Iterable[dict[str, Any]], column: Column, *, paper_setting: bool) -> str:
    """Return the one metric that a cell is made of: the column's, or its stand-in where more of the runs have that.

    Runs of one configuration may differ in it, as where only one machine has the test set.
    """
    if paper_setting or column.stand_in is None:
        return column.metric
    counts = Counter(
        name for result in results for name in (column.metric, column.stand_in) if name in result["metrics"]
    )
    return column.stand_in if counts[column.stand_in] > counts[column.metric] else column.metric


def value_of(result: dict[str, Any], metric: str, column: Column) -> float | None:
    """Return a metric's value in the column's unit; None if the run does not have it.

    Raises DataError for a value under the wrong unit, and when result and column disagree on which way is better.
    """
    if metric not in result["metrics"]:
        return None
    if metric == result["primary"] and column.direction not in ("neutral", result["direction"]):
        raise DataError(f"{metric}: the run says {result['direction']} is better, the table says {column.direction}")
    wanted = unit(column.unit, column.heading)
    given = wanted if wanted.name in ("1", "yes/no") else unit_of(result, metric)
    return convert(float(result["metrics"][metric]), given, wanted, metric)
