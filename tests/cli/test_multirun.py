"""-m: each job in a process of its own, failures apart, and signals passed on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from rmsrepro import cli, multirun


def rmsrepro(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "rmsrepro", *arguments], check=False, capture_output=True, text=True, **options
    )


def test_a_sweep_is_the_product_of_its_values():
    jobs = multirun.expand(["norm=layernorm,rmsnorm", "seed=range(1,3)", "train.lr=0.1", 'tag="a,b"'])
    assert [job[:2] for job in jobs] == [
        ["norm=layernorm", "seed=1"],
        ["norm=layernorm", "seed=2"],
        ["norm=rmsnorm", "seed=1"],
        ["norm=rmsnorm", "seed=2"],
    ]
    assert all(job[2:] == ["train.lr=0.1", 'tag="a,b"'] for job in jobs)


def test_a_job_that_fails_stops_no_other_and_is_named(root):
    ended = rmsrepro("-m", "seed=-1,-2", "data.root=/nowhere", "hydra.job.chdir=true")
    assert ended.returncode == 2
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert "error: seed=-1: allowed is 0 to 4294967295" in lines
    assert "error: seed=-2: allowed is 0 to 4294967295" in lines
    assert lines[-3] == "0 of 2 runs done"
    assert [line.split(": ")[0] for line in lines[-2:]] == ["  exit 2", "  exit 2"]
    assert "Traceback" not in ended.stderr


def test_a_sweeps_configuration_is_not_one(capsys):
    assert cli.main(["-m", "seed=1,2", "--cfg", "job"]) == 2
    assert "without -m" in capsys.readouterr().err


SLOW_TO_LEAVE = """
import signal, sys, time
def leave(*_):
    time.sleep(0.5)
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_signal_reaches_the_job_and_ends_the_sweep(tmp_path):
    # In the folder where the sweep starts, `-m rmsrepro` finds a job that takes its time to leave.
    (tmp_path / "rmsrepro.py").write_text(SLOW_TO_LEAVE)
    program = (
        "import os, sys; from rmsrepro import multirun; os.chdir(sys.argv[1]); sys.exit(multirun.run(['seed=1,2']))"
    )
    sweep = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert sweep.stdout.readline() == "ready\n"
    os.kill(sweep.pid, signal.SIGTERM)
    started = time.monotonic()
    out, err = sweep.communicate(timeout=30)
    assert time.monotonic() - started >= 0.4
    assert out == "saved\n"
    assert sweep.returncode == 143
    assert "0 of 2 runs done" in err
    assert "[2/2]" not in err
