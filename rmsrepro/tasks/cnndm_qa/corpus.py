"""The questions that a run trains and is judged on, as numbers of one vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rmsrepro.data.cloze.cache import open_archive
from rmsrepro.data.cloze.dataset import ClozeDataSet
from rmsrepro.data.cloze.store import ClozeSplit
from rmsrepro.data.cloze.vocabulary import ClozeVocabulary, build_vocabulary
from rmsrepro.data.registry import get_data_set
from rmsrepro.errors import DataError
from rmsrepro.tasks.cnndm_qa.batch import EncodedQuestion
from rmsrepro.tasks.cnndm_qa.config import Config
from rmsrepro.tasks.cnndm_qa.entities import by_occurrence


@dataclass
class ClozeCorpus:
    """A vocabulary from the training questions, and `train`, `valid` and perhaps `test`."""

    vocabulary: ClozeVocabulary
    splits: dict[str, ClozeSplit]
    truncate: int
    """Words of a passage that are read; -1 for all."""
    by_occurrence: bool
    """Whether each question's entities are numbered as they occur."""
    sha256: str
    parsed: dict[str, Any]
    """What was read, skipped and left out, by split."""

    def lengths(self, split: str) -> np.ndarray:
        """Return how many words of each passage are read, int64 [N]."""
        lengths = self.splits[split].rows[:, 1]
        return np.asarray(lengths if self.truncate == -1 else np.minimum(lengths, self.truncate))

    def question(self, split: str, row: int) -> EncodedQuestion:
        """Return one question."""
        stored = self.splits[split]
        passage = stored.passage(row)
        answer = stored.rows[row, 3:]
        parts = self.vocabulary.encode(
            passage if self.truncate == -1 else passage[: self.truncate], stored.question(row), answer
        )
        order = None
        if self.by_occurrence:
            numbering = by_occurrence(parts, self.vocabulary.entities)
            parts, order = numbering.parts, numbering.order
        passage, question, answer = parts
        return EncodedQuestion(passage, question, int(answer[0]), order)

    def facts(self) -> dict[str, Any]:
        """Return sizes, what was skipped, and how far no model can come, for the record."""
        facts: dict[str, Any] = {
            "vocabulary": len(self.vocabulary),
            "vocabulary_sha256": self.vocabulary.sha256(),
            "entities": len(self.vocabulary.entities),
        }
        for split, stored in self.splits.items():
            parsed = self.parsed.get(split, {})
            facts |= {f"{split}_{name}": count for name, count in parsed.items()}
            facts[f"{split}_questions"] = len(stored)
            facts[f"{split}_words_per_passage"] = round(float(self.lengths(split).mean()), 1)
        return facts


def load_corpus(data: str, root: Path, cfg: Config, cache: Path) -> ClozeCorpus:
    """Read the data set `data` below `root`; raises DataError where it is missing, empty or wrong."""
    data_set = get_data_set(data)
    assert isinstance(data_set, ClozeDataSet)
    archive = data_set.archive(root, cfg.archive)
    store = open_archive(archive, cfg.sentences, cache)
    for split in ("train", "valid"):
        if split not in store.splits:
            raise DataError(f"{archive} has no {split} questions; it has {', '.join(store.splits)}")
    splits = {split: _first(stored, cfg.limit_questions) for split, stored in store.splits.items()}
    vocabulary = build_vocabulary(store, cfg.min_count)
    numbered = cfg.entities == "by_occurrence"
    return ClozeCorpus(vocabulary, splits, cfg.truncate, numbered, store.sha256, dict(store.facts))


def _first(stored: ClozeSplit, count: int | None) -> ClozeSplit:
    return ClozeSplit(stored.tokens, stored.rows[:count], stored.names_file)
