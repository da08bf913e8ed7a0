"""Runs of several configurations of one arm: what is shown, what is noted, and what is not compared."""

import pytest
from made_up import cell, run_line

from rmsrepro.report.run_dirs import arm_variant
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.sweep.plan import load_plan


def test_runs_of_two_configurations_never_share_a_mean(published):
    others = [run_line(seed=seed, error=0.5) | {"variant": "other"} for seed in (4, 5)]
    index = build_index(published(*(run_line(seed=seed) for seed in (1, 2, 3)), *others), None)
    assert [run.seed for run in index.runs] == [1, 2, 3]
    assert "another configuration (other)" in index.notes[0]


@pytest.mark.parametrize("state", ["diverged", "failed"])
def test_runs_of_another_configuration_are_noted_however_they_ended(published, state):
    others = [run_line(seed=seed, state=state) | {"variant": "other"} for seed in (4, 5)]
    (note,) = build_index(published(run_line(seed=1), *others), None).notes
    assert "2 runs of another configuration (other) are left out, 0 of them done" in note


OLD, LATER = "0123456789ab", "2026-02-01T00:00:00+00:00"


def recorded(arm, variant, *errors, **own):
    return [
        run_line(arm, seed=seed, error=error, size="small") | {"variant": variant} | own
        for seed, error in enumerate(errors, start=1)
    ]


@pytest.mark.parametrize("own", [{"started": LATER}, {"started": LATER, "state": "diverged"}])
def test_todays_recipe_is_shown_and_not_one_with_more_runs(published, own):
    now = arm_variant("table10", "rmsnorm", "small")
    lines = [*recorded("rmsnorm", OLD, 0.3, 0.31, 0.32), *recorded("rmsnorm", now, 0.2, 0.21, **own)]
    index = build_index(published(*lines), None)
    assert [run.variant for run in index.runs] == [now, now]
    assert f"3 runs of another configuration ({OLD})" in index.notes[0]


def test_a_run_that_has_just_begun_takes_no_earlier_results_place(published):
    now = arm_variant("table10", "rmsnorm", "small")
    begun = recorded("rmsnorm", now, 0.2, started=LATER, state="running")
    index = build_index(published(*recorded("rmsnorm", OLD, 0.3, 0.31), *begun), None)
    assert [run.variant for run in index.runs] == [OLD, OLD]


def test_two_earlier_recipes_are_not_compared_and_none_is_the_papers_setting(published):
    errors = {"rmsnorm": (0.088, 0.089, 0.0885), "layernorm": (0.104, 0.105, 0.1045)}
    for size in ("small", "paper"):
        lines = [line | {"size": size} for arm in errors for line in recorded(arm, OLD, *errors[arm])]
        found = cell(build_tables(load_plan("table10"), build_index(published(*lines), None)), "rmsnorm")
        assert (found.verdict.outcome, found.relative) == ("not tested", None)
        assert found.verdict.reason == "not compared with layernorm, which is of an earlier recipe"


def test_a_contradiction_among_runs_of_an_earlier_recipe_does_not_stop_todays_verdict(published):
    now = {arm: arm_variant("table10", arm, "small") for arm in ("rmsnorm", "layernorm")}
    errors = {"rmsnorm": (0.30, 0.31, 0.305), "layernorm": (0.33, 0.345, 0.34)}
    lines = [line for arm in errors for line in recorded(arm, now[arm], *errors[arm])]
    index = build_index(published(*lines, *recorded("rmsnorm", OLD, 0.1), *recorded("rmsnorm", OLD, 0.2)), None)
    assert len(index.contradictions) == 1
    assert cell(build_tables(load_plan("table10"), index), "rmsnorm").verdict.outcome == "direction only"


@pytest.mark.parametrize(
    ("old", "others"),
    [("rmsnorm", "layernorm, which is of today's"), ("layernorm", "layernorm, which is of an earlier")],
)
def test_an_earlier_recipe_is_named_and_not_compared_with_todays(published, old, others):
    names = {arm: OLD if arm == old else arm_variant("table10", arm, "small") for arm in ("rmsnorm", "layernorm")}
    errors = {"rmsnorm": (0.30, 0.31, 0.305), "layernorm": (0.33, 0.345, 0.34)}
    lines = [line for arm, name in names.items() for line in recorded(arm, name, *errors[arm])]
    index = build_index(published(*lines), None)
    (note,) = index.notes
    assert note.startswith(f"table10/{old}, size small: recorded with an earlier recipe ({OLD}, now ")
    assert index.contradictions == []
    (found,) = [
        cell
        for cell in build_tables(load_plan("table10"), index)[0].cells
        if (cell.arm, cell.column) == ("rmsnorm", "test_error")
    ]
    assert ("of an earlier recipe;" in found.detail) == (old == "rmsnorm")
    assert (found.relative, found.verdict.outcome) == (None, "not tested")
    assert found.verdict.reason == f"not compared with {others} recipe"
    assert all(cell.detail == "" for cell in build_tables(load_plan("table10"), index)[0].cells if cell.ours is None)
