"""Several processes, compiled models and a real data set train as one plain process does."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
import toy

from rmsrepro import cli

PLAIN = ("task.dropout=0", "train.optimizer=sgd", "train.lr=0.1", "train.max_steps=6", "norm=layernorm")


def torchrun(*overrides, processes=2):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [*launcher, str(toy.HERE / "toy.py"), *overrides]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=200)


@pytest.mark.slow
def test_two_processes_train_as_one_with_a_batch_twice_as_large(root, tmp_path):
    ended = torchrun(*PLAIN, "train.batch_size=16", f"runs.root={root}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [str(toy.run_dir(root) / "result.json")]
    single = tmp_path / "single"
    assert cli.main([*toy.BASE, *PLAIN, "train.batch_size=32", f"runs.root={single}"]) == 0
    both, one = toy.checkpoint(root)["model"], toy.checkpoint(single)["model"]
    assert both.keys() == one.keys()
    for name in one:
        torch.testing.assert_close(both[name], one[name], rtol=1e-5, atol=1e-6)
    for row, wanted in zip(toy.rows(root), toy.rows(single), strict=True):
        assert row == pytest.approx(wanted, rel=1e-4)
    again = torchrun(*PLAIN, "train.batch_size=16", f"runs.root={root}")
    assert again.returncode == 0
    assert "already done" in again.stderr


@pytest.mark.slow
def test_a_number_that_is_not_finite_in_one_process_ends_both(root):
    # The second of the two works on the odd micro-batches.
    ended = torchrun(*PLAIN, "train.batch_size=16", "task.nan_at=5", f"runs.root={root}")
    assert ended.returncode != 0
    assert toy.status(root)["state"] == "diverged"
    assert toy.status(root)["step"] == 3
    assert "3.weight.grad" in toy.status(root)["tensors"]
    assert not list(root.rglob("result.json"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_a_compiled_model_trains_alike_and_its_checkpoint_has_the_plain_names(root, tmp_path):
    plain, compiled = tmp_path / "plain", root
    assert cli.main([*toy.BASE, *PLAIN, f"runs.root={plain}"]) == 0
    assert cli.main([*toy.BASE, *PLAIN, "impl=compile"]) == 0
    one, other = toy.checkpoint(plain)["model"], toy.checkpoint(compiled)["model"]
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-5)
    assert toy.result(compiled)["impl"] == "compile"


@pytest.mark.slow
def test_mnist_killed_at_random_moments_ends_with_the_same_bits(root, tmp_path, mnist_root):
    overrides = (
        *("task=mnist", "size=tiny", "track=none", "device=cpu", "train.threads=1", "task.hidden=[64]"),
        *("train.max_steps=150", "runs.checkpoint_every=10", "train.eval_every=50", f"data.root={mnist_root}"),
    )
    command = [sys.executable, "-m", "rmsrepro", *overrides]
    straight = tmp_path / "straight"
    subprocess.run([*command, f"runs.root={straight}"], check=True, capture_output=True)
    moments = random.Random(7)
    for _ in range(2):
        running = subprocess.Popen([*command, f"runs.root={root}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        before = newest_change(root)
        while running.poll() is None and newest_change(root) == before:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.3))
        os.kill(running.pid, signal.SIGKILL)
        running.communicate()
    subprocess.run([*command, f"runs.root={root}"], check=True, capture_output=True)
    assert toy.same_tensors(toy.checkpoint(root)["model"], toy.checkpoint(straight)["model"])
    assert toy.rows(root) == toy.rows(straight)
    assert toy.result(root)["metrics"] == toy.result(straight)["metrics"]


def newest_change(root):
    """Return when the newest checkpoint was written, 0 where there is none."""
    return max((path.stat().st_mtime_ns for path in root.rglob("last.pt")), default=0)
