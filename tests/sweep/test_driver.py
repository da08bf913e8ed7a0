"""Failures stay apart, sweeps share their work, signals save; with real processes, locks and directories."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from sweep import sweeping

from rmsrepro.runs.rundir import RunDir
from rmsrepro.sweep import cli
from rmsrepro.sweep.claim import claim, is_claimed
from rmsrepro.sweep.driver import Sweep
from rmsrepro.sweep.launcher import LocalLauncher
from rmsrepro.sweep.options import parse
from rmsrepro.sweep.slots import Slot
from rmsrepro.sweep.slurm import SubmititLauncher, last_words
from rmsrepro.sweep.specs import build_specs

ARMS = "arms=baseline,layernorm,rmsnorm"


def wait_for(condition, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def states(root):
    return {path.parent.parent.name: json.loads(path.read_text())["state"] for path in root.glob("*/*/*/status.json")}


def test_done_runs_are_not_made_again(sweep, made):
    assert sweep(ARMS, "seeds=1,2")[0] == 0
    code, out, err = sweep(ARMS, "seeds=1,2")
    assert code == 0
    assert "runs expected: 6, done already: 6" in err
    assert "6 expected: 6 done, 0 running, 0 failed, 0 to do" in out
    assert set(made().values()) == {1}


def test_a_run_whose_result_is_damaged_is_made_again(sweep, made, root):
    words = ["seeds=1", "arms=layernorm,rmsnorm"]
    assert sweep(*words)[0] == 0
    (result,) = root.glob("mnist/rmsnorm/*/result.json")
    result.write_text("{}")
    assert sweep(*words)[0] == 0
    assert made() == {"layernorm 1": 1, "rmsnorm 1": 2}
    assert json.loads(result.read_text())["norm"] == "rmsnorm"


def test_a_failure_stops_no_other_run_and_only_it_is_tried_again(sweep, made, play, root):
    play(layernorm="fail")
    code, _, err = sweep(ARMS, "seeds=1,2")
    assert code == 1
    assert "4 of 6 runs done" in err
    (log,) = {line.split("; see ")[1] for line in err.splitlines() if line.startswith("  mnist/layernorm seed 1")}
    assert "Traceback" in Path(log).read_text()
    assert "mnist/layernorm seed 1: failed: ValueError: of its own" in err
    play()
    assert sweep(ARMS, "seeds=1,2")[0] == 0
    assert made() == {
        **{f"{norm} {seed}": 1 for norm in ("none", "rmsnorm") for seed in (1, 2)},
        "layernorm 1": 2,
        "layernorm 2": 2,
    }


def test_a_run_whose_directory_cannot_be_made_stops_no_other(sweep, made, root):
    (root / "mnist").mkdir(parents=True)
    (root / "mnist" / "layernorm").touch()
    code, _, err = sweep(ARMS, "seeds=1", "workers=1")
    assert code == 1
    assert made() == {"none 1": 1, "rmsnorm 1": 1}
    (line,) = [line for line in err.splitlines() if line.startswith("  mnist/layernorm seed 1: failed: ")]
    assert "runs.root: cannot write to" in line
    assert "error: " not in err


def test_a_run_that_cannot_be_started_gives_its_place_back(root):
    specs = build_specs(parse(["plan=mnist", "size=tiny", "seeds=1", "arms=layernorm,rmsnorm", "device=cpu"]))
    outcomes = Sweep(specs, LocalLauncher([Slot()], ["/no/such/program"]), lambda line: None).run()
    assert [outcome.state for outcome in outcomes] == ["failed", "failed"]
    assert all("No such file" in outcome.message for outcome in outcomes)
    assert states(root) == {"layernorm": "failed", "rmsnorm": "failed"}
    assert not any(is_claimed(spec.rundir) for spec in specs)


def test_a_job_that_the_queue_refuses_is_a_failed_run(sweep, root, tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    for name, line in (("srun", "true"), ("sbatch", "echo 'sbatch: error: MaxSubmitJobs' >&2; exit 1")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    code, _, err = sweep("arms=layernorm,rmsnorm", "seeds=1", "launcher=slurm")
    assert code == 1
    assert "Traceback" not in err
    said = "failed: launcher=slurm: the job was refused (sbatch: error: MaxSubmitJobs)"
    assert all(f"  mnist/{arm} seed 1: {said}" in err for arm in ("layernorm", "rmsnorm"))
    assert states(root) == {"layernorm": "failed", "rmsnorm": "failed"}


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("kill", "killed by SIGKILL; it had printed: step 7"),
        ("refuse", "error: norm: refused"),
    ],
)
def test_a_run_that_could_not_write_its_own_ending_has_it_written(sweep, made, play, root, end, words):
    play(layernorm=end)
    code, out, err = sweep(ARMS, "seeds=1")
    assert code == 1
    assert f"mnist/layernorm seed 1: failed: {words}" in err
    assert states(root) == {"none": "done", "layernorm": "failed", "rmsnorm": "done"}
    assert "1 failed" in out


def test_two_sweeps_at_once_share_the_runs_and_make_none_twice(start, made, play):
    play(none="sleep 0.3", layernorm="sleep 0.3", rmsnorm="sleep 0.3")
    both = [start(ARMS, "seeds=1,2") for _ in range(2)]
    ended = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert made() == {f"{norm} {seed}": 1 for norm in ("none", "layernorm", "rmsnorm") for seed in (1, 2)}
    started = [err.count(": started in") for _, err in ended]
    assert sum(started) == 6
    assert min(started) >= 1


def test_of_two_sweeps_only_the_one_that_made_runs_logs_a_summary(start, made, play, root):
    play(rmsnorm="sleep 3")
    words = ("arms=rmsnorm", "seeds=1", "track=wandb", "track.mode=offline")
    first = start(*words)
    wait_for(lambda: made())
    second = start(*words)
    ended = [process.communicate(timeout=120) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0]
    assert "by another process" in ended[1][1]
    assert len(list((root / ".sweeps").rglob("offline-run-*"))) == 1


def test_a_failure_elsewhere_is_reported_and_not_tried_at_once(start, sweep, made, play, root):
    play(rmsnorm="sleep 30")
    first = start("arms=rmsnorm", "seeds=1")
    wait_for(lambda: made())
    second = start("arms=rmsnorm", "seeds=1")
    wait_for(lambda: second.stderr.readline().startswith("mnist/rmsnorm seed 1: another process works on it"))
    (status,) = root.glob("*/*/*/status.json")
    os.kill(json.loads(status.read_text())["pid"], signal.SIGKILL)
    first.communicate(timeout=60)
    _, err = second.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (1, 1)
    assert "killed by SIGKILL" in err
    assert made() == {"rmsnorm 1": 1}


def test_what_an_interrupted_sweep_leaves_is_taken_over_by_the_one_that_waits(start, made, play):
    play(rmsnorm="sleep 60")
    first = start("arms=rmsnorm", "seeds=1")
    wait_for(lambda: made())
    play(rmsnorm="done")
    second = start("arms=rmsnorm", "seeds=1")
    wait_for(lambda: second.stderr.readline().startswith("mnist/rmsnorm seed 1: another process works on it"))
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)
    second.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (130, 0)
    assert made() == {"rmsnorm 1": 2}


@pytest.mark.parametrize("launcher", ["local", "submitit_local"])
def test_a_signal_lets_the_runs_save_and_starts_no_more(start, made, play, root, launcher):
    if launcher == "submitit_local":
        pytest.importorskip("submitit")
    play(none="sleep 60", layernorm="sleep 60", rmsnorm="sleep 60")
    process = start(ARMS, "seeds=1", "workers=1", f"launcher={launcher}")
    wait_for(lambda: made())
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert states(root) == {"none": "interrupted"}
    assert "0 of 3 runs done" in err
    assert "2 not started" in err


def test_an_interrupted_summary_leaves_the_runs_as_they_ended(made, root, monkeypatch, capsys):
    def interrupted(specs, size):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "log_summaries", interrupted)
    monkeypatch.setattr(cli, "LocalLauncher", sweeping.StandIns)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    assert cli.main([*sweeping.BASE, "arms=rmsnorm", "seeds=1"]) == 130
    assert states(root) == {"rmsnorm": "done"}
    assert capsys.readouterr().err.splitlines()[-1].startswith("interrupted: the runs have ended, and W&B has no whole")


def test_submitted_runs_end_as_local_ones_do(sweep, made, play):
    pytest.importorskip("submitit")
    play(layernorm="fail")
    code, out, err = sweep("arms=layernorm,rmsnorm", "seeds=1", "launcher=submitit_local")
    assert code == 1
    assert "mnist/layernorm seed 1: failed: ValueError: of its own" in err
    assert "2 expected: 1 done, 0 running, 1 failed, 0 to do" in out


def test_what_submitit_says_of_a_lost_job_is_how_its_run_ended(root):
    pytest.importorskip("submitit")
    words = ["plan=mnist", "size=tiny", "seeds=1", "arms=rmsnorm", "device=cpu", "launcher=submitit_local"]
    options = parse(words)
    launcher = SubmititLauncher(options, root / ".slurm", limit=1, gpu=False, program=["/no/such/program"])
    (outcome,) = Sweep(build_specs(options), launcher, lambda line: None).run()
    error, _, log = outcome.message.partition("; see ")
    assert error == "FailedJobError: FileNotFoundError: [Errno 2] No such file or directory: '/no/such/program'"
    assert Path(log).is_file()
    (status,) = root.glob("*/*/*/status.json")
    assert json.loads(status.read_text())["message"] == outcome.message


def test_a_job_that_left_nothing_to_read_is_told_by_its_state():
    said = "Job 1 has not\nproduced any output (state: NODE_FAIL)\nNo output/error stream produced ! Check: 1.out"
    assert last_words(RuntimeError(said)) == "produced any output (state: NODE_FAIL)"


def test_a_claim_ends_with_its_process(tmp_path):
    rundir = RunDir(tmp_path / "run")
    pid = os.fork()
    if pid == 0:
        os._exit(0 if claim(rundir) is not None else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert not is_claimed(rundir)
    held = claim(rundir)
    assert held is not None
    assert claim(rundir) is None
    assert is_claimed(rundir)
    held.close()
    with rundir.lock():
        assert claim(rundir) is None
