"""Where a configuration's data lie; free of torch, like all that answers before a run begins."""

from __future__ import annotations

from pathlib import Path

from rmsrepro.config import Config
from rmsrepro.data.root import data_root
from rmsrepro.runs.rundir import runs_root


def data_root_of(cfg: Config) -> Path:
    """Return the folder of all data sets; beside the runs where the user's cache cannot be written."""
    return data_root(cfg.data.root, fallback=runs_root(cfg.runs.root).parent / "data")
