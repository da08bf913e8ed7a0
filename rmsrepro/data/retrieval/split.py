"""One split of captioned images: texts and features that were checked against each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmsrepro.data.retrieval.captions import PER_IMAGE, Captions
from rmsrepro.data.retrieval.features import FeatureFile, Features
from rmsrepro.data.retrieval.layouts import find_split
from rmsrepro.data.retrieval.scan import scan_features
from rmsrepro.data.text import Text, read_text
from rmsrepro.errors import DataError


@dataclass(frozen=True)
class CaptionedImages:
    """The files of one split, read and checked; captions five per image, in the order of the rows."""

    layout: str
    text: Text
    features: FeatureFile
    features_sha256: str
    row_step: int
    """Rows of the feature file per image: 1, or 5 where each is there once for every caption."""

    @property
    def images(self) -> int:
        """Number of images."""
        return self.features.shape[0] // self.row_step


@dataclass(frozen=True)
class Pairs:
    """Images and the word numbers of their captions."""

    captions: Captions
    features: Features
    row_step: int = 1

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.captions) // PER_IMAGE

    @property
    def width(self) -> int:
        """Numbers that describe an image."""
        return self.features.shape[1]

    def image_rows(self, images: np.ndarray) -> np.ndarray:
        """Return the features of `images` [B], float32 [B, width]."""
        return self.features.rows(images * self.row_step)


def read_split(folder: Path, split: str, cnn: str | None = None) -> CaptionedImages:
    """Read the captions of a split and check them and every feature row.

    Raises:
        MissingSplitError: the split is not there.
        DataError: a file is damaged, a row is not finite, or captions and rows do not go together five to one.
    """
    files = find_split(folder, split, cnn)
    text, features = read_text(files.captions), FeatureFile.open(files.features)
    captions, rows = len(text.lines), features.shape[0]
    repeated = files.layout == "vsepp" and rows == captions and captions % PER_IMAGE == 0
    if not repeated and captions != PER_IMAGE * rows:
        raise DataError(
            f"{files.captions} has {captions} captions and {files.features} has {rows} rows: expected "
            f"{PER_IMAGE * rows} captions, {PER_IMAGE} per image in the order of the rows"
        )
    scan = scan_features(features)
    if repeated and not scan.repeated:
        raise DataError(
            f"{files.captions} has {captions} captions and {files.features} has as many rows, which are not the "
            f"same row {PER_IMAGE} times for each image: expected {PER_IMAGE} captions per image"
        )
    return CaptionedImages(files.layout, text, features, scan.sha256, PER_IMAGE if repeated else 1)
