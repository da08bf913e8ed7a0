import os
from pathlib import Path

import pytest
from runs.test_result import good_result

from rmsrepro.errors import ConfigError
from rmsrepro.runs import rundir
from rmsrepro.runs.atomic import write_json_atomic
from rmsrepro.runs.rundir import RunDir, find_runs, runs_root


@pytest.fixture
def run(tmp_path):
    run = RunDir.locate(tmp_path / "Läufe mit Leerzeichen", "mnist", "rmsnorm", "0123abcd")
    run.create()
    return run


def test_a_run_lies_under_task_norm_and_hash(tmp_path):
    run = RunDir.locate(tmp_path, "mnist", "rmsnorm", "0123abcd")
    assert run.path == tmp_path / "mnist" / "rmsnorm" / "0123abcd"
    assert run.checkpoints.parent == run.path
    assert not run.path.exists()
    assert run.status() is None
    assert run.effective_state() is None


def test_status_keeps_state_and_fields(run):
    run.write_status("failed", step=12, error="out of luck")
    status = run.status()
    assert status.state == "failed"
    assert status.fields["step"] == 12
    assert status.fields["pid"] == os.getpid()
    with pytest.raises(ValueError, match="finished"):
        run.write_status("finished")


def test_a_cut_status_file_counts_as_none(run):
    run.status_json.write_text('{"state": "do')
    assert run.status() is None
    assert not run.is_done()


def test_done_needs_the_status_and_a_whole_result(run):
    run.write_status("done")
    assert not run.is_done()
    run.result_json.write_text('{"schema":')
    assert not run.is_done()
    write_json_atomic(run.result_json, {"schema": 1})
    assert not run.is_done()
    write_json_atomic(run.result_json, good_result())
    assert run.is_done()
    run.write_status("diverged")
    assert not run.is_done()


def test_a_running_run_without_its_lock_is_dead(run):
    run.write_status("running")
    assert run.effective_state() == "dead"
    with run.lock():
        assert run.effective_state() == "running"
    run.write_status("interrupted")
    assert run.effective_state() == "interrupted"


def test_clear_removes_the_harness_files_and_nothing_else(run):
    run.write_status("done")
    for file in (run.result_json, run.config_yaml, run.manifest_json, run.metrics_jsonl, run.log):
        file.write_text("{}")
    (run.checkpoints / "last.pt").write_bytes(b"old")
    (run.checkpoints / ".last.pt.12-ab.tmp").write_bytes(b"partial")
    own = [
        run.path / "notes.txt",
        run.checkpoints / "picture.png",
        run.path / "wandb" / "offline-run-1" / "x",
    ]
    for file in own:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    run.clear()
    left = {file for file in run.path.rglob("*") if file.is_file()}
    assert left == {*own, run.lock_file}
    run.clear()


def test_taking_the_lock_removes_what_a_killed_writer_left(run):
    for partial in (run.path / ".status.json.12-ab.tmp", run.checkpoints / ".last.pt.12-ab.tmp"):
        partial.write_bytes(b"half")
    with run.lock():
        assert list(run.path.rglob(".*.tmp")) == []


def test_a_directory_of_other_things_is_neither_cleared_nor_turned_into_a_run(tmp_path):
    (tmp_path / "log").write_text("mine")
    (tmp_path / "thesis.tex").write_text("mine")
    for action in (RunDir(tmp_path).create, RunDir(tmp_path).clear, RunDir(tmp_path).lock().__enter__):
        with pytest.raises(ConfigError, match=r"not a run directory \(it holds thesis.tex\)"):
            action()
    assert {file.name for file in tmp_path.iterdir()} == {"log", "thesis.tex"}


def test_a_root_that_cannot_be_written_names_the_setting_and_the_variable(tmp_path):
    (tmp_path / "file").write_text("")
    run = RunDir.locate(tmp_path / "file", "mnist", "rmsnorm", "ab")
    with pytest.raises(ConfigError, match=r"^runs\.root: cannot write to .*RMSREPRO_RUNS") as error:
        run.create()
    assert "\n" not in str(error.value)


def test_find_runs_lists_those_with_a_status(tmp_path):
    for name in ("b", "a"):
        run = RunDir.locate(tmp_path, "mnist", "rmsnorm", name)
        run.create()
        run.write_status("done")
    RunDir.locate(tmp_path, "mnist", "rmsnorm", "c").create()
    assert [run.path.name for run in find_runs(tmp_path)] == ["a", "b"]


class TestRunsRoot:
    def test_the_setting_beats_the_variable_beats_the_checkout(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("RMSREPRO_RUNS", str(tmp_path / "from variable"))
        assert runs_root("here") == tmp_path / "here"
        assert runs_root(None) == tmp_path / "from variable"
        monkeypatch.delenv("RMSREPRO_RUNS")
        assert runs_root(None) == Path(rundir.__file__).parents[2] / "results" / "runs"

    def test_an_installed_package_uses_the_launch_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("RMSREPRO_RUNS", raising=False)
        monkeypatch.setattr(rundir, "__file__", str(tmp_path / "site-packages" / "rmsrepro" / "runs" / "rundir.py"))
        assert runs_root(None) == tmp_path / "results" / "runs"

    def test_a_checkout_that_cannot_be_written_gives_way(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("RMSREPRO_RUNS", raising=False)
        monkeypatch.setattr(rundir, "source_checkout", lambda: tmp_path / "file")
        (tmp_path / "file").write_text("")
        assert runs_root(None) == tmp_path / "results" / "runs"
