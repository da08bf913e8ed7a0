"""What every test shares: nothing is written outside temporary folders, and no tracker is asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    """Runs go to the test's own folder unless it says where."""
    monkeypatch.setenv("RMSREPRO_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("WANDB_MODE", "disabled")


@pytest.fixture
def root(tmp_path):
    """The folder of the test's runs."""
    return tmp_path / "runs"


@pytest.fixture(scope="session")
def mnist_root():
    """The data root that holds the real MNIST; skips where there is none."""
    import platformdirs

    from rmsrepro.data.root import ENVIRONMENT_VARIABLE

    root = Path(os.environ.get(ENVIRONMENT_VARIABLE) or platformdirs.user_cache_path("rmsrepro", False) / "data")
    if not (root / "mnist" / "train-images-idx3-ubyte").is_file():
        pytest.skip(f"no MNIST in {root}; `python -m rmsrepro.data fetch mnist` gets it")
    return root
