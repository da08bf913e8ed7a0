import csv
import json
import os
import re
from threading import Thread

import pytest
from made_up import make_run, run_line, timing_line

from rmsrepro.errors import DataError
from rmsrepro.report.cli import main
from rmsrepro.report.places import updating
from rmsrepro.report.publish import publish
from rmsrepro.report.records import read_records
from rmsrepro.report.run_dirs import published_command, read_run_dirs
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.sweep.plan import load_plan


def test_a_run_belongs_to_the_arm_whose_configuration_it_has(tmp_path):
    make_run(tmp_path, "norm=rmsnorm", "seed=2")
    make_run(tmp_path, "norm=rmsnorm", "train.lr=0.5")
    records, complaints = read_run_dirs(tmp_path)
    assert complaints == [f"{tmp_path}: runs that are no plan's, and are shown nowhere: 1"]
    assert [(run.plan, run.arm, run.seed, run.hardware) for run in records] == [
        ("table10", "rmsnorm", 2, "TITAN CPU, 2 cores")
    ]


def test_published_runs_hold_the_result_the_plan_and_the_command_but_no_names_of_machines_or_paths(tmp_path):
    make_run(tmp_path / "runs", "norm=rmsnorm", "seed=1", error=0.8)
    make_run(tmp_path / "runs", "norm=none", "seed=1", state="diverged")
    make_run(tmp_path / "runs", "norm=layernorm", "seed=1", state="failed")
    path, count = publish("table10", tmp_path / "runs", tmp_path / "published")
    text = path.read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert count == len(rows) == 2
    assert {row["arm"]: row["state"] for row in rows} == {"baseline": "diverged", "rmsnorm": "done"}
    done = rows[1]
    assert done["metrics"]["test/error"] == 0.8
    assert [row["data_checksums"] for row in rows] == [{"train.bin": "sha256:c1fa"}] * 2
    assert done["command"] == "python -m rmsrepro task=cifar10 size=tiny norm=rmsnorm seed=1"
    assert (done["plan"], done["hardware"]) == ("table10", "TITAN CPU, 2 cores")
    assert "my-laptop" not in text
    assert "/home" not in text


def test_publishing_again_adds_new_seeds_and_replaces_the_same_ones(tmp_path):
    make_run(tmp_path / "one", "norm=rmsnorm", "seed=1", error=0.8)
    publish("table10", tmp_path / "one", tmp_path)
    make_run(tmp_path / "two", "norm=rmsnorm", "seed=1", error=0.7)
    make_run(tmp_path / "two", "norm=rmsnorm", "seed=2", error=0.6)
    path, count = publish("table9", tmp_path / "two", tmp_path)
    records, _ = read_records(path)
    assert count == 2
    assert path.name == "runs-table10.jsonl"
    assert [record.result["metrics"]["test/error"] for record in records] == [0.7, 0.6]


def test_one_run_made_with_other_threads_is_no_contradiction_and_is_published_once(tmp_path):
    for threads, state in (("1", "done"), ("2", "done"), ("3", "diverged")):
        run = make_run(
            tmp_path / "runs", "norm=rmsnorm", "seed=1", f"train.threads={threads}", state=state, config_hash=threads
        )
        change_json(run.manifest_json, started=f"2026-01-0{threads}T00:00:00+00:00")
        run.metrics_jsonl.write_text(f'{{"step": 1, "time_s": 1.0, "train/loss": {threads}.0}}\n')
        if state == "done":
            change_json(run.result_json, metrics={"test/error": 0.1 * int(threads), "test/accuracy": 0.5})
    assert build_index(tmp_path / "none", tmp_path / "runs").contradictions == []
    for _ in range(2):
        path, count = publish("table10", tmp_path / "runs", tmp_path)
        assert count == 1
        assert json.loads(path.read_text())["metrics"]["test/error"] == 0.2
        assert json.loads((tmp_path / "curves-table10.jsonl").read_text())["values"] == [2.0]
    assert build_index(tmp_path, None).contradictions == []


def test_publishing_an_older_or_a_broken_run_does_not_replace_a_finished_one(tmp_path):
    make_run(tmp_path / "one", "norm=rmsnorm", "seed=1", error=0.8)
    older = make_run(tmp_path / "two", "norm=rmsnorm", "seed=1", error=0.7)
    change_json(older.manifest_json, started="2025-01-01T00:00:00+00:00")
    make_run(tmp_path / "three", "norm=rmsnorm", "seed=1", state="diverged")
    for root in ("one", "two", "three"):
        path, count = publish("table10", tmp_path / root, tmp_path)
    assert count == 1
    assert json.loads(path.read_text())["metrics"]["test/error"] == 0.8


def test_runs_of_other_data_under_the_same_name_do_not_replace_published_ones(tmp_path):
    make_run(tmp_path / "one", "norm=rmsnorm", "seed=1", error=0.8)
    path, _ = publish("table10", tmp_path / "one", tmp_path)
    before = path.read_bytes()
    for seed in (1, 2):
        root = tmp_path / f"seed{seed}"
        other = make_run(root, "norm=rmsnorm", f"seed={seed}", error=0.1)
        change_json(other.manifest_json, data_checksums={"train.bin": "sha256:0ff"})
        with pytest.raises(DataError, match="rmsnorm was recorded with other data under the same name, cifar10"):
            publish("table10", root, tmp_path)
    make_run(root, "norm=rmsnorm", "seed=1", error=0.8)
    with pytest.raises(DataError, match="unlike data under one name, cifar10; keep those of one below"):
        publish("table10", root, tmp_path / "empty")
    assert path.read_bytes() == before


def test_who_publishes_second_waits_until_the_first_has_written(tmp_path):
    make_run(tmp_path / "runs", "norm=rmsnorm", "seed=1", error=0.8)
    second = Thread(target=publish, args=("table10", tmp_path / "runs", tmp_path / "published"))
    with updating(tmp_path / "published"):
        second.start()
        second.join(0.5)
        assert second.is_alive()
        assert not (tmp_path / "published/runs-table10.jsonl").exists()
    second.join(10)
    assert (tmp_path / "published/runs-table10.jsonl").exists()


def test_nothing_to_publish_is_said_in_one_line(tmp_path):
    with pytest.raises(DataError, match="no finished run of plan table10"):
        publish("table10", tmp_path, tmp_path)


def test_paths_logging_and_device_stay_out_of_a_published_command():
    local = "data.root=/data track.mode=offline track=none device=cpu tag=x ++data.root=/data +tag=x ++runs.root=/r"
    local += " ++track.mode=offline hydra.run.dir=/home/me hydra/launcher=basic"
    assert published_command(f"python -m rmsrepro norm=rmsnorm {local}") == "python -m rmsrepro norm=rmsnorm"


def test_a_run_that_is_published_and_still_at_hand_counts_once(tmp_path):
    for seed in (1, 2, 3):
        make_run(tmp_path / "runs", "norm=rmsnorm", f"seed={seed}", error=0.8 + seed / 100)
    publish("table10", tmp_path / "runs", tmp_path)
    index = build_index(tmp_path, tmp_path / "runs")
    assert [run.seed for run in index.runs] == [1, 2, 3]
    assert index.contradictions == []


def test_two_results_of_the_same_run_are_a_contradiction(published):
    folder = published(run_line(seed=1, error=0.08), run_line(seed=1, error=0.09))
    index = build_index(folder, None)
    assert len(index.runs) == 1
    assert len(index.contradictions) == 1
    assert "runs.jsonl:1 and runs.jsonl:2" in index.contradictions[0]


def test_an_arm_whose_records_contradict_one_another_is_not_judged_nor_compared_with(published):
    errors = {"rmsnorm": (0.088, 0.089, 0.087), "layernorm": (0.104, 0.105, 0.1045)}
    lines = [run_line(arm, seed=n, error=error) for arm, found in errors.items() for n, error in enumerate(found, 1)]
    folder = published(*lines, run_line("layernorm", seed=1, error=0.2))
    (table,) = build_tables(load_plan("table10"), build_index(folder, None))
    reasons = {cell.arm: cell.verdict.reason for cell in table.cells if cell.state == "measured"}
    assert reasons == dict.fromkeys(errors, "records of layernorm contradict one another")


def test_a_newer_run_of_another_commit_takes_the_earlier_ones_place_and_that_is_noted(published):
    newer = run_line(seed=1, error=0.09, commit="decaf") | {"started": "2026-02-01T00:00:00+00:00"}
    index = build_index(published(newer, run_line(seed=1, error=0.08)), None)
    assert [run.commit for run in index.runs] == ["decaf"]
    (note,) = index.notes
    assert note.startswith(
        "table10/rmsnorm, size paper, seed 1: runs of another commit, machine or number of threads are"
    )


@pytest.mark.parametrize(("plan", "words"), [("table1", "bench invariance --publish"), ("table10", "no finished run")])
def test_publishing_what_is_not_there_says_where_it_comes_from(tmp_path, plan, words):
    with pytest.raises(DataError, match=words):
        publish(plan, tmp_path, tmp_path)


FACT = {"kind": "measurement", "schema": 1, "plan": "table1", "arm": "rmsnorm", "column": "dataset_rescale", "value": 1}


@pytest.mark.parametrize(
    ("line", "other", "words"),
    [
        (timing_line("rmsnorm", [1.0]), {"block_ms": [2.0]}, "different times for the same turn of session a"),
        (FACT | {"command": "c"}, {"value": 0}, "give dataset_rescale two values"),
    ],
)
def test_two_times_of_one_turn_and_two_values_of_one_fact_are_contradictions(published, line, other, words):
    assert build_index(published(line, line), None).contradictions == []
    (complaint,) = build_index(published(line, line | other), None).contradictions
    assert "runs.jsonl:1 and runs.jsonl:2" in complaint
    assert words in complaint


def test_a_fact_that_no_table_has_a_place_for_is_noted(published):
    lines = [FACT | {"command": "c", **change} for change in ({"arm": "dyt"}, {"column": "c"}, {"plan": "mnist"})]
    notes = build_index(published(*lines), None).notes
    assert len(notes) == 3
    assert "table1/dyt: no table has a place for dataset_rescale (runs.jsonl:1)" in notes


def test_the_same_run_at_another_commit_is_no_contradiction_and_the_newest_counts(published):
    old, new = run_line(seed=1, error=0.08), run_line(seed=1, error=0.09, commit="decade")
    new["started"] = "2026-02-01T00:00:00+00:00"
    index = build_index(published(new, old), None)
    assert index.contradictions == []
    assert [run.commit for run in index.runs] == ["decade"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 2}, "schema 2"),
        ({"kind": "hunch"}, "kind 'hunch'"),
        ({"state": "won"}, "state 'won'"),
        ({"direction": "up"}, "result.direction"),
        ({"plan": None}, "plan None"),
        ({"kind": "measurement", "column": "c", "value": 10**400}, "too large"),
        ({"size": "huge"}, "size 'huge'; known are tiny, small, paper"),
        ({"hardware": "\ud800"}, r"hardware '\ud800'; expected text"),
        ({"state": "diverged", "commit": 5}, "commit 5; expected text"),
        ({"state": "diverged", "message": {}}, "message {}; expected text"),
        ({"state": "diverged", "seed": 1.5}, "seed 1.5; expected a whole number"),
        ({"data_checksums": ["a"]}, "data_checksums ['a']; expected a mapping"),
        ({"data_checksums": {"a": 1}}, "a 1; expected text"),
        (timing_line("rmsnorm", []), "block_ms is empty"),
        (timing_line("rmsnorm", [1.0], conditions=[]), "conditions []; expected a mapping"),
        (
            timing_line("rmsnorm", [1.0], conditions={"sentinel_drift": "NaN"}),
            "sentinel_drift 'NaN'; expected a finite number",
        ),
        (timing_line("rmsnorm", [1.0], repeat=-1), "repeat -1; expected a whole number"),
        ({"kind": "timing", "session": "a", "block_ms": "123"}, "block_ms '123'; expected a list of numbers"),
        ({"kind": "curve", "metric": "m", "steps": "12"}, "steps '12'; expected a list of numbers"),
    ],
)
def test_a_committed_line_that_cannot_be_used_is_named_and_the_others_are_read(published, change, words):
    folder = published(run_line(seed=1) | change, run_line(seed=2))
    index = build_index(folder, None)
    assert [run.seed for run in index.runs] == [2]
    assert index.contradictions[0].startswith("runs.jsonl:1: ")
    assert words in index.contradictions[0]


@pytest.mark.parametrize("spoil", [lambda text: text[:-20], lambda text: text + ">>>>>>> mine\n"])
def test_a_committed_file_that_was_cut_or_merged_badly_is_named_and_its_other_lines_are_read(published, spoil):
    folder = published(run_line(seed=1), run_line(seed=2), run_line(seed=3))
    path = folder / "runs.jsonl"
    path.write_text(spoil(path.read_text()))
    index = build_index(folder, None)
    assert {1, 2} <= {run.seed for run in index.runs}
    (complaint,) = index.contradictions
    assert re.match(r"runs\.jsonl:[34]: expected a JSON object, found b'", complaint)


@pytest.mark.parametrize("ending", [b"\r\n", b"\n\n", b"\n \n"])
def test_committed_lines_may_have_a_byte_order_mark_other_line_ends_and_blank_lines(published, ending):
    folder = published(run_line(seed=1), run_line(seed=2))
    path = folder / "runs.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().rstrip().replace(b"\n", ending))
    index = build_index(folder, None)
    assert index.contradictions == []
    assert [run.seed for run in index.runs] == [1, 2]


def test_publishing_over_a_file_that_was_cut_short_is_refused_and_loses_nothing(tmp_path):
    make_run(tmp_path / "runs", "norm=rmsnorm", "seed=1", error=0.8)
    path, _ = publish("table10", tmp_path / "runs", tmp_path)
    path.write_text(path.read_text()[:-20])
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"runs-table10\.jsonl:1: expected a JSON object.*mend or remove the line"):
        publish("table10", tmp_path / "runs", tmp_path)
    assert path.read_bytes() == before


def test_a_time_that_is_not_positive_is_refused(published):
    index = build_index(published(timing_line("rmsnorm", [1.0, 0.0])), None)
    assert index.timings == []
    assert "not positive" in index.contradictions[0]


def test_a_broken_run_directory_is_a_note_and_stops_nothing(tmp_path):
    make_run(tmp_path, "norm=rmsnorm", "seed=1").manifest_json.write_text("{")
    make_run(tmp_path, "norm=rmsnorm", "seed=2")
    index = build_index(tmp_path / "nothing", tmp_path)
    assert [run.seed for run in index.runs] == [2]
    assert "manifest.json" in index.notes[0]
    assert build_tables(load_plan("table10"), index)[0].size == "tiny"


def change_json(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda run: run.config_yaml.write_text("seed: 1\ntask: [cifar10\n"), "config.yaml: not valid YAML"),
        (lambda run: run.config_yaml.write_text("seed: 1\ntask: ${cifar10\n"), "config.yaml: not valid YAML"),
        (lambda run: run.config_yaml.write_text("seed: 1\ntask: cifar10\n"), "config.yaml: task is missing or no"),
        (
            lambda run: run.config_yaml.write_text(run.config_yaml.read_text().replace("size: tiny", "size: huge")),
            "config.yaml: size is huge; allowed are tiny, small, paper",
        ),
        (lambda run: change_json(run.manifest_json, hardware=None), "manifest.json: hardware is missing or no mapping"),
        (lambda run: change_json(run.manifest_json, command=None), "manifest.json: command is missing or no text"),
        (
            lambda run: run.write_status("diverged") or change_json(run.manifest_json, git={"commit": 5}),
            "commit 5; expected text",
        ),
        (lambda run: change_json(run.manifest_json, started=5), "manifest.json: started is missing or no text"),
        (lambda run: run.result_json.write_text("[" * 100_000), "result.json: not valid JSON"),
        (lambda run: run.result_json.write_text("[]"), "result.schema"),
    ],
)
def test_a_foreign_run_directory_is_a_note_of_one_line_and_stops_nothing(tmp_path, spoil, words):
    spoil(make_run(tmp_path, "norm=rmsnorm", "seed=1"))
    make_run(tmp_path, "norm=rmsnorm", "seed=2")
    index = build_index(tmp_path / "nothing", tmp_path)
    assert [run.seed for run in index.runs] == [2]
    assert len(index.notes) == 1
    assert words in index.notes[0]
    assert "\n" not in index.notes[0]


def test_a_run_whose_folder_and_message_are_no_utf8_is_shown_with_its_curves_in_every_format(tmp_path, published):
    root = tmp_path / os.fsdecode(b"runs\xff")
    run = make_run(root, "norm=rmsnorm", "seed=1", state="failed")
    change_json(run.status_json, message="disk \udcff\r\nfull")
    run.metrics_jsonl.write_text('{"step": 1, "time_s": 1.0, "train/loss": 2.0}\n')
    make_run(root, "norm=rmsnorm", "seed=2").manifest_json.write_text("{")
    folder = published(run_line("layernorm", state="failed", size="tiny") | {"message": "disk \udcff\r\nfull"})
    where = ["plan=table10", "size=tiny", "--published", str(folder), f"runs.root={root}"]
    assert main([*where, "--out", str(tmp_path / "out")]) == 0
    assert main([*where, "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert 'href="runs%FF/' in page
    assert "training loss by step" in page.lower()
    assert "full" in (tmp_path / "out" / "table10.md").read_text()
    rows = list(csv.DictReader((tmp_path / "out" / "table10.csv").open(newline="")))
    assert {row["arm"]: row["detail"] for row in rows if "full" in row["detail"]} == {
        "layernorm": r"1 failed: disk \udcff full",
        "rmsnorm": r"1 failed: disk \udcff full",
    }


def test_nothing_is_published_of_runs_whose_curves_cannot_be(tmp_path):
    run = make_run(tmp_path / "runs", "norm=rmsnorm", "seed=1", error=0.8)
    run.metrics_jsonl.write_text('{"step": 1, "time_s": "NaN", "train/loss": 2.0}\n')
    with pytest.raises(DataError, match=r"metrics\.jsonl: .*step 1 at NaN s"):
        publish("table10", tmp_path / "runs", tmp_path / "published")
    assert list((tmp_path / "published").glob("*.jsonl")) == []


def test_records_that_cannot_be_written_are_one_line(tmp_path, capsys):
    make_run(tmp_path / "runs", "norm=rmsnorm", "seed=1", error=0.8)
    (tmp_path / "file").touch()
    code = main(["publish", "plan=table10", f"runs.root={tmp_path / 'runs'}", "--published", str(tmp_path / "file")])
    assert code == 2
    assert capsys.readouterr().err.startswith(f"error: --published={tmp_path / 'file'}: cannot be written")


def test_records_that_no_table_has_a_place_for_are_noted(tmp_path):
    lines = [run_line(plan="table10", arm="renamed"), run_line(plan="gone", arm="layernorm")]
    (tmp_path / "runs-table10.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    notes = build_index(tmp_path, None).notes
    assert notes == [
        "gone/layernorm: there is no such plan, so its records are shown nowhere",
        "table10/renamed: there is no such arm, so its records are shown nowhere",
    ]
