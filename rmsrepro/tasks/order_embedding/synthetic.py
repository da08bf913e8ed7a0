"""Made-up pairs of the paper's shapes, to time training steps without COCO."""

from __future__ import annotations

import numpy as np

from rmsrepro.data.retrieval.captions import END_ID, PER_IMAGE, Captions
from rmsrepro.data.retrieval.features import ArrayFeatures
from rmsrepro.data.retrieval.split import Pairs

#: COCO: features of VGG-19, words of the training and development captions, mean and spread of words per caption.
WIDTH, VOCABULARY, WORDS, SPREAD = 4096, 31_000, 10.5, 2.4
_SHORTEST, _LONGEST = 5, 49


def synthetic_pairs(images: int) -> Pairs:
    """Return `images` random images with five random captions each, the same every time."""
    draw = np.random.default_rng(0)
    words = np.clip(draw.normal(WORDS, SPREAD, images * PER_IMAGE).round(), _SHORTEST, _LONGEST).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(words + 1)])
    # Frequent words first, as in a real vocabulary: ranks fall off like one over themselves.
    ids = np.minimum(np.exp(draw.uniform(np.log(2), np.log(VOCABULARY), starts[-1])), VOCABULARY - 1).astype(np.int32)
    ids[starts[1:] - 1] = END_ID
    return Pairs(Captions(ids, starts), ArrayFeatures(draw.standard_normal((images, WIDTH), np.float32)))
