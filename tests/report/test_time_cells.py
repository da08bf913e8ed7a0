"""Cells of time: which blocks are compared with which, and what stands against a verdict."""

import pytest
from made_up import cell, table10, timing_line

from rmsrepro.report.run_dirs import arm_variant
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.report.text import ours
from rmsrepro.sweep.plan import load_plan

REFERENCE = [10.0, 10.1, 9.9, 10.05, 10.0, 10.1, 9.95, 10.0]


def timed(ratio, **changes):
    wobble = [1.0, 1.002, 0.998, 1.001, 0.999, 1.0, 1.001, 0.999]
    arm = [ms * ratio * other for ms, other in zip(REFERENCE, wobble, strict=True)]
    again = [ms * other for ms, other in zip(REFERENCE, wobble[::-1], strict=True)]
    return [
        timing_line("layernorm", REFERENCE, **changes),
        timing_line("rmsnorm", arm, **changes),
        timing_line("layernorm", again, **changes, repeat=1),
    ]


def test_times_are_judged_by_ratio_with_unit_and_blocks_shown(published):
    tables = table10(published(*timed(31 / 39)))
    found = cell(tables, "rmsnorm", "time")
    assert found.relative == pytest.approx(0.795, abs=1e-3)
    assert found.verdict.outcome == "reproduced"
    assert (found.ours.n, found.ours_unit) == (8, "ms/step")
    assert ours(found).startswith("8.0 ms ± ")


@pytest.mark.parametrize(("size", "outcome"), [("small", "direction only"), ("tiny", "not tested")])
def test_the_papers_very_ratio_at_a_smaller_size_is_not_the_paper_reproduced(published, size, outcome):
    found = cell(table10(published(*timed(31 / 39, size=size))), "rmsnorm", "time").verdict
    assert found.outcome == outcome
    assert (found.reason == "a smoke run") == (size == "tiny")


def test_times_that_read_differently_do_not_tie(published):
    tables = table10(published(*timed(0.99)))
    assert [cell.arm for cell in tables[0].cells if cell.best_ours] == ["rmsnorm"]


def test_impls_and_machines_are_shown_apart_and_never_share_a_ratio(published):
    fused = timed(1.0, impl="fused")[1:]
    other = timed(0.5, hardware="another card", session="b")[1:]
    tables = table10(published(*timed(31 / 39), *fused, *other))
    shown = [cell for cell in tables[0].cells if (cell.arm, cell.column) == ("rmsnorm", "time")]
    assert {(cell.impl, cell.hardware, cell.relative is None) for cell in shown} == {
        ("composed", "TITAN", False),
        ("fused", "TITAN", True),
        ("composed", "another card", True),
    }
    assert all(cell.verdict.outcome == "not tested" for cell in shown if cell.relative is None)


def test_arms_of_two_sessions_are_not_compared(published):
    reference, arm, again = timed(31 / 39)
    tables = table10(published(reference, arm | {"session": "later"}, again))
    assert "not timed beside it" in cell(tables, "rmsnorm", "time").verdict.reason


def test_no_arm_of_a_session_whose_layernorm_differs_from_itself_is_judged(published):
    lines = [*timed(31 / 39), timing_line("baseline", [0.54 * ms + i / 1e3 for i, ms in enumerate(REFERENCE)])]
    assert cell(table10(published(*lines)), "layernorm", "time").verdict.outcome == "reproduced"
    lines[2] = timing_line("layernorm", [1.1 * ms + i / 1e3 for i, ms in enumerate(REFERENCE)], repeat=1)
    tables = table10(published(*lines))
    for arm in ("baseline", "layernorm", "rmsnorm"):
        found = cell(tables, arm, "time").verdict
        assert (found.outcome, found.reason) == ("not tested", "the arm timed twice differs from itself")
    found = cell(table10(published(*lines[:2], lines[3])), "rmsnorm", "time").verdict
    assert (found.outcome, found.reason) == ("not tested", "no arm was timed twice, so its noise is not known")


def test_of_several_sessions_the_one_with_most_arms_counts_then_the_newest_and_the_others_are_noted(published):
    whole, newer = timed(31 / 39, session="20260101T000000-a"), timed(0.9, session="20260102T000000-a")
    part = timed(0.5, session="20260103T000000-a")[:1]
    index = build_index(published(*newer, *part, *whole), None)
    found = cell(build_tables(load_plan("table10"), index), "rmsnorm", "time")
    assert found.relative == pytest.approx(0.9, abs=1e-3)
    assert [note.split(",")[0] for note in index.notes_of(load_plan("table10"))] == [
        "table10/session 20260101T000000-a",
        "table10/session 20260103T000000-a",
    ]


@pytest.mark.parametrize(
    ("conditions", "outcome", "reason"),
    [
        ({"sentinel_drift": -0.19}, "not tested", "the sentinel drifted by -19.0% over the session"),
        ({"sentinel_drift": 0.051}, "not tested", "the sentinel drifted by +5.1% over the session"),
        ({"sentinel_drift": 0.05}, "reproduced", "close to the paper's ratio"),
        ({}, "reproduced", "close to the paper's ratio"),
    ],
)
def test_no_arm_of_a_session_whose_fixed_work_drifted_is_judged(published, conditions, outcome, reason):
    found = cell(table10(published(*timed(31 / 39, conditions=conditions))), "rmsnorm", "time").verdict
    assert (found.outcome, found.reason) == (outcome, reason)


def test_an_arm_that_was_timed_with_an_earlier_recipe_is_named_and_not_compared(published):
    now = {arm: arm_variant("table10", arm, "small") for arm in ("layernorm", "rmsnorm")}
    for old in (None, "layernorm", "rmsnorm"):
        lines = timed(31 / 39, size="small")
        names = {arm: "0123456789ab" if arm == old else variant for arm, variant in now.items()}
        found = cell(table10(published(*(line | {"variant": names[line["arm"]]} for line in lines))), "rmsnorm", "time")
        if old is None:
            assert (found.verdict.outcome, found.detail) == ("direction only", "")
        else:
            label = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}[old]
            assert (found.verdict.reason, found.detail) == (f"{label} timed with an earlier recipe", "")
            assert (found.verdict.outcome, found.verdict.n, found.relative) == ("not tested", 8, None)


def test_a_saving_within_the_sessions_noise_is_not_judged(published):
    reference, arm, again = timed(0.95)
    assert cell(table10(published(reference, arm, again)), "rmsnorm", "time").verdict.outcome == "direction only"
    noisy = [ms * other for ms, other in zip(again["block_ms"], [0.9, 1.1] * 4, strict=True)]
    found = cell(table10(published(reference, arm, again | {"block_ms": noisy})), "rmsnorm", "time").verdict
    assert (found.outcome, "differs from itself by" in found.reason) == ("not tested", True)


def test_an_arm_whose_turn_has_two_times_is_not_judged(published):
    reference, arm, again = timed(31 / 39)
    other = arm | {"block_ms": [13.0] * 8}
    found = cell(table10(published(reference, arm, again, other)), "rmsnorm", "time").verdict
    assert (found.outcome, found.reason) == ("not tested", "two records give different times for the same turn")


def test_a_timed_variant_of_another_form_cannot_be_told_from_todays(published):
    lines = [line | {"variant": "mine"} for line in timed(31 / 39)]
    assert cell(table10(published(*lines)), "rmsnorm", "time").verdict.outcome == "reproduced"


def test_a_row_that_the_paper_compares_with_no_other_is_not_compared(published):
    lines = [line | {"plan": "table6", "arm": "batchnorm_lstm"} for line in timed(0.9)[:2]]
    lines[0]["arm"] = "layernorm"
    tables = build_tables(load_plan("table6"), build_index(published(*lines), None))
    found = cell(tables, "batchnorm_lstm", "time")
    assert (found.relative, found.paper_relative, found.verdict.outcome) == (None, None, "not tested")
    assert found.verdict.reason == "the paper compares it with no other arm"
