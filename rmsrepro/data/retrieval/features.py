"""Image features in .npy files of any size: rows are read as they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from rmsrepro.errors import DataError, single_line

_FLOATS = tuple(np.dtype(kind) for kind in (np.float16, np.float32, np.float64))


class Features(Protocol):
    """A matrix of image features that may be larger than memory."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and width."""
        ...

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Return rows `index` [B] as float32 [B, width]."""
        ...


@dataclass(frozen=True)
class ArrayFeatures:
    """Features that are in memory."""

    array: np.ndarray
    """[rows, width]"""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and width."""
        return self.array.shape[0], self.array.shape[1]

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Return rows `index` [B] as float32 [B, width]."""
        return self.array[index].astype(np.float32)


@dataclass(frozen=True)
class FeatureFile:
    """The matrix in a .npy file of format version 1 to 3, float16, float32 or float64."""

    path: Path
    shape: tuple[int, int]
    dtype: np.dtype
    offset: int
    """Bytes in front of the first row."""

    @classmethod
    def open(cls, path: Path) -> FeatureFile:
        """Read the header of `path`.

        Raises:
            DataError: it is no .npy file, is cut short, or holds something else than rows of floats.
        """
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path} cannot be read as a .npy file: {single_line(error)}") from error
        if not isinstance(mapped, np.memmap):
            raise DataError(f"{path} is an archive of arrays: expected one array, as numpy.save writes it")
        if mapped.ndim != 2 or 0 in mapped.shape:
            raise DataError(f"{path} has shape {mapped.shape}: expected one row of features per image")
        if mapped.dtype.newbyteorder("=") not in _FLOATS:
            raise DataError(f"{path} holds {mapped.dtype}: expected float16, float32 or float64")
        if not mapped.flags.c_contiguous:
            raise DataError(f"{path} is stored column by column: save numpy.ascontiguousarray of it")
        return cls(path, (mapped.shape[0], mapped.shape[1]), mapped.dtype, mapped.offset)

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Return rows `index` [B] as float32 [B, width].

        The file is mapped anew each time, so that pages of former batches do not count as this process's memory.
        """
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)[index].astype(np.float32)


def normalise_rows(rows: np.ndarray) -> np.ndarray:
    """Return `rows` [B, width], float32, divided by their L2 norms; a row of zeros stays."""
    # The squares of float32 numbers above 1e19 or below 1e-19 are numbers in float64 only.
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return (rows / np.where(norms == 0, 1, norms)).astype(np.float32)
