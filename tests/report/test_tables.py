import re
from importlib.util import find_spec

import pytest
from made_up import cell, run_line, table10

from rmsrepro.report import csv_table, markdown
from rmsrepro.report.html.signs import standing_of
from rmsrepro.report.html.words import places
from rmsrepro.report.overview import tally
from rmsrepro.report.runs_index import Index, build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.report.text import ours
from rmsrepro.sweep.plan import load_plan


def seeds(arm, *errors, **changes):
    return [run_line(arm, seed=seed, error=error, **changes) for seed, error in enumerate(errors, start=1)]


def test_with_no_runs_every_cell_says_not_measured_and_how_to_measure_it():
    tables = build_tables(load_plan("table10"), Index())
    assert [table.size for table in tables] == ["paper"]
    found = cell(tables, "rmsnorm")
    assert (found.state, found.ours, found.claim.printed) == ("not measured", None, "8.83")
    assert found.command == "python -m rmsrepro -m task=cifar10 size=paper norm=rmsnorm seed=1,2,3"
    # No command is named that is not there.
    assert bool(cell(tables, "rmsnorm", "time").command) == bool(find_spec("rmsrepro.bench.steps"))


def test_a_command_names_the_seeds_that_were_run(published):
    lines = [run_line("rmsnorm", seed=seed, error=0.09) for seed in (12, 11)]
    lines.append(run_line("rmsnorm", seed=13, state="diverged"))
    command = cell(table10(published(*lines)), "rmsnorm").command
    assert command == "python -m rmsrepro -m task=cifar10 size=paper norm=rmsnorm seed=11,12,13"


def test_what_is_too_costly_or_has_no_data_says_so():
    costly = build_tables(load_plan("table2"), Index())[0].cells[0]
    assert costly.state == "too costly"
    assert "1.5 million steps" in costly.detail
    assert build_tables(load_plan("figure5"), Index())[0].cells[0].state == "data unavailable"


def test_three_seeds_in_the_papers_setting_give_a_verdict_with_its_rule_and_n(published):
    found = cell(table10(published(*seeds("rmsnorm", 0.0870, 0.0890, 0.0880))), "rmsnorm")
    assert found.ours.mean == pytest.approx(8.80)
    assert (found.verdict.outcome, found.verdict.rule, found.verdict.n) == ("reproduced", "prediction interval", 3)
    assert (found.seeds, found.hardware, found.impl) == ((1, 2, 3), "TITAN", "torch")


def test_one_seed_has_no_spread_no_interval_and_no_verdict(published):
    lines = [*seeds("rmsnorm", 0.0870), run_line(state="failed", seed=2), run_line(state="failed", seed=3)]
    tables = table10(published(*lines))
    found = cell(tables, "rmsnorm")
    assert ours(found) == "8.70 ± n/a [n/a]"
    assert found.verdict.outcome == "not tested"
    assert found.detail == "2 failed"
    assert "nan" not in markdown.render(tables).lower().replace("nanograms", "")
    assert "± 0.0 " not in ours(found)


@pytest.mark.parametrize(
    ("state", "said"), [("diverged", "7 of 10 runs diverged"), ("oom", "7 of 10 runs ran out of memory")]
)
def test_no_arm_is_judged_by_the_runs_that_survived(published, state, said):
    ours = seeds("rmsnorm", 0.0870, 0.0890, 0.0880)
    lost = [run_line("rmsnorm", state=state, seed=seed) for seed in range(4, 11)]
    verdict = cell(table10(published(*ours, *lost)), "rmsnorm").verdict
    assert (verdict.outcome, verdict.reason, verdict.n) == ("not tested", said, 3)


def test_no_arm_is_compared_with_the_runs_that_survived(published):
    ours, theirs = (
        seeds("rmsnorm", 0.30, 0.31, 0.305, size="small"),
        seeds("layernorm", 0.33, 0.345, 0.34, size="small"),
    )
    lost = [run_line("layernorm", state="diverged", seed=seed, size="small") for seed in (4, 5, 6)]
    verdict = cell(table10(published(*ours, *theirs, *lost)), "rmsnorm").verdict
    assert (verdict.outcome, verdict.reason) == ("not tested", "LayerNorm: 3 of 6 runs diverged")


def test_a_finished_run_without_the_metric_is_counted_and_stops_the_verdict(published):
    lines = seeds("rmsnorm", 0.0870, 0.0890, 0.0880, 0.0885)
    del lines[3]["metrics"]["test/error"]
    lines[3] |= {"primary": "test/accuracy", "direction": "max"}
    found = cell(table10(published(*lines)), "rmsnorm")
    assert (found.ours.n, found.detail) == (3, "1 without test/error")
    assert (found.verdict.outcome, found.verdict.reason) == ("not tested", "1 of 4 runs without test/error")


@pytest.mark.parametrize(("state", "shown"), [("running", "running"), ("failed", "failed"), ("diverged", "failed")])
def test_runs_without_a_result_show_how_they_stand(published, state, shown):
    assert cell(table10(published(run_line(state=state, seed=1))), "rmsnorm").state == shown


def test_runs_at_a_smaller_size_get_at_best_direction_only_and_smoke_runs_nothing(published):
    lines = [*seeds("rmsnorm", 0.30, 0.31, 0.305, size="small"), *seeds("layernorm", 0.33, 0.345, 0.34, size="small")]
    folder = published(*lines, *seeds("rmsnorm", 0.9, 0.91, 0.92, size="tiny"))
    tables = table10(folder)
    assert [table.size for table in tables] == ["small"]
    assert cell(tables, "rmsnorm").verdict.outcome == "direction only"
    assert cell(table10(folder, "tiny"), "rmsnorm").verdict.reason == "a smoke run"


def test_the_papers_very_number_at_a_smaller_size_is_not_the_paper_reproduced(published):
    lines = [
        *seeds("rmsnorm", 0.0870, 0.0890, 0.0880, size="small"),
        *seeds("layernorm", 0.1041, 0.106, 0.105, size="small"),
    ]
    assert cell(table10(published(*lines)), "rmsnorm").verdict.outcome == "direction only"


def test_arms_on_different_data_are_not_compared(published):
    lines = [
        *seeds("rmsnorm", 0.30, 0.31, 0.305, size="small"),
        *seeds("layernorm", 0.33, 0.345, 0.34, size="small", data="mnist"),
    ]
    found = cell(table10(published(*lines)), "rmsnorm")
    assert (found.relative, found.relative_interval, found.verdict.outcome) == (None, None, "not tested")
    assert found.detail == "not compared with layernorm, which is on mnist"


def test_the_best_is_not_chosen_across_data(published):
    lines = [*seeds("rmsnorm", 0.3), *seeds("layernorm", 0.1, data="mnist"), *seeds("batchnorm", 0.35)]
    assert [cell.arm for cell in table10(published(*lines))[0].cells if cell.best_ours] == ["rmsnorm"]


def checksums(value):
    return {"data_checksums": {"train": f"sha256:{value}"}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (checksums("a"), checksums("b")),
        ({"facts": {"features": "mobilenetv2 1280"}}, {"facts": {"features": "vgg 4096"}}),
    ],
)
def test_other_contents_under_one_name_share_no_mean_and_are_not_compared(published, one, other):
    four = [0.30, 0.31, 0.305, 0.302]
    lines = [line | (one if line["seed"] < 4 else other) for line in seeds("rmsnorm", *four, size="small")]
    lines += [line | other for line in seeds("layernorm", 0.33, 0.345, 0.34, size="small")]
    index = build_index(published(*lines), None)
    found = cell(build_tables(load_plan("table10"), index), "rmsnorm")
    assert found.seeds == (1, 2, 3)
    assert "1 runs on other data are left out" in index.notes[0]
    assert found.verdict.reason == "not compared with layernorm, whose data of that name have other contents"
    assert index.contradictions == []


def test_a_file_that_only_some_runs_had_and_what_differs_by_seed_make_no_other_data(published):
    lines = [
        line | checksums("a") | {"facts": {"scores": line["seed"]}}
        for line in seeds("rmsnorm", 0.30, 0.31, 0.305, 0.302)
    ]
    lines[1]["data_checksums"] = {"train": "sha256:a", "test": "sha256:c"}
    del lines[2]["data_checksums"]
    lines[3] |= {"state": "diverged"}
    index = build_index(published(*lines), None)
    assert [run.seed for run in index.runs] == [1, 2, 3, 4]
    assert index.notes == []


def test_test_and_validation_scores_of_one_arm_never_share_a_mean(published):
    both, valid = {"test/caption_r1": 50.0, "valid/caption_r1": 10.0}, {"valid/caption_r1": 12.0}
    content = {"plan": "table7", "task": "order_embedding", "data": "flickr8k", "size": "small", "direction": "max"}
    lines = [
        run_line("rmsnorm", seed=seed, metrics=metrics, primary="valid/caption_r1", **content)
        for seed, metrics in enumerate((both, valid, valid))
    ]
    index = build_index(published(*lines), None)
    found = cell(build_tables(load_plan("table7"), index), "rmsnorm", "caption_r1")
    assert (found.ours.n, found.ours.mean, found.metric) == (3, pytest.approx(34 / 3), "valid/caption_r1")


def test_a_metric_that_stands_in_for_the_papers_is_named_beside_its_data(published):
    content = {"metrics": {"valid/caption_r1": 12.0}, "primary": "valid/caption_r1", "direction": "max", "seed": 1}
    lines = [run_line("rmsnorm", plan="table7", task="order_embedding", data="flickr8k", size="small", **content)]
    tables = build_tables(load_plan("table7"), build_index(published(*lines), None))
    assert "| flickr8k: valid/caption_r1 |" in markdown.render(tables)
    assert places(cell(tables, "rmsnorm", "caption_r1")) == "flickr8k: valid/caption_r1 · torch · TITAN"
    assert places(cell(table10(published(run_line(seed=1))), "rmsnorm")) == "cifar10 · torch · TITAN"


def test_sizes_never_share_a_table(published):
    folder = published(*seeds("rmsnorm", 0.30, 0.31, 0.32, size="small"), *seeds("rmsnorm", 0.088, 0.087, 0.089))
    tables = table10(folder)
    assert [table.size for table in tables] == ["paper", "small"]
    assert [len({cell.size for cell in table.cells}) for table in tables] == [1, 1]


def test_a_per_cent_under_a_fractions_name_is_refused_and_never_averaged(published):
    lines = seeds("rmsnorm", 0.0870, 0.0890, 0.0880)
    lines[1]["metrics"]["test/error"] = 8.9
    index = build_index(published(*lines), None)
    found = cell(build_tables(load_plan("table10"), index), "rmsnorm")
    assert (found.state, found.ours) == ("contradictory", None)
    assert "8.9 is no value in the declared unit (fraction: 0 to 1)" in index.contradictions[0]


def test_a_declared_unit_converts(published):
    lines = seeds("rmsnorm", 0.0870, 0.0890, 0.0880)
    lines[1]["metrics"]["test/error"] = 8.9
    lines[1]["units"] = {"test/error": "%"}
    assert cell(table10(published(*lines)), "rmsnorm").ours.mean == pytest.approx(8.80)


@pytest.mark.parametrize("units", [["%"], "%", {"test/error": ["%"]}])
def test_units_that_cannot_be_read_are_a_contradiction_of_one_line(published, units):
    index = build_index(published(run_line("rmsnorm", seed=1) | {"units": units}), None)
    assert cell(build_tables(load_plan("table10"), index), "rmsnorm").state == "contradictory"
    assert "unit" in index.contradictions[0]


def test_a_run_that_calls_higher_better_where_the_table_calls_lower_better_is_refused(published):
    index = build_index(published(*seeds("rmsnorm", 0.08, 0.09, direction="max")), None)
    assert cell(build_tables(load_plan("table10"), index), "rmsnorm").state == "contradictory"
    assert "the table says min" in index.contradictions[0]


def test_the_best_follows_the_declared_direction_and_ties_are_both_best(published):
    lines = [*seeds("rmsnorm", 0.0870), *seeds("layernorm", 0.1049), *seeds("batchnorm", 0.087001)]
    tables = table10(published(*lines))
    assert [cell.arm for cell in tables[0].cells if cell.best_ours] == ["batchnorm", "rmsnorm"]
    assert [cell.arm for cell in tables[0].cells if cell.best_paper] == ["batchnorm", "baseline"]
    bleu = build_tables(load_plan("table2"), Index())[0].cells
    assert [cell.arm for cell in bleu if cell.best_paper and cell.column == "test14"] == ["layernorm", "prmsnorm"]


def test_the_deviation_is_the_same_in_every_format(published):
    tables = table10(published(*seeds("rmsnorm", 0.0010, 0.0012, 0.0030)))
    assert cell(tables, "rmsnorm").ours.sd == pytest.approx(0.1102, abs=5e-5)
    assert "± 0.110 " in markdown.render(tables)
    assert "0.1101514" in csv_table.render(tables)
    assert "divisor n - 1" in markdown.render(tables)


def test_a_property_that_was_measured_is_judged_as_a_fact(published):
    line = {"kind": "measurement", "schema": 1, "plan": "table1", "arm": "rmsnorm", "column": "w_matrix_rescale"}
    folder = published(line | {"value": 1, "command": "python -m pytest"})
    tables = build_tables(load_plan("table1"), build_index(folder, None))
    assert cell(tables, "rmsnorm", "w_matrix_rescale").verdict.outcome == "reproduced"
    assert cell(tables, "layernorm", "w_matrix_rescale").state == "not measured"


@pytest.mark.parametrize("value", [0.5, 2, "NaN"])
def test_a_property_that_is_neither_yes_nor_no_is_a_contradiction_and_no_verdict(published, value):
    line = {"kind": "measurement", "schema": 1, "plan": "table1", "arm": "rmsnorm", "column": "w_matrix_rescale"}
    index = build_index(published(line | {"value": value, "command": "c"}), None)
    found = cell(build_tables(load_plan("table1"), index), "rmsnorm", "w_matrix_rescale")
    assert (found.state, found.verdict) == ("contradictory", None)
    assert "(yes/no: 0 or 1)" in index.contradictions[0]


def test_a_property_with_two_values_is_contradictory_and_not_judged(published):
    line = {"kind": "measurement", "schema": 1, "plan": "table1", "arm": "rmsnorm", "column": "w_matrix_rescale"}
    lines = [line | {"value": value, "command": "c"} for value in (1, 0)]
    found = cell(build_tables(load_plan("table1"), build_index(published(*lines), None)), "rmsnorm", "w_matrix_rescale")
    assert (found.state, found.verdict) == ("contradictory", None)


@pytest.mark.parametrize("ends", ["diverged diverged done", "diverged diverged diverged"])
@pytest.mark.parametrize(
    ("size", "data", "outcome"), [("paper", "wmt14_en_de", "reproduced"), ("small", "multi30k", "direction only")]
)
def test_a_model_that_fails_in_the_paper_and_here_stands_by_its_failing(published, ends, size, data, outcome):
    bleu = {"metrics": {"newstest2014/bleu": 0.2}, "primary": "newstest2014/bleu", "direction": "max", "data": data}
    common = {"plan": "table4", "size": size, "task": "transformer"}
    lines = [run_line("baseline", state=end, seed=seed, **common, **bleu) for seed, end in enumerate(ends.split())]
    lines.append(run_line("layernorm", seed=1, **common, **bleu | {"metrics": {"newstest2014/bleu": 26.0}}))
    tables = build_tables(load_plan("table4"), build_index(published(*lines), None))
    found = cell(tables, "baseline", "test14")
    assert (found.state, found.verdict.outcome, standing_of(found)) == ("measured", outcome, outcome)
    assert tally(tables)[0].outcomes[outcome] >= 1


def test_how_bleu_was_computed_and_of_which_commits_is_said(published):
    def line(seed, commit, version):
        bleu = {"metrics": {"test/bleu": 36.0 + seed}, "primary": "test/bleu", "direction": "max", "data": "multi30k"}
        facts = {"scores": {"val": {"bleu_signature": f"nrefs:1|tok:none|version:{version}"}}}
        common = {"plan": "table4", "size": "small", "task": "transformer", "commit": commit}
        return run_line(seed=seed, **common, **bleu, facts=facts)

    def shown(*lines):
        return cell(build_tables(load_plan("table4"), build_index(published(*lines), None)), "rmsnorm", "test14")

    same = shown(line(1, "c0ffee", "2.6.0"), line(2, "c0ffee", "2.6.0"))
    assert (same.detail, same.commits) == ("sacrebleu nrefs:1|tok:none|version:2.6.0", ("c0ffee",))
    other = shown(line(1, "c0ffee", "2.6.0"), line(2, "decaf", "2.5.1"))
    assert other.detail.startswith("runs of 2 commits; sacrebleu nrefs:1|tok:none|version:2.5.1, nrefs:1|tok:none")
    beside = line(1, "c0ffee", "2.6.0") | {"arm": "layernorm"}
    assert shown(line(1, "decaf", "2.6.0"), beside).detail.startswith(
        "runs of 2 commits, those of LayerNorm among them;"
    )


def test_a_run_that_broke_where_another_of_its_seed_is_done_is_noted(published):
    folder = published(*seeds("rmsnorm", 0.08, 0.09), run_line("rmsnorm", state="diverged", seed=2))
    (note,) = build_index(folder, None).notes
    assert re.match(r"table10/rmsnorm, size paper, seed 2: .* ended as diverged; .*, which is done, is shown", note)


def test_quoted_rows_are_shown_and_not_judged():
    tables = build_tables(load_plan("table7"), Index())
    found = cell(tables, "layernorm_ba", "caption_r1")
    assert (found.claim.printed, found.verdict, found.detail) == ("48.5", None, "quoted from Ba et al. 2016")
    assert sum(line.claims for line in tally(tables)) == 32
    labels = re.findall(r"^\| (OE \+ Baseline[^|]*) \| 4", markdown.render(tables), re.MULTILINE)
    assert labels[:3] == ["OE + Baseline (Vendrov et al. 2016)", "OE + Baseline (Ba et al. 2016)", "OE + Baseline"]


def test_a_table_that_the_paper_does_not_have_shows_numbers_and_claims_nothing(published):
    content = {"metrics": {"test/accuracy": 0.985}, "primary": "test/accuracy", "direction": "max", "data": "mnist"}
    lines = [run_line("rmsnorm", plan="mnist", size="small", task="mnist", seed=seed, **content) for seed in (1, 2)]
    tables = build_tables(load_plan("mnist"), build_index(published(*lines), None))
    assert cell(tables, "rmsnorm", "test_accuracy").ours.mean == pytest.approx(98.5)
    assert "extension" in markdown.render(tables)
    assert tally(tables) == []
