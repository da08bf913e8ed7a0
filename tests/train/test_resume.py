"""A run that was stopped at any moment ends with the bits of one that was not."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
import toy

from rmsrepro import cli

WARM_UP_AND_DECAY = ("train.warmup_steps=5", "train.schedule=linear", "train.decay_start=0.5", "track.log_every=1")


def stop_at_step(step, number):
    """Send the process a signal while it works on a 1-based step."""
    from rmsrepro.tasks.toy.task import Task

    original = Task.loss_sum
    calls = iter(range(1, 10**6))

    def loss_sum(self, *args):
        if next(calls) == step:
            os.kill(os.getpid(), number)
        return original(self, *args)

    Task.loss_sum = loss_sum


def kill_before_rename(count):
    """Kill the process just before a checkpoint file is renamed for the `count`th time."""
    original = Path.replace
    calls = iter(range(1, 10**6))

    def replace(self, target):
        if Path(target).suffix == ".pt" and next(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, target)

    Path.replace = replace


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Return the root of an uninterrupted run with some overrides; each is made once."""
    made = {}

    def run(*overrides):
        if overrides not in made:
            root = tmp_path_factory.mktemp("straight")
            assert toy.command(*overrides, f"runs.root={root}").code == 0
            made[overrides] = root
        return made[overrides]

    return run


def assert_same_run(one, other):
    for name in ("last", "best"):
        assert toy.same_tensors(toy.checkpoint(one, name)["model"], toy.checkpoint(other, name)["model"])
    assert toy.rows(one) == toy.rows(other)
    assert toy.result(one)["metrics"] == toy.result(other)["metrics"]
    assert toy.result(one)["best"] == toy.result(other)["best"]


ACCUMULATE = ("train.accumulate=2", "train.batch_size=16", "norm=batchnorm")
CARRY = ("task.carry=true", "train.batch_size=16", "train.optimizer=sgd", "train.momentum=0.9")
BF16 = ("train.precision=bf16", "train.clip_norm=0.5", "train.optimizer=adam_eps_inside", "train.report=best")


@pytest.mark.parametrize(
    ("overrides", "step", "number"),
    [((), 1, 9), ((), 7, 9), ((), 13, 2), (ACCUMULATE, 8, 15), (CARRY, 7, 9), (BF16, 14, 9)],
    ids=["first-step", "kill", "int", "accumulate-batchnorm", "carry-momentum", "bf16-clip-best"],
)
def test_a_stopped_run_goes_on_bit_for_bit(straight, root, overrides, step, number):
    overrides = (*overrides, "runs.checkpoint_every=3")
    calls = step * (2 if "train.accumulate=2" in overrides else 1)
    stopped = toy.command(*overrides, f"runs.root={root}", setup=partial(stop_at_step, calls, number))
    assert stopped.code == (-9 if number == 9 else 128 + number)
    if number != 9:
        assert toy.status(root)["state"] == "interrupted"
        assert toy.status(root)["step"] == step
        assert stopped.err.startswith("interrupted: ")
    assert toy.command(*overrides, f"runs.root={root}").code == 0
    assert toy.status(root)["state"] == "done"
    assert_same_run(straight(*overrides), root)


@pytest.mark.parametrize("step", [1, 4, 5, 9, 10, 19])
def test_the_learning_rates_do_not_depend_on_where_a_run_stopped(straight, root, step):
    toy.command(*WARM_UP_AND_DECAY, f"runs.root={root}", setup=partial(stop_at_step, step, signal.SIGTERM))
    assert toy.checkpoint(root)["step"] == step
    assert toy.command(*WARM_UP_AND_DECAY, f"runs.root={root}").code == 0
    rates = [row["train/lr"] for row in toy.rows(root) if "train/lr" in row]
    assert rates == [row["train/lr"] for row in toy.rows(straight(*WARM_UP_AND_DECAY)) if "train/lr" in row]
    assert len(rates) == 20
    assert rates[4] < rates[5] == rates[10] == 0.01 > rates[11] > rates[19]
    assert_same_run(straight(*WARM_UP_AND_DECAY), root)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 12])
def test_a_kill_in_the_middle_of_saving_leaves_a_checkpoint_to_go_on_from(straight, root, count):
    every_step = ("runs.checkpoint_every=1",)
    killed = toy.command(*every_step, f"runs.root={root}", setup=partial(kill_before_rename, count))
    assert killed.code == -9
    again = toy.command(*every_step, f"runs.root={root}")
    assert again.code == 0
    assert ("resuming after step" in again.err) == (count > 1)
    assert_same_run(straight(*every_step), root)
    assert not list(root.rglob("*.tmp*"))


def test_being_killed_over_and_over_does_not_change_the_end(straight, root):
    for step in (3, 2, 4, 1, 5):
        toy.command("runs.checkpoint_every=2", f"runs.root={root}", setup=partial(stop_at_step, step, signal.SIGKILL))
    assert toy.command("runs.checkpoint_every=2", f"runs.root={root}").code == 0
    assert_same_run(straight("runs.checkpoint_every=2"), root)


def test_a_run_killed_before_its_result_was_written_only_writes_it(root, capsys):
    assert cli.main([*toy.BASE, "train.report=best"]) == 0
    before = toy.result(root)
    (toy.run_dir(root) / "result.json").unlink()
    assert cli.main([*toy.BASE, "train.report=best"]) == 0
    assert "resuming after step 20 of 20" in capsys.readouterr().err
    after = toy.result(root)
    assert after["metrics"] == before["metrics"]
    assert after["timing"]["steps"] == 20


def other_data():
    from rmsrepro.tasks.toy.task import Task

    Task.checksums = lambda self: {"toy": "sha256:1"}


def test_a_run_does_not_go_on_with_other_data_than_it_began_with(root):
    toy.command(f"runs.root={root}", setup=partial(stop_at_step, 9, signal.SIGTERM))
    refused = toy.command(f"runs.root={root}", setup=other_data)
    assert refused.code == 2
    assert "began with other data (toy changed since)" in refused.err
    assert "runs.overwrite=true" in refused.err
    assert toy.checkpoint(root)["step"] == 9
    assert toy.command(f"runs.root={root}").code == 0
    assert toy.command(f"runs.root={root}", "runs.overwrite=true", setup=other_data).code == 0


def test_a_run_that_is_done_says_so_where_another_data_root_is_named(root, tmp_path, capsys):
    one, other = tmp_path / "one", tmp_path / "other"
    assert cli.main([*toy.BASE, f"data.root={one}"]) == 0
    capsys.readouterr()
    assert cli.main([*toy.BASE, f"data.root={one}"]) == 0
    assert "came from" not in capsys.readouterr().err
    assert cli.main([*toy.BASE, f"data.root={other}"]) == 0
    assert f"its data came from {one}, and {other} was not looked at" in capsys.readouterr().err


def test_a_target_reached_before_the_kill_is_not_trained_past(root):
    overrides = [*toy.BASE, "train.stop_at=0.5", "task.eval_values=[0.1,0.6,0.7]"]
    assert cli.main(overrides) == 0
    assert toy.checkpoint(root)["step"] == 8
    (toy.run_dir(root) / "result.json").unlink()
    assert cli.main(overrides) == 0
    assert toy.checkpoint(root)["step"] == 8
    assert toy.result(root)["reached_target"]


def test_a_signal_while_data_is_read_leaves_at_once(root):
    running = toy.Command("task.load_sleep_s=60", f"runs.root={root}")
    while not (root.is_dir() and list(root.rglob("status.json"))):
        assert running.running()
    os.kill(running.pid, signal.SIGTERM)
    ended = running.wait()
    assert (ended.code, ended.out) == (143, "")
    assert ended.err == "interrupted: before the first step; the same command starts it again\n"
    assert toy.status(root)["state"] == "interrupted"


def test_evaluating_leaves_the_training_stream_alone(root, tmp_path):
    assert cli.main([*toy.BASE, "train.eval_every=1"]) == 0
    assert cli.main([*toy.BASE, "train.eval_every=0", f"runs.root={tmp_path / 'other'}"]) == 0
    assert toy.same_tensors(toy.checkpoint(root)["model"], toy.checkpoint(tmp_path / "other")["model"])


def test_two_processes_compute_the_same_bits(straight, root):
    assert toy.command(f"runs.root={root}").code == 0
    assert_same_run(straight(), root)
    assert not torch.equal(
        toy.checkpoint(root)["model"]["3.weight"],
        toy.checkpoint(straight("seed=2"))["model"]["3.weight"],
    )
