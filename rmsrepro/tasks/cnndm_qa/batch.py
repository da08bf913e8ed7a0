"""A batch of cloze questions as the reader takes it, and how questions become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rmsrepro.data.cloze.vocabulary import NIL


@dataclass(frozen=True)
class EncodedQuestion:
    """One question as word numbers, int64."""

    passage: np.ndarray
    question: np.ndarray
    answer: int
    order: np.ndarray | None = None
    """Where entities go by order of occurrence: the vocabulary's entity behind each number from the first on."""


@dataclass(frozen=True)
class ClozeBatch:
    """B questions, int64, time first, padded with NIL behind their ends."""

    passage: Tensor
    """[T, B]"""
    passage_lengths: Tensor
    """[B]"""
    question: Tensor
    """[S, B]"""
    question_lengths: Tensor
    """[B]"""
    answer: Tensor
    """[B]"""

    def to(self, device: torch.device) -> ClozeBatch:
        """Return the batch on `device`."""
        parts = (self.passage, self.passage_lengths, self.question, self.question_lengths, self.answer)
        return ClozeBatch(*(part.to(device) for part in parts))


def make_batch(questions: Sequence[EncodedQuestion], relabel: np.ndarray | None = None) -> ClozeBatch:
    """Pad `questions` to one batch; `relabel` [V] gives the word that stands for each, if not itself."""
    passage, passage_lengths = _pad([question.passage for question in questions])
    question, question_lengths = _pad([question.question for question in questions])
    answer = np.array([question.answer for question in questions], np.int64)
    if relabel is not None:
        passage, question, answer = relabel[passage], relabel[question], relabel[answer]
    arrays = (passage, passage_lengths, question, question_lengths, answer)
    return ClozeBatch(*map(torch.from_numpy, arrays))


def _pad(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(part) for part in parts], np.int64)
    padded = np.full((int(lengths.max()), len(parts)), NIL, np.int64)
    for column, part in enumerate(parts):
        padded[: len(part), column] = part
    return padded, lengths
