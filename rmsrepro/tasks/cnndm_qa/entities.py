"""Which numbers a question's entities go by: any will do, for only what is said of them counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Numbering:
    """Entities under other numbers."""

    parts: list[np.ndarray]
    """The words of each part, int64, the entities among them renumbered."""
    order: np.ndarray
    """int64 [n]: `order[i]` is the entity that now goes by the i-th number."""


def permutation(vocabulary: int, entities: range, draw: np.random.Generator) -> np.ndarray:
    """Return the words [V] that stand for all words when the entities among them change places at random."""
    relabel = np.arange(vocabulary)
    relabel[entities.start : entities.stop] = draw.permutation(np.array(entities))
    return relabel


def by_occurrence(parts: list[np.ndarray], entities: range) -> Numbering:
    """Number the entities of one question in the order in which its `parts` name them (Chen et al. 2016).

    The first entity of the passage is always the first of the vocabulary, and so on: a reader meets few numbers, and
    each of them often.
    """
    words = np.concatenate(parts)
    found = words[(words >= entities.start) & (words < entities.stop)]
    _, first = np.unique(found, return_index=True)
    order = found[np.sort(first)]
    number = np.zeros(len(entities), np.int64)
    number[order - entities.start] = np.arange(len(order)) + entities.start
    renumbered = []
    for part in parts:
        named = (part >= entities.start) & (part < entities.stop)
        renumbered.append(np.where(named, number[np.where(named, part - entities.start, 0)], part))
    return Numbering(renumbered, order)
