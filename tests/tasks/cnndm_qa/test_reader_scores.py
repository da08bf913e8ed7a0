"""Right over all words, right among the passage's entities, and right by counting: by hand."""

import math

import numpy as np
import pytest
import torch

from rmsrepro.data.cloze.vocabulary import UNK
from rmsrepro.tasks.cnndm_qa.batch import EncodedQuestion, make_batch
from rmsrepro.tasks.cnndm_qa.scoring import baselines, negative_log_likelihood, score

ENTITIES = range(4, 8)


def question(passage, asked, answer):
    return EncodedQuestion(np.array(passage), np.array(asked), answer)


def test_words_compete_for_the_error_and_the_passage_s_entities_for_their_accuracy():
    batch = make_batch([question([8, 4, 5], [9], 5), question([8, 6], [9], 7), question([8, 9], [9], 4)])
    logits = torch.zeros(3, 10)
    logits[0, [8, 5, 4, 7]] = torch.tensor([3.0, 2.0, 1.0, 2.5])
    logits[1, 7] = 5.0
    logits[2, 4] = 5.0
    scores = score(logits, batch, ENTITIES, 0.0)
    assert scores.word.tolist() == [8, 7, 4]
    assert scores.right_word.tolist() == [False, True, True]
    assert scores.entity.tolist() == [5, 6, -1]
    assert scores.right_entity.tolist() == [True, False, False]


def test_an_unknown_answer_is_never_right():
    batch = make_batch([question([8, 4], [9], UNK)])
    logits = torch.zeros(1, 10)
    logits[0, UNK] = 9.0
    assert not score(logits, batch, ENTITIES, 0.0).right_word.item()


def test_the_answer_s_probability_never_falls_below_the_code_base_s_eps():
    logits = torch.tensor([[0.0, 1.0], [0.0, 1000.0]])
    answer = torch.tensor([1, 0])
    losses = negative_log_likelihood(logits, answer, 1e-8)
    assert losses[0].item() == pytest.approx(math.log(1 + math.exp(-1)), abs=1e-6)
    assert losses[1].item() == pytest.approx(8 * math.log(10), rel=1e-6)
    assert negative_log_likelihood(logits, answer, 0.0)[1].item() == pytest.approx(1000)


def test_a_tie_of_n_entities_counts_as_one_nth():
    counted = baselines(
        [
            question([4, 4, 5], [9], 4),  # right
            question([4, 4, 5], [4, 9], 4),  # the most frequent, but the question names it
            question([4, 4, 5, 5, 6], [9], 5),  # one of two
            question([4, 5], [9], 6),  # not there
            question([8, 9], [9], 6),  # no entities at all
        ],
        ENTITIES,
    )
    assert counted["max_frequency"] == pytest.approx((1 + 1 + 0.5) / 5)
    assert counted["exclusive_frequency"] == pytest.approx((1 + 0.5) / 5)
    assert counted["error_floor"] == pytest.approx(2 / 5)
    assert baselines([], ENTITIES)["max_frequency"] == 0
