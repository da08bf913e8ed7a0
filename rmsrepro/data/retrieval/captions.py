"""Captions as word numbers: every caption ends with an end-of-sentence token, and five in a row have one image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rmsrepro.data.vocabulary import END, UNKNOWN, Vocabulary

#: Captions of every image, one after the other in a captions file.
PER_IMAGE = 5
#: The ids of the two tokens that are no words, as in order-embedding's code.
END_ID, UNKNOWN_ID = 0, 1


@dataclass(frozen=True)
class Captions:
    """Captions of different lengths, end to end."""

    ids: np.ndarray
    """int32 [N]: the word numbers of all captions, END_ID behind each."""
    starts: np.ndarray
    """int64 [captions + 1]: where each begins; its end is where the next one begins."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every caption, the end of sentence counted: int64 [captions]."""
        return np.diff(self.starts)

    def unknown_rate(self) -> float:
        """Return the share of words, ends of sentence not counted, that are not in the vocabulary."""
        words = self.ids[self.ids != END_ID]
        return float((words == UNKNOWN_ID).mean()) if len(words) else 0.0

    def first(self, count: int) -> Captions:
        """Return the first `count` captions."""
        starts = self.starts[: count + 1]
        return Captions(self.ids[: starts[-1]], starts)

    def padded(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return captions `rows` [B] as int64 [T, B], filled up with END_ID, and their lengths [B]."""
        starts, lengths = self.starts[rows], self.lengths[rows]
        steps = np.arange(lengths.max(initial=1))[:, None]  # [T, 1]
        inside = steps < lengths
        return np.where(inside, self.ids[np.where(inside, starts + steps, 0)], END_ID).astype(np.int64), lengths


def caption_vocabulary(texts: Iterable[Sequence[str]]) -> Vocabulary:
    """Number the words of caption lines, most frequent first, behind `<eos>` = 0 and `<unk>` = 1; none is cut off.

    Source: order-embedding's vocabulary, which is made of the training and the development captions.
    """
    counts = Counter(word for lines in texts for line in lines for word in line.split())
    words = sorted(counts.keys() - {END, UNKNOWN}, key=lambda word: (-counts[word], word))
    return Vocabulary([END, UNKNOWN, *words])


def encode_captions(lines: Sequence[str], vocabulary: Vocabulary) -> Captions:
    """Turn caption lines, words separated by white space, into numbers."""
    starts = np.zeros(len(lines) + 1, np.int64)
    np.cumsum([len(line.split()) + 1 for line in lines], out=starts[1:])
    return Captions(vocabulary.encode(lines).ids, starts)
