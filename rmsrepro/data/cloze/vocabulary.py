"""The words that the attentive reader knows, from the training questions only (paper section 2.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmsrepro.data.cloze.question import is_entity
from rmsrepro.data.cloze.store import ClozeStore
from rmsrepro.data.files import sha256_hex

NIL, EOS, UNK, NUM = range(4)
SPECIAL = ("<nil>", "<eos>", "<unk>", "<num>")


@dataclass(frozen=True)
class ClozeVocabulary:
    """Numbers of words: the special ones, then all entities side by side, then words, most frequent first."""

    words: tuple[str, ...]
    entities: range
    """The entities' numbers: a permutation of them is a permutation of one slice."""
    table: np.ndarray
    """int32 [W]: the number of each word of the store; UNK for one that is not known."""
    stored_entities: np.ndarray
    """bool [W]: the store's word is an entity."""

    def __len__(self) -> int:
        return len(self.words)

    def sha256(self) -> str:
        """Return a checksum of the words in their order: error rates compare only where it is the same."""
        return sha256_hex("\n".join(self.words).encode())

    def original(self, word: int, order: np.ndarray | None) -> int:
        """Return the word that `word` stands for where the entities are numbered by `order` [n]."""
        place = word - self.entities.start
        return word if order is None or not 0 <= place < len(order) else int(order[place])

    def encode(self, *parts: np.ndarray) -> list[np.ndarray]:
        """Return word numbers int64 for the store's numbers of one question's parts.

        An entity that no training question has stands for one that this question has not: marks are arbitrary, and
        an entity is what the passage says of it. It is unknown only where all the known ones are taken.
        """
        encoded = [self.table[part].astype(np.int64) for part in parts]
        lost = [(ids == UNK) & self.stored_entities[part] for ids, part in zip(encoded, parts, strict=True)]
        if any(mask.any() for mask in lost):
            used = {int(i) for ids in encoded for i in ids}
            free = (entity for entity in self.entities if entity not in used)
            names = dict.fromkeys(int(i) for part, mask in zip(parts, lost, strict=True) for i in part[mask])
            stand_ins = {name: next(free, UNK) for name in names}
            for ids, part, mask in zip(encoded, parts, lost, strict=True):
                ids[mask] = [stand_ins[int(i)] for i in part[mask]]
        return encoded


def build_vocabulary(store: ClozeStore, min_count: int) -> ClozeVocabulary:
    """Take the words that training has at least `min_count` times, and every entity that it has at all."""
    counts, words = store.counts, store.words
    entity = np.fromiter((is_entity(word) for word in words), bool, len(words))
    literal = np.fromiter((word in SPECIAL for word in words), bool, len(words))
    seen = np.flatnonzero(entity & (counts > 0)).tolist()
    entities = sorted(seen, key=lambda i: int(words[i].removeprefix("@entity")))
    plain = sorted(
        np.flatnonzero(~entity & ~literal & (counts >= min_count)).tolist(), key=lambda i: (-counts[i], words[i])
    )
    kept = entities + plain
    table = np.full(len(words), UNK, np.int32)
    table[kept] = np.arange(len(SPECIAL), len(SPECIAL) + len(kept))
    known = (*SPECIAL, *(words[i] for i in kept))
    return ClozeVocabulary(known, range(len(SPECIAL), len(SPECIAL) + len(entities)), table, entity)
