"""Where a configuration's data lie, and what is made of them; free of torch, like all that answers before a run."""

from __future__ import annotations

from pathlib import Path

from rmsrepro.config import Config
from rmsrepro.data.root import data_root, prepared_root
from rmsrepro.runs.rundir import runs_root


def data_root_of(cfg: Config) -> Path:
    """Return the folder of all data sets; beside the runs where the user's cache cannot be written."""
    return data_root(cfg.data.root, fallback=_beside_runs(cfg) / "data")


def prepared_root_of(cfg: Config) -> Path:
    """Return the folder of what is made of data; beside the runs where the user's cache cannot be written."""
    return prepared_root(fallback=_beside_runs(cfg) / "prepared")


def _beside_runs(cfg: Config) -> Path:
    return runs_root(cfg.runs.root).parent
