import fcntl
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading

import pytest

from rmsrepro.errors import ConfigError, UserError
from rmsrepro.runs.lock import RunLockedError, exclusive_lock
from rmsrepro.runs.rundir import RunDir

HOLD = """
import os, sys, time
from rmsrepro.runs.rundir import RunDir
with RunDir(sys.argv[1]).lock():
    if sys.argv[2] == "fork" and os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(60)
    if sys.argv[2] != "fork":
        print(os.getpid(), flush=True)
    time.sleep(60)
"""


def start_holder(path, kind="plain"):
    """Start a process that holds the run; return it and the pid that it (or its forked child) printed."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path), kind], stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


def test_a_second_process_is_told_who_holds_the_run_and_sigkill_frees_it(tmp_path):
    run = RunDir(tmp_path / "run")
    run.create()
    run.write_status("running")
    holder, pid = start_holder(run.path)
    try:
        assert run.effective_state() == "running"
        with pytest.raises(RunLockedError) as error, run.lock():
            pass
        assert isinstance(error.value, UserError)
        text = str(error.value)
        assert str(run.path) in text
        assert f"process {pid} on {os.uname().nodename}" in text
        assert "\n" not in text
        with pytest.raises(RunLockedError):
            run.clear()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert run.effective_state() == "dead"
    with run.lock():
        pass


def test_a_forked_worker_that_outlives_a_killed_holder_does_not_keep_the_lock(tmp_path):
    holder, worker = start_holder(tmp_path / "run", "fork")
    try:
        holder.kill()
        holder.wait()
        with RunDir(tmp_path / "run").lock():
            os.kill(worker, 0)
    finally:
        os.kill(worker, signal.SIGKILL)
        holder.stdout.close()


def test_the_same_process_cannot_take_a_run_twice(tmp_path):
    with RunDir(tmp_path).lock(), pytest.raises(RunLockedError), RunDir(tmp_path).lock():
        pass


def test_somebody_asking_for_the_state_does_not_make_a_starting_run_fail(tmp_path):
    run = RunDir(tmp_path)
    run.create()
    asking = os.open(run.lock_file, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)  # what `is_locked` does for a moment
    threading.Timer(0.08, os.close, [asking]).start()
    with run.lock():
        pass


def test_a_lock_file_that_cannot_be_written_is_refused_in_one_line(tmp_path):
    lock_file = tmp_path / ".lock"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # as on a full disk, files can be made but not written
    try:
        with pytest.raises(ConfigError) as full, exclusive_lock(lock_file):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(ConfigError) as no_folder, exclusive_lock(lock_file / ".lock"):
        pass
    for error in (full, no_folder):
        assert f"runs.root: cannot write {lock_file}" in str(error.value)
        assert "\n" not in str(error.value)
    with exclusive_lock(lock_file):
        pass


def _race(root, config_hash, start, tried, outcomes):
    run = RunDir.locate(root, "mnist", "rmsnorm", config_hash)
    start.wait()
    try:
        with run.lock():
            with run.metrics_jsonl.open("a") as file:
                file.write(f"{os.getpid()}\n")
            tried.wait()
            run.write_status("done")
        outcomes.put("ran")
    except RunLockedError:
        tried.wait()
        outcomes.put("locked")


def test_eight_processes_at_once_get_a_directory_each_and_the_same_run_only_once(tmp_path):
    hashes = [f"seed{seed}" for seed in range(7)] + ["seed0"]
    context = multiprocessing.get_context("spawn")
    start, tried, outcomes = context.Barrier(8, timeout=60), context.Barrier(8, timeout=60), context.Queue()
    processes = [
        context.Process(target=_race, args=(tmp_path, config_hash, start, tried, outcomes)) for config_hash in hashes
    ]
    for process in processes:
        process.start()
    assert sorted(outcomes.get(timeout=90) for _ in processes) == ["locked"] + ["ran"] * 7
    for process in processes:
        process.join()
    for config_hash in set(hashes):
        run = RunDir.locate(tmp_path, "mnist", "rmsnorm", config_hash)
        assert run.effective_state() == "done"
        assert len(run.metrics_jsonl.read_text().splitlines()) == 1
