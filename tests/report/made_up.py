"""Made-up results and records, whole enough to pass the checks that real ones pass."""

import shlex
from dataclasses import asdict

from omegaconf import OmegaConf

from rmsrepro.compose import compose_config
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.runs.atomic import write_json_atomic
from rmsrepro.runs.result import build_result, build_timing
from rmsrepro.runs.rundir import RunDir
from rmsrepro.sweep.plan import load_plan

#: Overrides of a run that its published command leaves out.
LOCAL = ("runs.root=/home/me/runs", "track=none")


def result(**changes):
    """Return a whole result of a CIFAR-10 run; `error` sets its test error as a fraction."""
    error = changes.pop("error", 0.0883)
    fields = {
        "task": "cifar10",
        "norm": "rmsnorm",
        "impl": "torch",
        "size": "paper",
        "seed": 1,
        "data": "cifar10",
        "metrics": {"test/error": error, "test/accuracy": 1.0 - error},
        "primary": "test/error",
        "direction": "min",
        "timing": build_timing(step_seconds=[0.01] * 3, items=300, steps=4, train_s=0.5, peak_memory_bytes=1 << 20),
        "params": 1000,
        "device": "TITAN",
        "config_hash": "0123abcd",
        "commit": "c0ffee",
    }
    return build_result(**(fields | changes))


def run_line(arm="rmsnorm", plan="table10", state="done", **changes):
    """Return a committed record of one run as a mapping."""
    content = result(norm=arm, **changes)
    own = {
        "kind": "run",
        "plan": plan,
        "arm": arm,
        "state": state,
        "hardware": "TITAN",
        "command": f"python -m rmsrepro task=cifar10 norm={arm}",
        "variant": f"v-{arm}",
        "started": "2026-01-01T00:00:00+00:00",
    }
    return {**content, **own}


def timing_line(arm, block_ms, **changes):
    """Return a committed record of one timed arm as a mapping."""
    fields = {
        "kind": "timing",
        "schema": 1,
        "plan": "table10",
        "arm": arm,
        "size": "paper",
        "impl": "composed",
        "hardware": "TITAN",
        "session": "a",
        "repeat": 0,
        "block_ms": list(block_ms),
        "command": "python -m rmsrepro.bench steps --plan table10",
    }
    return fields | changes


def make_run(root, *overrides, state="done", error=0.9, **changes):
    """Lay out a run directory as the harness leaves it, with the configuration that these overrides compose to."""
    config = compose_config(["task=cifar10", "size=tiny", *overrides])
    rundir = RunDir.locate(root, "cifar10", config.norm.name, config.hash())
    rundir.create()
    rundir.config_yaml.write_text(OmegaConf.to_yaml(asdict(config)))
    manifest = {
        "started": "2026-01-02T00:00:00+00:00",
        "command": shlex.join(["python", "-m", "rmsrepro", "task=cifar10", "size=tiny", *overrides, *LOCAL]),
        "host": "my-laptop",
        "directory": "/home/me",
        "git": {"commit": "c0ffee"},
        "data_checksums": {"train.bin": "sha256:c1fa"},
        "hardware": {"cpu": "TITAN CPU", "usable_cores": 2, "gpus": []},
    }
    write_json_atomic(rundir.manifest_json, manifest)
    fields = {"norm": config.norm.name, "size": "tiny", "seed": config.seed, "device": "TITAN CPU"}
    if state == "done":
        write_json_atomic(rundir.result_json, result(error=error, **fields, **changes))
    rundir.write_status(state, message="" if state == "done" else "loss is nan")
    return rundir


def table10(folder, size=None):
    """Build the tables of CIFAR-10 from a folder of committed records."""
    return build_tables(load_plan("table10"), build_index(folder, None), size)


def cell(tables, arm, column="test_error", impl=None):
    """Return the one cell of an arm and column of the first table."""
    (found,) = [
        cell for cell in tables[0].cells if (cell.arm, cell.column) == (arm, column) and impl in (None, cell.impl)
    ]
    return found
