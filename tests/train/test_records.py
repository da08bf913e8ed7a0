"""What a run writes down: times in their units, what was dropped, and the parameters that were asked for."""

from __future__ import annotations

import json

import pytest
import toy

from rmsrepro import cli
from rmsrepro.runs.atomic import read_jsonl


@pytest.mark.parametrize("step_s", [0.01, 0.05])
def test_steps_are_timed_without_evaluations_and_checkpoints(root, step_s):
    overrides = (f"task.step_sleep_s={step_s}", "task.eval_sleep_s=0.2", "runs.checkpoint_every=1", "norm=none")
    assert cli.main([*toy.BASE, *overrides]) == 0
    timing = toy.result(root)["timing"]
    step_ms = step_s * 1e3
    # Far less than the evaluation's 200 ms, and roomy for a busy machine.
    assert step_ms <= timing["step_ms_median"] < step_ms + 100
    assert timing["timed_steps"] == 10, "the first ten steps are warm-up"
    assert timing["steps"] == 20
    assert timing["items_per_s"] == pytest.approx(32e3 / timing["step_ms_median"], rel=0.5)
    assert 20 * step_s <= timing["train_s"] < 20 * (step_s + 0.1)
    shown = [row["time/step_ms"] for row in read_jsonl(toy.run_dir(root) / "metrics.jsonl") if "time/step_ms" in row]
    assert shown
    assert all(step_ms <= value < step_ms + 100 for value in shown)


@pytest.mark.parametrize("norm", ["rmsnorm", "batchnorm", "weightnorm"])
def test_every_norm_sees_the_same_number_of_examples_and_the_record_says_so(root, norm):
    overrides = (
        f"norm={norm}",
        "task.train_items=129",
        "train.batch_size=64",
        "train.max_steps=null",
        "train.epochs=2",
    )
    assert cli.main([*toy.BASE, *overrides]) == 0
    assert toy.result(root)["timing"]["steps"] == 4
    assert toy.result(root)["facts"]["images_per_epoch"] == 128
    assert toy.result(root)["facts"]["images_dropped_per_epoch"] == 1


def test_the_commit_is_that_of_the_source_the_run_began_with(root, monkeypatch):
    commits = iter(["began", "checked out since"])
    monkeypatch.setattr("rmsrepro.train.run.git_commit", lambda: next(commits))
    assert cli.main([*toy.BASE]) == 0
    assert toy.result(root)["commit"] == "began"


def test_what_accumulation_leaves_over_is_recorded(root):
    overrides = ("train.batch_size=8", "train.accumulate=3", "train.max_steps=null", "train.epochs=1")
    assert cli.main([*toy.BASE, *overrides]) == 0
    manifest = json.loads((toy.run_dir(root) / "manifest.json").read_text())
    assert (manifest["micro_batches_per_epoch"], manifest["micro_batches_dropped_per_epoch"]) == (6, 2)
    assert manifest["steps"] == toy.result(root)["timing"]["steps"] == 2


def test_the_best_parameters_are_reported_when_asked_for(root, tmp_path):
    # Learning undone: the step after the best evaluation is far too long.
    overrides = ("train.optimizer=sgd", "train.lr=30", "train.eval_every=1", "norm=none", "train.max_steps=12")
    assert cli.main([*toy.BASE, *overrides, "train.report=best"]) == 0
    best = toy.result(root)
    evaluations = {row["step"]: row["valid/accuracy"] for row in toy.rows(root) if "valid/accuracy" in row}
    assert best["metrics"]["valid/accuracy"] == max(evaluations.values()) == evaluations[best["best"]["best_step"]]
    assert evaluations[12] < max(evaluations.values())
    assert cli.main([*toy.BASE, *overrides, f"runs.root={tmp_path / 'last'}"]) == 0
    assert toy.result(tmp_path / "last")["metrics"]["valid/accuracy"] == evaluations[12]


def test_the_number_of_threads_is_what_was_asked_for(root):
    ended = toy.command("train.threads=2", f"runs.root={root}")
    assert ended.code == 0
    assert json.loads((toy.run_dir(root) / "manifest.json").read_text())["threads"]["torch_threads"] == 2
