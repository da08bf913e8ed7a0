"""Checkpoints that are cut, hostile, foreign, or cannot be written."""

from __future__ import annotations

import os
import pickle
import resource

import pytest
import torch
import toy

from rmsrepro import cli
from rmsrepro.train.checkpoint import CheckpointStore, load

STOP_EARLY = ("runs.checkpoint_every=1", "train.eval_every=0")


def unfinished(root, *overrides):
    """Leave a run at its last step but without a result, and return its checkpoints' folder."""
    assert cli.main([*toy.BASE, *STOP_EARLY, *overrides, f"runs.root={root}"]) == 0
    (toy.run_dir(root) / "result.json").unlink()
    return toy.run_dir(root) / "checkpoints"


def rerun(root, *overrides):
    return cli.main([*toy.BASE, *STOP_EARLY, *overrides, f"runs.root={root}"])


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda _: b"", lambda _: b"\x80\x04garbage" * 99])
def test_the_one_before_a_damaged_checkpoint_is_used_and_the_damaged_one_named(root, capsys, damage):
    folder = unfinished(root)
    whole = toy.checkpoint(root)["model"]
    last = folder / "last.pt"
    last.write_bytes(damage(last.read_bytes()))
    capsys.readouterr()
    assert rerun(root) == 0
    err = capsys.readouterr().err
    assert f"checkpoint {last} cannot be read" in err
    assert "going on from the one before it" in err
    assert "resuming after step 19 of 20" in err
    assert toy.same_tensors(toy.checkpoint(root)["model"], whole)
    assert (folder / "last.unreadable").exists()


def test_with_no_checkpoint_that_can_be_read_the_run_starts_anew_and_says_so(root, capsys):
    folder = unfinished(root)
    whole = toy.checkpoint(root)["model"]
    for name in ("last.pt", "previous.pt"):
        (folder / name).write_bytes(b"nothing")
    capsys.readouterr()
    assert rerun(root) == 0
    err = capsys.readouterr().err
    assert err.count("cannot be read") == err.count("starting anew") == 2
    assert toy.same_tensors(toy.checkpoint(root)["model"], whole)


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("write", [torch.save, lambda state, path: path.write_bytes(pickle.dumps(state))])
def test_a_hostile_checkpoint_is_refused_and_runs_nothing(root, tmp_path, capsys, write):
    folder = unfinished(root)
    trap = tmp_path / "trap"
    write({"format": 1, "step": Hostile(trap)}, folder / "last.pt")
    assert rerun(root) == 0
    assert "last.pt cannot be read" in capsys.readouterr().err
    assert not trap.exists()


@pytest.mark.parametrize("norm", ["rmsnorm", "batchnorm", "weightnorm"])
def test_a_checkpoint_loads_with_torchs_safe_loader(root, norm):
    assert cli.main([*toy.BASE, f"norm={norm}", "train.max_steps=4"]) == 0
    for name in ("last", "best"):
        assert load(toy.run_dir(root) / "checkpoints" / f"{name}.pt")["step"] == 4


def test_a_checkpoint_of_another_model_is_refused_with_the_names(root, tmp_path, capsys):
    folder = unfinished(root, "norm=rmsnorm")
    foreign = unfinished(tmp_path / "other", "norm=layernorm")
    (foreign / "last.pt").replace(folder / "last.pt")
    assert rerun(root, "norm=rmsnorm") == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith(f"error: {folder}: the checkpoint is of another model: ")
    assert "missing 0.bias; unexpected 0.norm.bias;" in err
    (folder / "last.pt").replace(toy.run_dir(tmp_path / "other") / "checkpoints" / "last.pt")
    torch.save(
        {**toy.checkpoint(root, "previous"), "model": {"3.weight": torch.ones(2, 2)}, "step": 19}, folder / "last.pt"
    )
    assert rerun(root, "norm=rmsnorm") == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert "missing " in err
    assert "of another shape 3.weight" in err


def test_a_checkpoint_of_more_processes_is_refused(root, capsys):
    folder = unfinished(root)
    torch.save({**toy.checkpoint(root), "world_size": 2}, folder / "last.pt")
    assert rerun(root) == 2
    assert "of 2 processes and there are 1" in capsys.readouterr().err


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (7000, 7000))


def test_a_full_disk_fails_in_one_line_and_the_checkpoint_before_it_survives(root):
    wide = ("norm=layernorm", "runs.checkpoint_every=5", f"runs.root={root}")
    assert toy.command(*wide, "train.max_steps=5").code == 0
    good = toy.run_dir(root)
    kept = (good / "checkpoints" / "last.pt").read_bytes()
    (good / "result.json").unlink()
    ended = toy.command(*wide, "train.max_steps=5", setup=limit_file_size)
    assert ended.code == 0, "nothing needs to be written again"
    # A new run on the same disk has no room for its first checkpoint.
    ended = toy.command(*wide, "seed=2", setup=limit_file_size)
    assert ended.code == 1
    assert ended.out == ""
    (line,) = ended.err.splitlines()
    assert line.startswith("failed: cannot write ")
    assert "last.pt (File too large); make room" in line
    (other,) = (path for path in good.parent.iterdir() if path != good)
    assert '"failed"' in (other / "status.json").read_text()
    assert [path.name for path in (other / "checkpoints").iterdir()] == ["best.pt"], "no half file is left"
    assert (good / "checkpoints" / "last.pt").read_bytes() == kept


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("boom"), KeyboardInterrupt()])
def test_a_save_that_fails_leaves_the_older_checkpoints_and_no_rest(tmp_path, monkeypatch, error):
    store = CheckpointStore(tmp_path)
    store.save({"step": 1})
    store.save({"step": 2})

    def fail(state, file):
        file.write(b"half")
        raise error

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(type(error)):
        store.save({"step": 3})
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.pt", "previous.pt"]
    assert load(store.last)["step"] == 2
    assert load(store.previous)["step"] == 1


def test_a_checkpoint_that_may_not_be_read_is_no_reason_to_start_anew(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path)
    store.save({"step": 1})

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(torch, "load", refuse)
    with pytest.raises(PermissionError):
        store.load_newest()
    assert store.last.exists()
