"""Labelled images in memory, split into training and test, checked before anybody uses them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmsrepro.errors import DataError


@dataclass(frozen=True)
class ImageSplits:
    """Images as uint8 [N, H, W] or [N, C, H, W] and labels as int64 [N], for training and test."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    checksums: dict[str, str]  # canonical file name -> "sha256:<hex>", for a run's manifest
    source: str  # the folder the data was read from


def checked_labels(labels: np.ndarray, images: np.ndarray, classes: int, where: Path | str) -> np.ndarray:
    """Return `labels` as int64 [N] once there is one for each image and each names one of `classes` classes.

    Raises:
        DataError: the counts differ, or a label is outside 0..classes-1; the text has its index and value.
    """
    if len(labels) != len(images):
        raise DataError(f"{where}: {len(images)} images but {len(labels)} labels; each image needs one label")
    labels = labels.astype(np.int64)
    outside = np.flatnonzero((labels < 0) | (labels >= classes))
    if outside.size:
        index = int(outside[0])
        more = f" (and {outside.size - 1} more)" if outside.size > 1 else ""
        raise DataError(
            f"{where}: label {int(labels[index])} at index {index}{more} is not a class; allowed are 0 to {classes - 1}"
        )
    return labels
