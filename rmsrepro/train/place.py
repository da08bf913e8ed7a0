"""Where a run lies, and what to say when it has been there before; free of torch, so that the answer is quick."""

from __future__ import annotations

import sys

from rmsrepro.config import Config
from rmsrepro.runs.atomic import read_json
from rmsrepro.runs.rundir import RunDir, runs_root


def run_directory(cfg: Config) -> RunDir:
    """Name the directory of a configuration's run; touches nothing."""
    return RunDir.locate(runs_root(cfg.runs.root), cfg.task.name, cfg.norm.name, cfg.hash())


def say_done(rundir: RunDir) -> int:
    """Say that the run has been made, print its result's path and return exit code 0."""
    commit = read_json(rundir.result_json).get("commit")
    at = f" at commit {commit[:9]}" if commit else ""
    print(f"already done{at}: {rundir.path} (runs.overwrite=true trains it again)", file=sys.stderr)
    return say_result(rundir)


def say_result(rundir: RunDir) -> int:
    """Print the path of result.json, the last line on stdout, and return exit code 0."""
    print(rundir.result_json, flush=True)
    return 0
