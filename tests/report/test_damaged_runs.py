"""Run directories and record files that are not what they say: named in one line, never shown, nothing lost."""

import json
import shutil

import pytest
import yaml
from made_up import cell, make_run, run_line, timing_line

from rmsrepro import conf
from rmsrepro.errors import DataError
from rmsrepro.report import run_dirs
from rmsrepro.report.cli import main
from rmsrepro.report.publish import publish
from rmsrepro.report.run_dirs import hardware_name, read_run_dirs
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.sweep.plan import load_plan


@pytest.mark.parametrize("other", [["norm=layernorm", "seed=1"], ["norm=rmsnorm", "seed=2"]])
def test_a_result_of_another_run_is_a_note_and_no_number(tmp_path, other):
    run = make_run(tmp_path, "norm=rmsnorm", "seed=1")
    shutil.copy(make_run(tmp_path / "other", *other).result_json, run.result_json)
    records, (complaint,) = read_run_dirs(tmp_path)
    assert records == []
    assert "config.yaml says" in complaint


def test_curves_whose_time_falls_are_not_published_and_the_run_is_shown_without(tmp_path):
    run = make_run(tmp_path / "runs", "norm=rmsnorm", "seed=1")
    rows = [{"step": step, "time_s": 9.0 - step, "train/loss": 2.0} for step in (1, 2)]
    run.metrics_jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"step 2 at 7\.0 s, before step 1 at 8\.0 s"):
        publish("table10", tmp_path / "runs", tmp_path / "published")
    index = build_index(tmp_path / "published", tmp_path / "runs")
    assert index.run_curves(index.runs[0]) == []
    assert "step 2 at 7.0 s" in index.notes[-1]


def test_a_log_that_cannot_be_read_is_not_taken_for_a_folder_of_records_that_cannot_be_written(tmp_path, capsys):
    run = make_run(tmp_path / "runs", "norm=rmsnorm", "seed=1")
    run.metrics_jsonl.symlink_to("/proc/self/mem")  # its first page is unreadable, for root too
    where = [f"runs.root={tmp_path / 'runs'}", "--published", str(tmp_path / "published")]
    assert main(["publish", "plan=table10", *where]) == 2
    assert capsys.readouterr().err.startswith(f"error: {run.metrics_jsonl}: cannot be read")


@pytest.mark.parametrize("name", ["runs-table10.jsonl", "curves-table10.jsonl"])
def test_publishing_loses_no_line_of_another_kind(tmp_path, published, name):
    make_run(tmp_path / "runs", "norm=rmsnorm", "seed=1").metrics_jsonl.write_text("")
    folder = published(timing_line("rmsnorm", [1.0, 1.1]), name=name)
    before = (folder / name).read_bytes()
    if name.startswith("curves"):
        rows = {"step": 1, "time_s": 1.0, "train/loss": 2.0}
        next((tmp_path / "runs").glob("*/*/*/metrics.jsonl")).write_text(json.dumps(rows) + "\n")
    with pytest.raises(DataError, match=f"{name}:1: publishing would lose this line"):
        publish("table10", tmp_path / "runs", folder)
    assert (folder / name).read_bytes() == before


def test_a_machine_whose_cores_nobody_counted_has_no_number_of_cores():
    assert hardware_name({"cpu": "TITAN"}, None) == "TITAN"


@pytest.fixture
def own_plan(tmp_path, monkeypatch):
    """Return a function that adds conf/plan/mine.yaml with these arms of CIFAR-10."""

    def write(**arms):
        shutil.copytree(conf.conf_dir(), tmp_path / "conf")
        text = yaml.safe_dump({"title": "t", "task": "cifar10", "arms": arms})
        (tmp_path / "conf" / "plan" / "mine.yaml").write_text(text)
        monkeypatch.setattr(conf, "conf_dir", lambda: tmp_path / "conf")
        monkeypatch.setattr(run_dirs, "_plans_of", run_dirs._plans_of.__wrapped__)

    return write


def test_a_run_of_two_plans_counts_for_both(tmp_path, own_plan):
    run = make_run(tmp_path / "runs", "norm=rmsnorm", "seed=1")
    run.metrics_jsonl.write_text('{"step": 1, "time_s": 1.0, "train/loss": 2.0}\n')
    own_plan(same=["norm=rmsnorm"])
    index = build_index(tmp_path / "none", tmp_path / "runs")
    assert {(run.plan, run.arm) for run in index.runs} == {("table10", "rmsnorm"), ("mine", "same")}
    assert [curve.plan for run in index.runs for curve in index.run_curves(run)] == [run.plan for run in index.runs]
    for plan in ("mine", "table10"):
        assert publish(plan, tmp_path / "runs", tmp_path / "published")[1] == 1


def test_a_run_of_an_arm_that_leaves_the_norm_to_the_default_is_that_arms(tmp_path, own_plan):
    make_run(tmp_path / "runs", "norm.eps=0.5")
    own_plan(wide=["norm.eps=0.5"])
    records, complaints = read_run_dirs(tmp_path / "runs")
    assert ([(run.plan, run.arm) for run in records], complaints) == ([("mine", "wide")], [])


@pytest.mark.parametrize(
    ("other", "metrics"),
    [
        ("done", {"metrics": {"valid/other": 1.0}, "primary": "valid/other"}),
        ("oom", {}),
        ("failed", {}),
        ("running", {}),
    ],
)
def test_a_model_is_not_said_to_fail_while_any_of_its_runs_has_no_score(published, other, metrics):
    lines = [*failing(1, 2, 3), run_line("baseline", state=other, seed=4) | OF_TABLE4 | metrics]
    found = baseline(published(*lines, trained()))
    assert (found.outcome, found.reason) == ("not tested", "1 of 4 runs have no score")


def test_a_model_is_not_said_to_fail_beside_one_that_failed_too_or_has_not_run(published):
    assert baseline(published(*failing(1, 2, 3), trained())).outcome == "direction only"
    for others in ([], [trained(0.3)]):
        found = baseline(published(*failing(1, 2, 3), *others))
        assert (found.outcome, found.reason) == ("not tested", "no run of LayerNorm is known to have trained")


def test_a_model_is_not_said_to_fail_where_its_records_contradict_one_another(published):
    twice = [run_line("baseline", seed=3) | OF_TABLE4 | bleu(value) for value in (20.0, 0.2)]
    found = baseline(published(*failing(1, 2), *twice, trained()))
    assert (found.outcome, found.reason) == ("not tested", "records of baseline contradict one another")


def test_an_arm_is_not_judged_beside_a_model_that_the_paper_could_not_train(published):
    lines = [run_line("baseline", seed=seed) | OF_TABLE4 | bleu(20.0 + seed / 10) for seed in (1, 2, 3)]
    lines += [run_line("layernorm", seed=seed) | OF_TABLE4 | bleu(36.0 + seed / 10) for seed in (1, 2, 3)]
    found = baseline(published(*lines), arm="layernorm")
    assert (found.outcome, found.reason) == ("not tested", "the paper has no number to compare with")


OF_TABLE4 = {"plan": "table4", "task": "transformer", "data": "multi30k", "size": "small"}


def bleu(value):
    return {"metrics": {"newstest2014/bleu": value}, "primary": "newstest2014/bleu", "direction": "max"}


def failing(*seeds):
    return [run_line("baseline", state="diverged", seed=seed) | OF_TABLE4 for seed in seeds]


def trained(value=26.0):
    return run_line("layernorm", seed=1) | OF_TABLE4 | bleu(value)


def baseline(folder, arm="baseline"):
    tables = build_tables(load_plan("table4"), build_index(folder, None), "small")
    return cell(tables, arm, "test14").verdict
