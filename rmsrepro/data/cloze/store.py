"""A parsed cloze data set on disk: word numbers that are mapped into memory, one row of offsets per question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: Raised when the same archive must be parsed anew.
FORMAT = 1
COLUMNS = ("start", "passage", "question", "answer")
META, WORDS, COUNTS = "meta.json", "words.txt", "counts.npy"


@dataclass(frozen=True)
class ClozeSplit:
    """The questions of one split, in the archive's order; word numbers are those of `ClozeStore.words`."""

    tokens: np.ndarray
    """int32: each question's passage, then its question, one after another."""
    rows: np.ndarray
    """int64 [N, 4]: where it starts in `tokens`, words of passage and question, and the answer's number."""
    names_file: Path | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def passage(self, row: int) -> np.ndarray:
        """Return the passage's word numbers."""
        start, passage = self.rows[row, :2]
        return self.tokens[start : start + passage]

    def question(self, row: int) -> np.ndarray:
        """Return the question's word numbers."""
        start, passage, question = self.rows[row, :3]
        return self.tokens[start + passage : start + passage + question]

    def names(self) -> list[str]:
        """Return the names of the question files."""
        if self.names_file is None:
            return [str(row) for row in range(len(self))]
        return self.names_file.read_text(encoding="utf-8").split("\n")[:-1]


@dataclass(frozen=True)
class ClozeStore:
    """A data set as it was parsed, before any choice of a vocabulary."""

    archive: Path
    sha256: str
    """Of the archive."""
    words: list[str]
    counts: np.ndarray
    """int64 [W]: how often each word stands in the training split."""
    splits: Mapping[str, ClozeSplit]
    facts: Mapping[str, Any]
    """What was read, skipped and left out, by split."""


def load_store(folder: Path, archive: Path) -> ClozeStore:
    """Open what `rmsrepro.data.cloze.parse` has written; takes a moment, whatever the size."""
    meta = json.loads((folder / META).read_text())
    words = (folder / WORDS).read_text(encoding="utf-8").split("\n")[:-1]
    splits = {}
    for split in meta["splits"]:
        rows = np.load(folder / f"{split}.rows.npy", mmap_mode="r")
        tokens = np.memmap(folder / f"{split}.tokens.i32", dtype=np.int32, mode="r")
        splits[split] = ClozeSplit(tokens, rows, folder / f"{split}.names.txt")
    return ClozeStore(archive, meta["sha256"], words, np.load(folder / COUNTS), splits, meta["facts"])
