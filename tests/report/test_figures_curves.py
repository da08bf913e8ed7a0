import json
import math
import re

import numpy as np
import pytest
from made_up import run_line
from test_committed_records import make_run

from rmsrepro.report.charts.panels import curve_drawings
from rmsrepro.report.curves import MOST_POINTS, CurveRecord, thin
from rmsrepro.report.mean_curves import arm_curves, mean_curve
from rmsrepro.report.publish import publish
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.statistics import estimate
from rmsrepro.report.tables import build_tables
from rmsrepro.sweep.plan import load_plan


def curve(values, steps=(1, 2, 3), time_s=None, seed=1):
    times = tuple(time_s or [float(step) for step in steps])
    return CurveRecord("table10", "rmsnorm", "tiny", seed, "v", "train/loss", tuple(steps), times, tuple(values))


def curve_line(**changes):
    named = {"plan": "table10", "arm": "rmsnorm", "size": "paper", "seed": 1, "variant": "v-rmsnorm"}
    points = {"metric": "train/loss", "steps": [1, 2], "time_s": [0.5, 1.0], "values": [3.0, 2.0]}
    return {"kind": "curve", "schema": 1, **named, **points} | changes


def log_metrics(rundir, count=500, **broken):
    rows = [{"step": n, "time_s": n / 10, "train/loss": 1.0 / n, "train/lr": 0.1} for n in range(1, count + 1)]
    rows.append({"step": count, "time_s": count / 10 + 1, "valid/error": 0.25})
    for name, value in broken.items():
        rows[int(name.removeprefix("at_")) - 1]["train/loss"] = value
    rundir.metrics_jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [[1e308, 1e307, 1e300], [3.0, 1e308, -1e308], [5e-324, 1e-320, 1e-310]])
def test_values_that_are_about_to_overflow_stand_apart_and_are_drawn(tmp_path, values):
    lines = [run_line("rmsnorm", seed=seed) for seed in (1, 2, 3)]
    lines += [curve_line(seed=seed, steps=[1, 2, 3], time_s=[1, 2, 3], values=values) for seed in (1, 2, 3)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    index = build_index(tmp_path, None)
    (table,) = build_tables(load_plan("table10"), index)
    for drawing in curve_drawings(table, index):
        assert not re.search(r"\b(nan|inf)\b", str(drawing.body))


def test_publishing_writes_thinned_curves_that_another_machine_reads_back(tmp_path):
    log_metrics(make_run(tmp_path / "runs", "norm=rmsnorm", "seed=1"))
    publish("table10", tmp_path / "runs", tmp_path / "published")
    index = build_index(tmp_path / "published", None)
    assert index.contradictions == []
    curves = {found.metric: found for found in index.run_curves(index.runs[0])}
    assert set(curves) == {"train/loss", "valid/error"}
    loss = curves["train/loss"]
    assert len(loss.steps) <= MOST_POINTS
    assert (loss.steps[0], loss.steps[-1]) == (1, 500)
    assert loss.values == tuple(float(f"{1 / step:.6g}") for step in loss.steps)
    assert (tmp_path / "published" / "curves-table10.jsonl").stat().st_size < 10_000


def test_publishing_again_replaces_a_runs_curves_and_keeps_the_others(tmp_path):
    log_metrics(make_run(tmp_path / "one", "norm=rmsnorm", "seed=1"), 50)
    publish("table10", tmp_path / "one", tmp_path)
    log_metrics(make_run(tmp_path / "two", "norm=rmsnorm", "seed=1"), 60)
    log_metrics(make_run(tmp_path / "two", "norm=rmsnorm", "seed=2"), 70)
    publish("table10", tmp_path / "two", tmp_path)
    publish("table10", tmp_path / "one", tmp_path)
    index = build_index(tmp_path, None)
    ends = {run.seed: index.run_curves(run)[0].steps[-1] for run in index.runs}
    assert ends == {1: 50, 2: 70}


def test_a_run_at_hand_shows_its_own_log_while_it_is_written(tmp_path):
    rundir = make_run(tmp_path, "norm=rmsnorm", "seed=1")
    log_metrics(rundir, 30)
    with rundir.metrics_jsonl.open("a") as file:
        file.write('{"step": 31, "ti')
    index = build_index(tmp_path / "none", tmp_path)
    assert index.run_curves(index.runs[0])[0].steps[-1] == 30


def test_records_without_curves_have_none(published):
    index = build_index(published(run_line(seed=1)), None)
    assert index.run_curves(index.runs[0]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"values": [1.0]}, "hold 2, 2 and 1"),
        ({"steps": [2, 1]}, "steps do not rise"),
        ({"steps": [1, 10**400]}, "allowed are 0 to"),
        ({"steps": [1, math.inf]}, "steps inf; expected a whole number"),
        ({"time_s": [2.0, 1.0]}, "time_s falls"),
        ({"steps": [], "time_s": [], "values": []}, "0 points"),
        ({"metric": 3}, "metric 3"),
        ({"schema": 9}, "schema 9"),
        ({"values": [1.0, "high"]}, "high"),
    ],
)
def test_a_curve_line_that_cannot_be_used_is_a_contradiction(published, change, words):
    index = build_index(published(run_line(seed=1), curve_line(**change)), None)
    assert index.contradictions[0].startswith("runs.jsonl:2: ")
    assert words in index.contradictions[0]


def test_two_curves_of_one_metric_of_one_run_are_a_contradiction(published):
    index = build_index(published(curve_line(), curve_line(seed=2), curve_line(values=[3.0, 1.0])), None)
    assert len(index.contradictions) == 1
    assert index.contradictions[0].startswith("runs.jsonl:3: ")


def test_thinning_keeps_ends_and_the_first_value_that_is_no_number():
    points = [(n, n / 10, float("nan") if n >= 777 else 1.0) for n in range(1, 1001)]
    kept = thin(points)
    assert len(kept) <= MOST_POINTS
    assert (kept[0][0], kept[-1][0]) == (1, 1000)
    assert 777 in [step for step, *_ in kept]
    assert thin(points[:50]) == points[:50]


def test_the_mean_and_its_band_are_those_of_every_other_estimate():
    found = mean_curve([curve([v, v + 1, 2.0], seed=v) for v in (1, 2, 4)], "step")
    wanted = estimate([1.0, 2.0, 4.0])
    assert found.n == 3
    assert (found.mean[0], found.low[0], found.high[0]) == pytest.approx(
        (wanted.mean, wanted.interval.low, wanted.interval.high)
    )
    assert found.low[2] == found.high[2] == 2.0


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_seeds_have_no_band(n):
    found = mean_curve([curve([1.0, 2.0, 3.0 + seed], seed=seed) for seed in range(n)], "step")
    assert (found.n, found.low, found.high) == (n, None, None)


def test_over_time_seeds_are_averaged_only_where_all_of_them_ran():
    slow = curve([0.0, 1.0, 2.0], time_s=[2.0, 4.0, 6.0])
    fast = curve([0.0, 1.0, 2.0], time_s=[1.0, 2.0, 3.0], seed=2)
    found = mean_curve([slow, fast], "time")
    assert (found.x[0], found.x[-1]) == (2.0, 3.0)
    assert found.mean[0] == pytest.approx((0.0 + 1.0) / 2)
    assert mean_curve([slow, curve([1.0], steps=(1,), time_s=[9.0])], "time") is None


def test_seeds_with_one_value_each_are_averaged_over_time_too_without_a_band():
    found = mean_curve([curve([v], steps=(5,), time_s=[10.0 + v], seed=v) for v in (1, 2, 3)], "time")
    assert (list(found.x), list(found.mean), found.n, found.low) == ([12.0], [2.0], 3, None)


def test_a_logarithmic_mean_is_geometric_and_its_band_stays_positive():
    found = mean_curve([curve([v, 1.0, 1.0], seed=n) for n, v in enumerate((0.001, 0.01, 1.0))], "step", log=True)
    assert found.mean[0] == pytest.approx(np.prod([0.001, 0.01, 1.0]) ** (1 / 3))
    assert found.low[0] > 0


def test_of_many_broken_runs_a_few_are_drawn_coarsely_and_the_others_counted(published):
    steps = list(range(1, 201))
    lines = [run_line("rmsnorm", seed=seed, state="interrupted") for seed in range(42)]
    points = {"steps": steps, "time_s": steps, "values": [1.0 + step % 2 for step in steps]}
    lines += [curve_line(seed=seed, **points) for seed in range(42)]
    index = build_index(published(*lines), None)
    (table,) = build_tables(load_plan("table10"), index)
    for drawing in curve_drawings(table, index):
        body = str(drawing.body)
        dashed = re.findall(r'<path d="([^"]*)"[^>]*stroke-dasharray="3 3"', body)
        assert len(dashed) == 5
        assert all(way.count("l") < 40 for way in dashed)
        assert "single runs: and 37 more" in body


def test_a_diverged_run_and_one_with_nan_count_in_no_mean(tmp_path):
    log_metrics(make_run(tmp_path, "norm=rmsnorm", "seed=1"), 30)
    log_metrics(make_run(tmp_path, "norm=rmsnorm", "seed=2"), 30, at_20="NaN")
    log_metrics(make_run(tmp_path, "norm=rmsnorm", "seed=3", state="diverged"), 30)
    index = build_index(tmp_path / "none", tmp_path)
    found = arm_curves(index, index.arm_runs(load_plan("table10"), "rmsnorm", "tiny"))
    assert [kept.seed for kept in found.whole["train/loss"]] == [1]
    assert {(apart.seed, why) for apart, why in found.apart["train/loss"]} == {(2, "not finite"), (3, "diverged")}
