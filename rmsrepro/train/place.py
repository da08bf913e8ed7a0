"""Where a run lies, and what to say when it has been there before; free of torch, so that the answer is quick."""

from __future__ import annotations

import sys
from typing import Any

from rmsrepro.config import Config
from rmsrepro.errors import DataError
from rmsrepro.runs.atomic import read_json
from rmsrepro.runs.rundir import RunDir, runs_root
from rmsrepro.tasks.data_root import data_root_of


def run_directory(cfg: Config) -> RunDir:
    """Name the directory of a configuration's run; touches nothing."""
    return RunDir.locate(runs_root(cfg.runs.root), cfg.task.name, cfg.norm.name, cfg.hash())


def manifest_of(rundir: RunDir) -> dict[str, Any]:
    """Return what the run's last attempt wrote of itself; empty where it did not come so far."""
    try:
        return read_json(rundir.manifest_json)
    except (OSError, DataError):
        return {}


def say_done(rundir: RunDir, cfg: Config) -> int:
    """Say that the run has been made, with which data if not with `cfg`'s, print its result's path, return exit code 0.

    The run's name does not depend on where its data lie, and data that nobody reads cannot be compared.
    """
    commit = read_json(rundir.result_json).get("commit")
    at = f" at commit {commit[:9]}" if commit else ""
    print(f"already done{at}: {rundir.path} (runs.overwrite=true trains it again)", file=sys.stderr)
    read_from, root = manifest_of(rundir).get("data_root"), str(data_root_of(cfg))
    if read_from not in (None, root):
        print(f"its data came from {read_from}, and {root} was not looked at", file=sys.stderr)
    return say_result(rundir)


def say_result(rundir: RunDir) -> int:
    """Print the path of result.json, the last line on stdout, and return exit code 0."""
    print(rundir.result_json, flush=True)
    return 0
