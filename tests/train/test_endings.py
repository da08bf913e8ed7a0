"""How runs end when something goes wrong: a state, an exit code, one line, and never a false result."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import toy

from rmsrepro import cli
from rmsrepro.runs.atomic import read_jsonl


def test_a_finished_run_is_left_alone_and_its_result_named_last(root, capsys):
    assert cli.main([*toy.BASE]) == 0
    first = capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in toy.run_dir(root).rglob("*") if path.is_file()}
    assert cli.main([*toy.BASE]) == 0
    captured = capsys.readouterr()
    assert captured.out == first == f"{toy.run_dir(root) / 'result.json'}\n"
    assert "already done" in captured.err
    assert {path: path.stat().st_mtime_ns for path in toy.run_dir(root).rglob("*") if path.is_file()} == before


def test_overwrite_starts_again(root):
    assert cli.main([*toy.BASE]) == 0
    model, rows = toy.checkpoint(root)["model"], toy.rows(root)
    started = json.loads((toy.run_dir(root) / "manifest.json").read_text())
    assert cli.main([*toy.BASE, "runs.overwrite=true"]) == 0
    assert toy.same_tensors(toy.checkpoint(root)["model"], model)
    assert toy.rows(root) == rows
    assert json.loads((toy.run_dir(root) / "manifest.json").read_text()) != started


@pytest.mark.parametrize("norm", ["rmsnorm", "batchnorm"])
def test_a_nan_in_the_data_stops_the_run_and_names_what_it_reached(root, capsys, norm):
    overrides = [*toy.BASE, f"norm={norm}", "task.nan_at=9", "train.schedule=linear"]
    assert cli.main(overrides) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("diverged: the loss is nan at step 10, learning rate 0.0055; not finite: ")
    status = toy.status(root)
    assert (status["state"], status["step"], status["exit_code"]) == ("diverged", 10, 1)
    assert math.isnan(float(status["loss"]))
    assert "3.weight.grad" in status["tensors"]
    assert any(name.endswith("running_mean") for name in status["tensors"]) == (norm == "batchnorm")
    assert not (toy.run_dir(root) / "result.json").exists()
    assert toy.checkpoint(root)["step"] == 8
    assert all(math.isfinite(value) for row in toy.rows(root) for value in row.values())
    assert cli.main(overrides) == 1, "it goes on from the checkpoint and meets the same number"


def test_a_learning_rate_that_explodes_ends_as_diverged_not_as_a_result(root):
    assert cli.main([*toy.BASE, "train.optimizer=sgd", "train.lr=1e38", "norm=none"]) == 1
    assert toy.status(root)["state"] == "diverged"
    assert not list(root.rglob("result.json"))


def test_final_metrics_that_are_no_numbers_are_no_result(root, capsys):
    assert cli.main([*toy.BASE, "task.eval_values=[nan]"]) == 1
    assert "valid/accuracy" in capsys.readouterr().err
    assert toy.status(root)["state"] == "diverged"
    assert not list(root.rglob("result.json"))


@pytest.mark.parametrize(("error", "state"), [("memory", "oom"), ("cuda", "oom"), ("cpu", "oom"), ("bug", "failed")])
def test_a_crash_has_its_state_one_line_and_its_traceback_in_the_log(root, capsys, error, state):
    assert cli.main([*toy.BASE, "task.error_at=2", f"task.error={error}"]) == 1
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith(f"{state}: ")
    assert line.endswith(f"the traceback is in {toy.run_dir(root) / 'log'}")
    assert "Traceback" in (toy.run_dir(root) / "log").read_text()
    assert toy.status(root)["state"] == state
    assert captured.out == ""


def test_a_batch_larger_than_the_data_is_refused(root, capsys):
    assert cli.main([*toy.BASE, "train.batch_size=65"]) == 2
    assert "train.batch_size=65: there are only 64 training images" in capsys.readouterr().err
    assert cli.main([*toy.BASE, "train.accumulate=3"]) == 2
    assert "train.accumulate=3" in capsys.readouterr().err
    assert not list(root.rglob("result.json"))


def test_a_runs_root_that_cannot_be_written_is_named(tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert cli.main([*toy.BASE, f"runs.root={blocked}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: runs.root: cannot write to ")


def test_the_same_command_twice_at_once_runs_once(root):
    slow = ("task.step_sleep_s=0.1", f"runs.root={root}")
    first = toy.Command(*slow)
    while not (root.is_dir() and list(root.rglob("status.json"))):
        assert first.running()
    second = toy.command(*slow)
    assert second.code == 2
    (line,) = second.err.splitlines()
    assert f"locked by process {first.pid}" in line
    assert first.wait().code == 0
    assert toy.status(root)["state"] == "done"


def test_many_seeds_at_once_keep_to_their_own_directories(root):
    commands = [toy.Command(f"seed={seed}", f"runs.root={root}") for seed in range(8)]
    ends = [command.wait() for command in commands]
    assert [ended.code for ended in ends] == [0] * 8
    results = {ended.out for ended in ends}
    assert len(results) == 8
    for path in (Path(line.strip()) for line in results):
        steps = [row["step"] for row in read_jsonl(path.parent / "metrics.jsonl")]
        assert steps == sorted(steps)
        assert json.loads(path.read_text())["timing"]["steps"] == 20


def without_a_reader():
    """Make stdout a pipe whose other end is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)


def test_a_closed_stdout_does_not_spoil_the_run(root):
    command = [sys.executable, str(toy.HERE / "toy.py"), f"runs.root={root}"]
    ended = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command], check=False, timeout=120)
    assert ended.returncode == 0
    assert toy.status(root)["state"] == "done"
    assert toy.checkpoint(root)["step"] == 20


def test_a_reader_that_has_gone_does_not_make_a_done_run_a_failed_one(root):
    ended = toy.command(f"runs.root={root}", setup=without_a_reader)
    assert ended.code == 141
    assert toy.status(root)["state"] == "done"
