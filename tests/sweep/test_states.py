"""What --status says, and what the finished runs came to."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from sweep.stand_in import result

from rmsrepro.runs.atomic import write_json_atomic
from rmsrepro.sweep.claim import claim
from rmsrepro.sweep.display import status_text
from rmsrepro.sweep.options import parse
from rmsrepro.sweep.results import arm_results, results_text
from rmsrepro.sweep.specs import build_specs
from rmsrepro.sweep.states import count, remaining_s, run_state
from rmsrepro.sweep.tracked import log_summaries


@pytest.fixture
def specs():
    return build_specs(parse(["plan=mnist", "size=tiny", "seeds=1,2", "arms=layernorm,rmsnorm", "device=cpu"]))


def finish(spec, train_s=10.0):
    spec.rundir.create()
    content = result(spec.config)
    content["timing"]["train_s"] = train_s
    write_json_atomic(spec.rundir.result_json, content)
    spec.rundir.write_status("done")


def test_every_state_is_told_apart(specs):
    done, killed, failed, missing = specs
    finish(done)
    for spec, state in ((killed, "running"), (failed, "failed")):
        spec.rundir.create()
        spec.rundir.write_status(state, message="two\nlines")
    states = [run_state(spec) for spec in specs]
    assert [one.state for one in states] == ["done", "dead", "failed", "missing"]
    assert states[2].message == "two lines"
    assert count(states) == {"done": 1, "running": 0, "failed": 2, "to do": 1}
    with missing.rundir.lock():
        assert run_state(missing).state == "running"


def test_the_time_left_follows_the_same_arm_else_the_same_plan(specs):
    first_layernorm, first_rmsnorm, *_ = specs
    assert remaining_s([run_state(spec) for spec in specs], 1) is None
    finish(first_layernorm, 100.0)
    assert remaining_s([run_state(spec) for spec in specs], 1) == 300
    finish(first_rmsnorm, 20.0)
    assert remaining_s([run_state(spec) for spec in specs], 1) == 120
    # Two workers: 100 s and 20 s side by side. A third has nothing to do.
    assert remaining_s([run_state(spec) for spec in specs], 2) == 100
    assert remaining_s([run_state(spec) for spec in specs], 3) == 100


def test_no_run_is_shared_among_workers_in_the_time_left(specs):
    done, *others = specs
    finish(done, 3600.0)
    assert remaining_s([run_state(spec) for spec in specs], 2) == 7200
    with others[0].rundir.lock(), others[1].rundir.lock():  # two sweeps of one worker each
        states = [run_state(spec) for spec in specs]
        assert remaining_s(states, 1) == 7200
        assert "2 runs at a time" in status_text(states, "tiny", 1)


def test_only_a_run_at_work_has_used_up_some_of_its_time(specs):
    done, failed, killed, at_work = specs
    finish(done, 3600.0)
    old = (datetime.now(UTC) - timedelta(minutes=30)).isoformat()
    for spec, state in ((failed, "failed"), (killed, "running"), (at_work, "running")):
        spec.rundir.create()
        write_json_atomic(spec.rundir.status_json, {"state": state, "updated": old})
    # Claimed again, the first two have not begun.
    with closing(claim(failed.rundir)), closing(claim(killed.rundir)), at_work.rundir.lock():
        states = [run_state(spec) for spec in specs]
    assert [one.state for one in states] == ["done", "running", "running", "running"]
    assert [round(one.running_s / 60) for one in states] == [0, 0, 0, 30]


def test_step_times_are_divided_by_layernorms_on_the_same_hardware_only(specs):
    for spec in specs:
        finish(spec)
    layernorm, rmsnorm = arm_results(specs)
    assert (layernorm.runs, layernorm.mean, layernorm.times_reference) == (2, 0.9, 1.0)
    assert rmsnorm.times_reference == 0.75
    assert "rmsnorm    2     test/accuracy  0.9   3        0.75" in results_text([layernorm, rmsnorm])
    for spec in specs[1::2]:
        content = json.loads(spec.rundir.result_json.read_text())
        write_json_atomic(spec.rundir.result_json, {**content, "device": "another"})
    assert arm_results(specs)[1].times_reference is None


def test_a_mean_counts_only_the_runs_that_have_its_metric(specs):
    for spec in specs:
        finish(spec)
    path = specs[3].rundir.result_json
    content = json.loads(path.read_text())
    write_json_atomic(path, content | {"metrics": {"valid/accuracy": 0.5}, "primary": "valid/accuracy"})
    assert [(one.metric, one.runs, one.mean) for one in arm_results(specs)] == [
        ("test/accuracy", 2, 0.9),
        ("test/accuracy", 1, 0.9),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "result.json: cannot be read (No such file"),
        ('{"schema":', "result.json: not valid JSON"),
        ("{}", "result.schema: expected 1, got None"),
        ("without metrics", "result.metrics: expected a mapping"),
    ],
)
def test_a_damaged_result_is_named_as_such_and_left_out_of_the_table(specs, text, said):
    for spec in specs[:2]:
        finish(spec)
    damaged = specs[0].rundir.result_json
    if text == "without metrics":
        text = json.dumps({**json.loads(damaged.read_text()), "metrics": None})
    damaged.unlink() if text is None else damaged.write_text(text)
    states = [run_state(spec) for spec in specs]
    assert [one.state for one in states] == ["damaged", "done", "missing", "missing"]
    assert count(states) == {"done": 1, "running": 0, "failed": 1, "to do": 2}
    shown = next(line for line in status_text(states, "tiny", 1).splitlines() if ": damaged: " in line)
    assert said in shown
    assert shown.endswith(f"repeat the run, as the next sweep does; see {specs[0].rundir.path}")
    assert [(one.arm, one.runs) for one in arm_results(specs)] == [("rmsnorm", 1)]


def test_the_summary_is_a_tracked_run_of_its_own(root):
    words = ["plan=mnist", "size=tiny", "seeds=1", "arms=layernorm,rmsnorm", "device=cpu"]
    tracked, untracked = (build_specs(parse([*words, track])) for track in ("track.mode=offline", "track=none"))
    finish(tracked[0])
    log_summaries(untracked, "tiny")
    assert not (root / ".sweeps").exists()
    log_summaries(tracked, "tiny")
    (table,) = (root / ".sweeps" / "mnist-tiny").rglob("media/table/arms_*.table.json")
    assert json.loads(table.read_text())["data"] == [["layernorm", 1, "test/accuracy", 0.9, 4.0, 1]]
