"""result.json: the one file that tables are made from, checked when written and when read."""

import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmsrepro.errors import DataError
from rmsrepro.runs.atomic import read_json

SCHEMA = 1
_NONFINITE = ("NaN", "Infinity", "-Infinity")  # how `rmsrepro.runs.atomic` writes them
_TEXT_KEYS = ("task", "norm", "impl", "size", "data", "primary", "device", "config_hash")
_TIMING_KEYS = ("steps", "train_s", "step_ms_median", "items_per_s", "peak_memory_bytes")


class InvalidResultError(ValueError):
    """A result that must not be reported; the text names the key, what was found and what is expected."""


def build_timing(
    *, step_seconds: Sequence[float], items: int, steps: int, train_s: float, peak_memory_bytes: int | None
) -> dict[str, float | int | None]:
    """Turn measured step durations (seconds, warm-up left out) into the ``timing`` block.

    ``items`` were processed in exactly those steps; ``steps`` counts all optimiser steps of the run.
    The median and the rate are None when no step was timed.
    """
    measured_s = sum(step_seconds)
    return {
        "steps": steps,
        "train_s": train_s,
        "step_ms_median": 1000.0 * statistics.median(step_seconds) if step_seconds else None,
        "items_per_s": items / measured_s if measured_s > 0 else None,
        "peak_memory_bytes": peak_memory_bytes,
    }


def build_result(
    *,
    task: str,
    norm: str,
    impl: str,
    size: str,
    seed: int,
    data: str,
    metrics: dict[str, float],
    primary: str,
    direction: str,
    timing: dict[str, float | int | None],
    params: int,
    device: str,
    config_hash: str,
    commit: str | None,
    **extra: Any,
) -> dict[str, Any]:
    """Assemble and check a result; ``extra`` adds keys of the caller's own. Raises InvalidResultError."""
    result = {
        "schema": SCHEMA,
        "task": task,
        "norm": norm,
        "impl": impl,
        "size": size,
        "seed": seed,
        "data": data,
        "metrics": dict(metrics),
        "primary": primary,
        "direction": direction,
        "timing": dict(timing),
        "params": params,
        "device": device,
        "config_hash": config_hash,
        "commit": commit,
        **extra,
    }
    validate_result(result)
    return result


def read_result(path: Path) -> dict[str, Any]:
    """Read and check a result.json; raises DataError naming the file, what is wrong with it and the way out."""
    try:
        result = read_json(path)
        validate_result(result)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); repeat the run") from error
    except InvalidResultError as error:
        raise DataError(f"{path}: {error}; repeat the run") from error
    return result


def validate_result(result: dict[str, Any]) -> None:
    """Raise InvalidResultError unless ``result`` is a complete schema-1 result with a finite primary metric.

    Other metrics may be non-finite (as floats or as the strings that JSON holds for them).
    """
    _check(isinstance(result, dict), "schema", result, f"{SCHEMA} in a mapping")
    _check(result.get("schema") == SCHEMA, "schema", result.get("schema"), str(SCHEMA))
    for key in _TEXT_KEYS:
        value = result.get(key)
        _check(isinstance(value, str) and value != "", key, value, "a non-empty text")
    for key in ("seed", "params"):
        value = result.get(key)
        _check(_is_integer(value), key, value, "a whole number")
    _check(result["params"] >= 0, "params", result["params"], "at least 0")
    _check(result.get("direction") in ("min", "max"), "direction", result.get("direction"), "min or max")
    _check("commit" in result, "commit", None, "a git commit or null")
    commit = result["commit"]
    _check(commit is None or isinstance(commit, str), "commit", commit, "a git commit or null")
    _validate_metrics(result.get("metrics"), result["primary"])
    _validate_timing(result.get("timing"))


def _validate_metrics(metrics: Any, primary: str) -> None:
    _check(isinstance(metrics, dict), "metrics", metrics, "a mapping from name to number")
    for name, value in metrics.items():
        _check(_is_number(value) or value in _NONFINITE, f"metrics.{name}", value, "a number")
    _check(
        primary in metrics,
        "primary",
        primary,
        f"one of {', '.join(metrics) or 'the metrics (there are none)'}",
    )
    _check(_is_finite(metrics[primary]), f"metrics.{primary}", metrics[primary], "a finite number")


def _validate_timing(timing: Any) -> None:
    _check(isinstance(timing, dict), "timing", timing, f"a mapping with {', '.join(_TIMING_KEYS)}")
    for key in _TIMING_KEYS:
        _check(key in timing, f"timing.{key}", None, "to be given, null if not measured")
        value = timing[key]
        if value is None and key not in ("steps", "train_s"):
            continue
        _check(_is_finite(value) and value >= 0, f"timing.{key}", value, "a finite number of at least 0")
    for key in ("steps", "peak_memory_bytes"):
        value = timing[key]
        _check(value is None or _is_integer(value), f"timing.{key}", value, "a whole number")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    # JSON's whole numbers may be larger than any float, and every one of these is computed with.
    return isinstance(value, float) or (_is_integer(value) and abs(value) <= sys.float_info.max)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _check(holds: bool, key: str, value: Any, expected: str) -> None:
    if not holds:
        raise InvalidResultError(f"result.{key}: expected {expected}, got {value!r}")
