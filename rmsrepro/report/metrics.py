"""What a run's metrics are measured in: declared in its result, else by the metric's name."""

from __future__ import annotations

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


def value_of(result: dict[str, Any], column: Column, *, paper_setting: bool) -> tuple[str, float] | None:
    """Return the metric's name and its value in the column's unit; None if the run does not have it.

    Raises DataError for a value under the wrong unit, and when result and column disagree on which way is better.
    """
    metrics = result["metrics"]
    stand_in = None if paper_setting else column.stand_in
    name = next((name for name in (column.metric, stand_in) if name in metrics), None)
    if name is None:
        return None
    if name == result["primary"] and column.direction not in ("neutral", result["direction"]):
        raise DataError(f"{name}: the run says {result['direction']} is better, the table says {column.direction}")
    wanted = unit(column.unit, column.heading)
    given = wanted if wanted.name in ("1", "yes/no") else unit_of(result, name)
    return name, convert(float(metrics[name]), given, wanted, name)
