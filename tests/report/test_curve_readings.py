import pytest
from made_up import run_line

from rmsrepro.report.claims import load_table, table_names
from rmsrepro.report.curve_readings import READINGS, OverArms, read_off, value_at
from rmsrepro.report.curves import thin
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.sweep.plan import load_plan

STEPS = list(range(500, 12_001, 500))


def lines(plan, arm, metric, steps, values, *, seeds=(1, 2, 3), s_per_step=1.0, size="paper", **changes):
    """Return runs with a curve each; the values differ a little by seed."""
    content = {"task": "rnnsearch", "data": "wmt14_en_de", "primary": "valid/bleu", "direction": "max", "size": size}
    for seed in seeds:
        yield run_line(arm, plan=plan, seed=seed, metrics={"valid/bleu": 20.0}, **content, **changes)
        named = {"plan": plan, "arm": arm, "size": size, "seed": seed, "variant": f"v-{arm}", "metric": metric}
        points = {"steps": list(steps), "time_s": [step * s_per_step for step in steps]}
        yield {"kind": "curve", "schema": 1, **named, **points, "values": [value + seed / 100 for value in values]}


def losses(arm, offset=0.0, **changes):
    return lines("table2", arm, "train/token_loss", STEPS, [offset + 10 - step / 2000 for step in STEPS], **changes)


def cells(folder, plan, size="paper"):
    index = build_index(folder, None)
    assert index.contradictions == []
    return {(cell.arm, cell.column): cell for cell in build_tables(load_plan(plan), index, size)[0].cells}


def test_every_number_of_a_curve_that_the_paper_has_is_read_somehow():
    columns = [column for name in table_names() for column in load_table(name).columns.values()]
    assert {column.metric for column in columns if column.metric.startswith("curve/")} == set(READINGS)


def test_a_loss_is_read_at_the_papers_steps_with_its_interval(published):
    found = cells(published(*losses("baseline"), *losses("layernorm", offset=-3.1)), "figure1")
    cell = found["baseline", "loss_step_3000"]
    assert (cell.state, cell.seeds, cell.metric) == ("measured", (1, 2, 3), "curve/train_loss_step_3000")
    assert cell.ours.mean == pytest.approx(8.52)
    assert found["layernorm", "loss_step_10000"].ours.mean == pytest.approx(1.92)
    assert found["layernorm", "loss_step_3000"].verdict.outcome == "reproduced"


def test_at_equal_time_a_slower_arm_is_read_at_fewer_steps(published):
    found = cells(published(*losses("baseline"), *losses("layernorm", s_per_step=1.5)), "figure1")
    assert found["baseline", "loss_minute_35"].ours.mean == pytest.approx(10 - 3000 / 2000 + 0.02)
    assert found["layernorm", "loss_minute_35"].ours.mean == pytest.approx(10 - 2000 / 2000 + 0.02)


@pytest.mark.parametrize("change", [{"hardware": "another card"}, {"impl": "fused"}, {"seeds": (4, 5, 6)}])
def test_times_of_another_machine_impl_or_seed_are_not_equal_times(published, change):
    hardware = {name: value for name, value in change.items() if name == "hardware"}
    others = {name: value for name, value in change.items() if name != "hardware"}
    layernorm = [line | hardware for line in losses("layernorm", **others)]
    cell = cells(published(*losses("baseline"), *layernorm), "figure1")["layernorm", "loss_minute_35"]
    assert (cell.state, cell.ours) == ("not measured", None)
    assert "by seed, impl and machine" in cell.detail


def test_at_a_smaller_size_the_papers_steps_mean_nothing(published):
    found = cells(published(*losses("baseline", size="small")), "figure1", "small")
    for column in ("loss_step_3000", "loss_minute_35"):
        cell = found["baseline", column]
        assert (cell.state, cell.ours, cell.verdict.outcome) == ("not measured", None, "not tested")
        assert cell.detail == "the paper's steps mean the same at size=paper only"


def test_nothing_is_read_beyond_what_was_logged_or_from_a_loss_in_other_units(published):
    short = lines("table2", "baseline", "train/token_loss", [1000, 2000], [9.0, 8.0])
    per_sentence = lines("table2", "layernorm", "train/loss", STEPS, [180.0] * len(STEPS))
    found = cells(published(*short, *per_sentence), "figure1")
    assert {found[arm, "loss_step_3000"].state for arm in ("baseline", "layernorm")} == {"not measured"}


def test_bleu_is_read_at_the_papers_validations(published):
    steps = [30_000 * n for n in range(1, 33)]
    found = cells(published(*lines("figure4", "rmsnorm", "valid/bleu", steps, range(1, 33))), "figure4")
    assert [round(found["rmsnorm", f"point_{n}"].ours.mean, 6) for n in (10, 20, 29, 32)] == [
        10.02,
        20.02,
        29.02,
        32.02,
    ]
    assert found["rmsnorm", "point_0"].state == "not measured"


def shares(plan, left_out=()):
    content = {"task": "rnnsearch", "data": "multi30k", "primary": "valid/bleu", "direction": "max", "size": "small"}
    for place, arm in enumerate(plan.arms):
        for seed in (1, 2, 3):
            if (arm, seed) not in left_out:
                metrics = {"valid/bleu": 20.0 + (place * 3 + seed) % 10}
                yield run_line(arm, plan="figure3", seed=seed, metrics=metrics, **content)


def test_the_extremes_over_all_shares_are_taken_seed_by_seed_at_any_size(published):
    plan = load_plan("figure3")
    found = cells(published(*shares(plan, {("p_0.4", 2)})), "figure3", "small")
    assert set(found) == {("prmsnorm", "lowest"), ("prmsnorm", "highest")}
    lowest, highest = found["prmsnorm", "lowest"], found["prmsnorm", "highest"]
    assert (lowest.seeds, lowest.ours.mean, highest.ours.mean) == ((1, 3), 20.0, 29.0)
    assert lowest.verdict.outcome == "not tested"
    assert lowest.command == "python -m rmsrepro.sweep plan=figure3 size=small seeds=1,2,3"


def test_an_extreme_is_taken_once_a_seed_however_many_arms_and_runs_there_are(published):
    plan, taken = load_plan("figure3"), []
    index = build_index(published(*shares(plan)), None)
    reading = OverArms("valid/bleu", lambda values: taken.append(1) or max(values))
    column = next(iter(load_table("figure3").columns.values()))
    found = {run.seed: read_off(reading, column, run, plan, index) for run in index.runs}
    assert set(found) == {1, 2, 3}
    assert len(index.runs) == 3 * len(plan.arms)
    assert len(taken) == 3


def test_a_share_without_a_run_leaves_the_extremes_open(published):
    plan = load_plan("figure3")
    cell = cells(published(*shares(plan, {("p_0.4", seed) for seed in (1, 2, 3)})), "figure3", "small")
    assert cell["prmsnorm", "lowest"].state == "not measured"


@pytest.mark.parametrize(
    ("at", "value"), [(100, 1.0), (110, 1.5), (120, 2.0), (99, None), (401, None), (300, None), (400, 4.0)]
)
def test_values_are_joined_within_the_logged_range_where_they_lie_close(at, value):
    assert value_at([100, 120, 400], [1.0, 2.0, 4.0], at) == value


def test_a_thinned_log_can_still_be_read_at_its_start():
    kept = thin([(50 * n, 0.1 * n, 10.0 - n / 3000) for n in range(1, 30_001)])
    steps, _, values = zip(*kept, strict=True)
    assert value_at(steps, values, 3_010) == pytest.approx(10.0 - 3_010 / 50 / 3000)
    assert value_at(steps, values, 1_200_010) is not None
