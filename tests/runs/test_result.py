import math

import pytest

from rmsrepro.runs.atomic import read_json, write_json_atomic
from rmsrepro.runs.result import InvalidResultError, build_result, build_timing, validate_result


def good_result(**changes):
    fields = {
        "task": "mnist",
        "norm": "rmsnorm",
        "impl": "torch",
        "size": "tiny",
        "seed": 1,
        "data": "mnist",
        "metrics": {"test/accuracy": 0.98, "test/loss": 0.07},
        "primary": "test/accuracy",
        "direction": "max",
        "timing": build_timing(step_seconds=[0.01] * 3, items=384, steps=4, train_s=0.5, peak_memory_bytes=1 << 20),
        "params": 1_796_010,
        "device": "cpu",
        "config_hash": "0123abcd",
        "commit": None,
    }
    return build_result(**(fields | changes))


def test_a_result_has_the_keys_that_scripts_rely_on_and_survives_the_file(tmp_path):
    result = good_result(best_step=3)
    assert list(result) == [
        *("schema", "task", "norm", "impl", "size", "seed", "data", "metrics", "primary", "direction"),
        *("timing", "params", "device", "config_hash", "commit", "best_step"),
    ]
    assert result["schema"] == 1
    write_json_atomic(tmp_path / "result.json", result)
    assert read_json(tmp_path / "result.json") == result


@pytest.mark.parametrize("value", [math.nan, math.inf, "NaN", None, True, 10**400])
def test_a_primary_metric_that_is_no_finite_number_is_never_a_result(value):
    with pytest.raises(InvalidResultError, match=r"metrics\.test/accuracy"):
        good_result(metrics={"test/accuracy": value})


def test_another_metric_may_overflow_and_still_be_read_back(tmp_path):
    write_json_atomic(tmp_path / "r.json", good_result(metrics={"test/accuracy": 0.1, "test/ppl": math.inf}))
    validate_result(read_json(tmp_path / "r.json"))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"primary": "test/bleu"}, "primary"),
        ({"direction": "lower"}, "direction"),
        ({"seed": 1.5}, "seed"),
        ({"params": -1}, "params"),
        ({"task": ""}, "task"),
        ({"commit": 7}, "commit"),
        ({"timing": {"steps": 1}}, r"timing\.train_s"),
        ({"metrics": {"test/accuracy": "high"}}, "metrics.test/accuracy"),
        ({"schema": 2}, "schema"),
    ],
)
def test_a_bad_field_is_named(changes, key):
    with pytest.raises(InvalidResultError, match=rf"^result\.{key}: expected"):
        good_result(**changes)


def test_what_is_no_mapping_is_no_result():
    with pytest.raises(InvalidResultError, match=r"^result\.schema: expected 1"):
        validate_result([])  # pyrefly: ignore[bad-argument-type]


def test_a_negative_or_non_finite_time_is_refused():
    timing = build_timing(step_seconds=[0.01], items=1, steps=1, train_s=math.nan, peak_memory_bytes=None)
    with pytest.raises(InvalidResultError, match=r"timing\.train_s"):
        good_result(timing=timing)


@pytest.mark.parametrize(
    ("step_s", "step_ms", "items_per_s"),
    [(0.010, 10.0, 100.0), (1.5, 1500.0, 2 / 3), (20e-6, 0.02, 50_000.0)],
)
def test_seconds_become_the_unit_that_the_key_names(step_s, step_ms, items_per_s):
    timing = build_timing(step_seconds=[step_s] * 5, items=5, steps=7, train_s=8 * step_s, peak_memory_bytes=None)
    assert timing["step_ms_median"] == pytest.approx(step_ms)
    assert timing["items_per_s"] == pytest.approx(items_per_s)
    assert timing["train_s"] == pytest.approx(8 * step_s)


def test_a_run_that_timed_no_step_says_null_instead_of_dividing_by_zero():
    timing = build_timing(step_seconds=[], items=0, steps=5, train_s=0.0, peak_memory_bytes=None)
    assert (timing["step_ms_median"], timing["items_per_s"]) == (None, None)
    good_result(timing=timing)
