"""Vocabulary and encoded training pairs, made once and kept by a key of the text and the options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from rmsrepro.data.files import not_writable, sha256_hex
from rmsrepro.data.locking import locked
from rmsrepro.data.parallel.encoded import EncodedPairs
from rmsrepro.data.parallel.file_pairs import ExaminedPair
from rmsrepro.data.parallel.lines import read_lines
from rmsrepro.data.parallel.shards import COUNTS_FILE, HASHES, EncodingRules, encode_corpus
from rmsrepro.data.parallel.subwords import Subwords, learn_subwords
from rmsrepro.data.progress import say
from rmsrepro.data.root import CACHE_VARIABLE
from rmsrepro.errors import DataError
from rmsrepro.runs.atomic import read_json, write_bytes_atomic, write_json_atomic

SAMPLE_PAIRS = 500_000
"""Subwords are learned from at most so many pairs, evenly spread over the text."""
_FORMAT = 1  # to be raised when what is kept changes its meaning
_MODEL, _LEARNING = "subwords.model", "subwords.json"


@dataclass(frozen=True)
class TrainingText:
    """The first `limit` pairs of some pairs of files, one after the other."""

    parts: tuple[ExaminedPair, ...]
    limit: int | None
    lowercase: bool

    @property
    def pairs(self) -> int:
        """How many pairs there are, before any is dropped."""
        lines = sum(part.lines for part in self.parts)
        return lines if self.limit is None else min(lines, self.limit)

    @property
    def sides(self) -> tuple[list[Path], list[Path]]:
        """The files of both sides."""
        return [part.files.source for part in self.parts], [part.files.target for part in self.parts]

    def identity(self) -> list[Any]:
        """Return plain values that are the same for the same text."""
        checksums = [[side.sha256 for side in part.sides] for part in self.parts]
        return [checksums, self.pairs, self.lowercase]

    def sample(self, every: int) -> Iterator[str]:
        """Yield every `every`-th sentence of the source, then of the target."""
        for paths in self.sides:
            for line in islice(read_lines(paths), 0, self.pairs, every):
                sentence = line.decode()
                yield sentence.lower() if self.lowercase else sentence


@dataclass(frozen=True)
class Prepared:
    """A vocabulary, the training pairs in its ids, and what was counted on the way."""

    subwords: Subwords
    pairs: EncodedPairs
    hashes: np.ndarray
    """Sorted `pair_hash` of all training pairs, int64."""
    vocabulary_facts: dict[str, Any]
    counts: dict[str, int]


def prepare(text: TrainingText, vocabulary: int, max_length: int, folder: Path) -> Prepared:
    """Return what is kept below `folder` for this text and these options, making it where it is not there.

    Raises:
        DataError: `vocabulary` does not fit the text, or the folder cannot be written or holds what is damaged.
    """
    key = [_FORMAT, sentencepiece.__version__, SAMPLE_PAIRS, vocabulary, *text.identity()]
    home = folder / sha256_hex(json.dumps(key).encode())[:16]
    pairs = home / f"pairs-{max_length}"
    if not (home / _MODEL).is_file() or not pairs.is_dir():
        try:
            with locked(home, "preparing", CACHE_VARIABLE):
                _make(text, vocabulary, max_length, home, pairs)
        except OSError as error:
            raise not_writable(home, error, CACHE_VARIABLE) from error
    try:
        return Prepared(
            Subwords((home / _MODEL).read_bytes()),
            EncodedPairs.open(pairs),
            np.load(pairs / HASHES, mmap_mode="r"),
            read_json(home / _LEARNING),
            read_json(pairs / COUNTS_FILE),
        )
    except (OSError, EOFError, ValueError, RuntimeError) as error:  # sentencepiece's is a RuntimeError
        raise DataError(f"{home} is damaged ({error}); delete it and repeat the run") from error


def _make(text: TrainingText, vocabulary: int, max_length: int, home: Path, pairs: Path) -> None:
    """Make what another process has not made meanwhile."""
    if not (home / _MODEL).is_file():
        every = -(-text.pairs // SAMPLE_PAIRS)
        say(f"learning {vocabulary} subwords from {-(-text.pairs // every)} sentence pairs")
        model, learning = learn_subwords(text.sample(every), vocabulary)
        write_json_atomic(home / _LEARNING, {"every_nth_pair": every, **asdict(learning)})
        write_bytes_atomic(home / _MODEL, model)
    if not pairs.is_dir():
        say(f"encoding {text.pairs} sentence pairs into {pairs}")
        subwords = Subwords((home / _MODEL).read_bytes())
        encode_corpus(text.sides, text.pairs, subwords, EncodingRules(text.lowercase, max_length), pairs)
