"""A sweep over real training runs, from the command line."""

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_plan_is_trained_and_the_second_call_runs_nothing(tmp_path, root):
    folder = tmp_path / "data" / "text"
    folder.mkdir(parents=True)
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("a b c d e f g\n" * 200)
    words = [
        *("plan=lstm_lm", "size=tiny", "seeds=1", "arms=layernorm,rmsnorm", "workers=1", "data=text", "data.root=data"),
        *("device=cpu", "track=none", "task.hidden=4", "train.max_steps=2", "train.eval_every=0"),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def sweep():
        return subprocess.run(
            [sys.executable, "-m", "rmsrepro.sweep", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    first = sweep()
    assert first.returncode == 0, first.stderr
    results = {path: path.stat().st_mtime_ns for path in root.glob("lstm_lm/*/*/result.json")}
    assert sorted(path.parts[-3] for path in results) == ["layernorm", "rmsnorm"]
    again = sweep()
    assert again.returncode == 0
    assert "done already: 2" in again.stderr
    assert "started" not in again.stderr
    assert {path: path.stat().st_mtime_ns for path in results} == results
