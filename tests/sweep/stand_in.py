"""What a sweep starts in place of a training run: the same directory, lock and files, but no training.

$PLAY says for each norm how its run ends, $MADE is the file that every run made is noted in.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from rmsrepro.compose import compose_config
from rmsrepro.runs.atomic import write_json_atomic
from rmsrepro.runs.lock import RunLockedError
from rmsrepro.runs.result import build_result
from rmsrepro.train.place import run_directory, say_done


def main(overrides):
    config = compose_config(overrides)
    rundir = run_directory(config)
    play = json.loads(os.environ.get("PLAY", "{}")).get(config.norm.name, "done")
    if play == "refuse":
        print("error: norm: refused", file=sys.stderr)
        return 2
    try:
        with rundir.lock():
            return say_done(rundir, config) if rundir.is_done() else make(config, rundir, play)
    except RunLockedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def make(config, rundir, play):
    name = (
        f"{config.norm.name} {config.seed} omp={os.environ.get('OMP_NUM_THREADS')} cpus={len(os.sched_getaffinity(0))}"
    )
    signal.signal(signal.SIGTERM, lambda *_: leave(rundir, 143))
    signal.signal(signal.SIGINT, lambda *_: leave(rundir, 130))
    rundir.write_status("running")
    with Path(os.environ["MADE"]).open("a") as made:
        made.write(name + "\n")
    if play == "fail":
        rundir.log.write_text("Traceback ...\nValueError: of its own\n")
        rundir.write_status("failed", exit_code=1, message="ValueError: of its own")
        return 1
    if play == "kill":
        print("step 7", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if play.startswith("sleep"):
        time.sleep(float(play.removeprefix("sleep ")))
    write_json_atomic(rundir.result_json, result(config))
    rundir.write_status("done", step=1)
    return 0


def leave(rundir, code):
    time.sleep(0.3)  # as long as a checkpoint takes
    rundir.write_status("interrupted", exit_code=code)
    os._exit(code)


def result(config):
    step_ms = {"layernorm": 4.0}.get(config.norm.name, 3.0)
    timing = {"steps": 1, "train_s": 10.0, "step_ms_median": step_ms, "items_per_s": 1.0, "peak_memory_bytes": None}
    return build_result(
        task=config.task.name,
        norm=config.norm.name,
        impl="torch",
        size=config.size,
        seed=config.seed,
        data=config.data.name,
        metrics={"test/accuracy": 0.9},
        primary="test/accuracy",
        direction="max",
        timing=timing,
        params=1,
        device="cpu",
        config_hash=config.hash(),
        commit=None,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
