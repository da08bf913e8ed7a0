"""Encoded sentence pairs: all ids of a side in one array on disk, and where each sentence begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from rmsrepro.data.parallel.symbols import EOS

SIDES = ("source", "target")
#: Ids that are counted at once.
_COUNTED = 1 << 20


def id_type(vocabulary: int) -> np.dtype:
    """Return the smallest type that holds every id of a vocabulary of that size: uint16 or int32."""
    return np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.int32)


@dataclass(frozen=True)
class Ragged:
    """N sentences of different lengths, one after the other."""

    ids: np.ndarray
    """All ids, uint16 or int32."""
    offsets: np.ndarray
    """int64 [N + 1]: sentence i is ids[offsets[i] : offsets[i + 1]]."""

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]], dtype: np.dtype) -> Ragged:
        """Lay out sentences that are in memory."""
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        offsets = offsets_of(lengths)
        return cls(np.fromiter(chain.from_iterable(sentences), dtype, int(offsets[-1])), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return where each sentence begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


class EncodedPairs:
    """Sentence pairs as subword ids, without BOS and EOS."""

    def __init__(self, source: Ragged, target: Ragged) -> None:
        assert len(source) == len(target), (len(source), len(target))
        self.source, self.target = source, target

    @classmethod
    def of(cls, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], dtype: np.dtype) -> EncodedPairs:
        """Lay out pairs that are in memory."""
        return cls(Ragged.of(source, dtype), Ragged.of(target, dtype))

    @classmethod
    def open(cls, folder: Path) -> EncodedPairs:
        """Map the pairs that `write_side` wrote; nothing is read yet."""
        source, target = (
            Ragged(np.load(folder / f"{side}.ids.npy", mmap_mode="r"), np.load(folder / f"{side}.offsets.npy"))
            for side in SIDES
        )
        return cls(source, target)

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def source_lengths(self) -> np.ndarray:
        """int64 [N]: ids of each source, EOS counted."""
        return np.diff(self.source.offsets) + 1

    @cached_property
    def target_lengths(self) -> np.ndarray:
        """int64 [N]: ids of each target, EOS counted."""
        return np.diff(self.target.offsets) + 1

    def target_counts(self, vocabulary: int) -> np.ndarray:
        """Return how often each id is to be predicted, EOS once a sentence: int64 [vocabulary]."""
        counts = np.zeros(vocabulary, np.int64)
        for begin in range(0, len(self.target.ids), _COUNTED):  # bincount copies what it reads into int64
            counts += np.bincount(self.target.ids[begin : begin + _COUNTED], minlength=vocabulary)
        counts[EOS] += len(self)
        return counts

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return source and target of one pair, without BOS and EOS."""
        return self.source[index], self.target[index]


def write_side(folder: Path, side: str, lengths: np.ndarray, parts: Iterable[np.ndarray], dtype: np.dtype) -> None:
    """Write one side of `EncodedPairs.open`'s files: the lengths of all sentences, and their ids part by part."""
    np.save(folder / f"{side}.offsets.npy", offsets_of(lengths))
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (int(lengths.sum()),)}
    with (folder / f"{side}.ids.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            part.tofile(file)
