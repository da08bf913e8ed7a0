"""Words as numbers: a vocabulary from the training text, and any text as one stream of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from rmsrepro.data.files import sha256_hex

UNKNOWN, END = "<unk>", "<eos>"


@dataclass(frozen=True)
class TokenStream:
    """A text as word numbers, one end-of-sentence token after each line."""

    ids: np.ndarray  # int32 [N]
    unknown: np.ndarray  # bool [N]: it is <unk>, whether the text says so or the word is not in the vocabulary
    outside: np.ndarray  # bool [N]: its word is not in the vocabulary

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, tokens: int | None) -> TokenStream:
        """Return the first `tokens` tokens; all of them for None."""
        return TokenStream(self.ids[:tokens], self.unknown[:tokens], self.outside[:tokens])


class Vocabulary:
    """The known words, most frequent first; `<unk>` and `<eos>` are always among them.

    The embeddings of frequent words then lie close together in memory.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._index = {word: i for i, word in enumerate(self.words)}

    @classmethod
    def from_lines(cls, lines: Iterable[str], min_count: int = 1) -> Vocabulary:
        """Take the words that occur at least `min_count` times; build it from the training text only."""
        counts = Counter(chain.from_iterable(map(_tokens, lines)))
        kept = {word: count for word, count in counts.items() if count >= min_count or word in (UNKNOWN, END)}
        rare = counts.total() - sum(kept.values())
        kept[UNKNOWN] = kept.get(UNKNOWN, 0) + rare
        kept.setdefault(END, 0)
        return cls(sorted(kept, key=lambda word: (-kept[word], word)))

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, lines: Iterable[str]) -> TokenStream:
        """Return the tokens of `lines`, split at white space; words that are not known become `<unk>`."""
        index = self._index
        # -1 tells an unseen word from a literal <unk>, which public corpora are full of.
        numbers = (index.get(word, -1) for word in chain.from_iterable(map(_tokens, lines)))
        ids = np.fromiter(numbers, np.int32)
        outside = ids == -1
        ids[outside] = index[UNKNOWN]
        return TokenStream(ids, ids == index[UNKNOWN], outside)

    def sha256(self) -> str:
        """Return a checksum of the words in their order: perplexities compare only where it is the same."""
        return sha256_hex("\n".join(self.words).encode())


def _tokens(line: str) -> Iterator[str]:
    yield from line.split()
    yield END
