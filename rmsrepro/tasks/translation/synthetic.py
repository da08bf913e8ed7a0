"""Sentence pairs of realistic lengths and no meaning, to time steps without data."""

from __future__ import annotations

import numpy as np

from rmsrepro.data.parallel.batch import EOS
from rmsrepro.data.parallel.encoded import EncodedPairs, Ragged, id_type, offsets_of

#: WMT14 English-German in 32,000 joint subwords has about 27 a sentence, with a long tail (log-normal fits it).
_MEDIAN, _SPREAD = 24.0, 0.6
#: How far a target's length strays from its source's, on the same scale.
_STRAY = 0.18
_PAIRS = 20_000


def synthetic_pairs(vocabulary: int, max_length: int) -> EncodedPairs:
    """Return 20,000 pairs of random subwords, at most `max_length` a side with EOS: the same at every call."""
    draw = np.random.default_rng(0)
    source = _MEDIAN * np.exp(_SPREAD * draw.standard_normal(_PAIRS))
    target = source * np.exp(_STRAY * draw.standard_normal(_PAIRS))
    sides = []
    for lengths in (source, target):
        whole = np.clip(np.round(lengths), 1, max(max_length - 1, 1)).astype(np.int64)
        ids = draw.integers(EOS + 1, max(vocabulary, EOS + 2), whole.sum())
        sides.append(Ragged(ids.astype(id_type(vocabulary)), offsets_of(whole)))
    return EncodedPairs(*sides)
