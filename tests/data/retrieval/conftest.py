"""A few captioned images in both layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """Remember checked files in the test's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def captions() -> Callable[..., str]:
    """Return a function that writes captions of different lengths for some images."""

    def write(images: int, each: int = 5) -> str:
        return "".join(f"image {i} {'word ' * (k % 4)}.\n" for i in range(images) for k in range(each))

    return write


@pytest.fixture
def write_split(tmp_path: Path, captions) -> Callable[..., Path]:
    """Return a function that writes a split of seven images in order-embedding's layout and gives its folder."""

    def write(split: str = "train", text: str | None = None, rows: np.ndarray | None = None) -> Path:
        folder = tmp_path / "data" / "captions"
        (folder / "images" / "cnn").mkdir(parents=True, exist_ok=True)
        (folder / f"{split}.txt").write_text(captions(7) if text is None else text)
        array = np.arange(28, dtype=np.float32).reshape(7, 4) if rows is None else rows
        np.save(folder / "images" / "cnn" / f"{split}.npy", array)
        return folder

    return write
