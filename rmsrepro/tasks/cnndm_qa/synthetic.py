"""Made-up questions of the paper's lengths and vocabulary, to time steps without data."""

from __future__ import annotations

import numpy as np

from rmsrepro.data.cloze.store import ClozeSplit
from rmsrepro.data.cloze.vocabulary import SPECIAL, ClozeVocabulary
from rmsrepro.tasks.cnndm_qa.corpus import ClozeCorpus

#: Words of the paper's data (Cooijmans et al. 2016), of which CNN's entities are some 600.
_VOCABULARY, _ENTITIES = 65_829, 600
#: Four sentences of news, and a question: mean and standard deviation of the logarithm of their lengths in words.
_PASSAGE_WORDS, _QUESTION_WORDS = (np.log(110.0), 0.25), (np.log(14.0), 0.3)
_BATCHES = 16


def synthetic_corpus(batch_size: int) -> ClozeCorpus:
    """Return a corpus with some batches of training questions and none to judge by; the same at every call."""
    draw = np.random.Generator(np.random.Philox(2019))
    count = _BATCHES * batch_size
    passages, questions = (
        np.clip(draw.lognormal(*shape, count).round().astype(np.int64), 4, 400)
        for shape in (_PASSAGE_WORDS, _QUESTION_WORDS)
    )
    starts = np.concatenate([[0], np.cumsum(passages + questions)[:-1]])
    first = len(SPECIAL)
    answers = draw.integers(first, first + _ENTITIES, count)
    rows = np.stack([starts, passages, questions, answers], axis=1)
    tokens = draw.integers(first, _VOCABULARY, int((passages + questions).sum())).astype(np.int32)
    vocabulary = ClozeVocabulary(
        words=(*SPECIAL, *(f"word{i}" for i in range(first, _VOCABULARY))),
        entities=range(first, first + _ENTITIES),
        table=np.arange(_VOCABULARY, dtype=np.int32),
        stored_entities=np.zeros(_VOCABULARY, bool),
    )
    return ClozeCorpus(
        vocabulary, {"train": ClozeSplit(tokens, rows)}, truncate=-1, by_occurrence=False, sha256="", parsed={}
    )
