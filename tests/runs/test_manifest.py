import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from rmsrepro.runs import rundir, source
from rmsrepro.runs.atomic import to_json
from rmsrepro.runs.manifest import build_manifest, command_line
from rmsrepro.runs.source import git_commit, git_state


def test_a_manifest_says_how_the_run_was_made():
    manifest = build_manifest(
        argv=["/x/rmsrepro/__main__.py", "task=mnist", "data.root=/a b/ü"],
        config_hash="0123abcd",
        data_checksums={"mnist/train": "sha256:00"},
        extra={"device": "cpu"},
    )
    json.loads(to_json(manifest))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", manifest["started"])
    assert shlex.split(manifest["command"]) == ["python", "-m", "rmsrepro", "task=mnist", "data.root=/a b/ü"]
    assert manifest["config_hash"] == "0123abcd"
    assert manifest["data_checksums"] == {"mnist/train": "sha256:00"}
    assert manifest["device"] == "cpu"
    assert manifest["versions"]["torch"]
    assert any(line.startswith("hydra-core==") for line in manifest["freeze"])
    hardware = manifest["hardware"]
    assert hardware["memory_bytes"] > 1 << 20
    assert 1 <= hardware["usable_cores"] <= hardware["logical_cores"]


def test_no_secret_reaches_the_manifest(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "f00dfeed" * 5)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    arguments = [
        *("track.api_key=hunter2", "--api-key", "hunter3", f"+x={'f00dfeed' * 5}"),
        *("data.url=https://me:hunter4@host/x", "task.max_tokens=512", "data.tokenizer=bpe"),
    ]
    manifest = build_manifest(argv=["run.py", *arguments], config_hash="", data_checksums={})
    text = to_json(manifest)
    assert "hunter" not in text
    assert "f00dfeed" not in text
    assert manifest["command"].endswith("'data.url=https://***@host/x' task.max_tokens=512 data.tokenizer=bpe")
    assert manifest["threads"]["environment"]["OMP_NUM_THREADS"] == "2"


def test_a_plain_program_keeps_its_name():
    assert command_line(["/usr/bin/rmsrepro", "seed=1"]) == "/usr/bin/rmsrepro seed=1"


def test_torch_is_described_only_when_the_program_has_it_already():
    code = (
        "import sys; from rmsrepro.runs import manifest, wandb_sink, progress, result, best;"
        "m = manifest.build_manifest(argv=['x'], config_hash='', data_checksums={});"
        "assert m['threads']['torch_threads'] is None and m['hardware']['gpus'] is None;"
        "assert not {'torch', 'wandb', 'rich'} & set(sys.modules), 'imported early';"
        "import torch; torch.set_num_threads(1);"
        "m = manifest.build_manifest(argv=['x'], config_hash='', data_checksums={});"
        "assert m['threads']['torch_threads'] == 1 and isinstance(m['hardware']['gpus'], list)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A source checkout of its own that rmsrepro seems to be imported from."""
    monkeypatch.setattr(rundir, "__file__", str(tmp_path / "rmsrepro" / "runs" / "rundir.py"))
    (tmp_path / "pyproject.toml").write_text("")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set while a git hook runs the tests
        monkeypatch.delenv(name, raising=False)

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "start")
    return tmp_path


def test_a_changed_checkout_is_dirty_and_its_difference_has_a_hash(checkout):
    clean = git_state()
    assert re.fullmatch(r"[0-9a-f]{40}", clean["commit"])
    assert (clean["dirty"], clean["diff_sha256"], clean["note"]) == (False, None, None)
    (checkout / "pyproject.toml").write_text("changed")
    changed = git_state()
    assert changed["dirty"]
    assert len(changed["diff_sha256"]) == 64
    assert git_commit() == clean["commit"] == changed["commit"]


def test_without_git_or_a_checkout_the_commit_is_null(checkout, monkeypatch):
    monkeypatch.setenv("PATH", str(checkout))
    assert git_commit() is None
    assert git_state()["note"]
    (checkout / "pyproject.toml").unlink()
    assert git_commit() is None
    assert git_state() == {
        "commit": None,
        "dirty": None,
        "diff_sha256": None,
        "note": "not run from a git checkout",
    }


def test_a_git_that_hangs_is_given_up(checkout, monkeypatch):
    slow = checkout / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(source, "GIT_TIMEOUT_S", 0.2)
    assert git_commit() is None
    assert "timed out" in git_state()["note"]
