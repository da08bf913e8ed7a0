"""Batches follow from seed, epoch and index alone; entities change names together in passage, question and answer."""

import numpy as np
import pytest
import torch

from rmsrepro.errors import DataError
from rmsrepro.tasks.cnndm_qa.entities import by_occurrence, permutation
from rmsrepro.tasks.cnndm_qa.order import epoch_order

LENGTHS = np.random.default_rng(1).integers(5, 400, 103)


def test_an_epoch_visits_no_question_twice_and_the_next_one_differs():
    order = epoch_order("bucketed", LENGTHS, 10, seed=1, epoch=0)
    assert order.shape == (10, 10)
    assert len(np.unique(order)) == 100
    assert np.array_equal(order, epoch_order("bucketed", LENGTHS, 10, seed=1, epoch=0))
    for seed, epoch in ((1, 1), (2, 0)):
        assert not np.array_equal(order, epoch_order("bucketed", LENGTHS, 10, seed=seed, epoch=epoch))


def test_buckets_hold_hardly_any_padding():
    lengths = np.random.default_rng(2).integers(5, 400, 3200)

    def padding(batching):
        batches = lengths[epoch_order(batching, lengths, 32, seed=1, epoch=0)]
        return (batches.max(1, keepdims=True) - batches).sum() / batches.sum()

    assert padding("bucketed") < 0.05 < padding("paper")


def test_the_paper_s_order_is_the_file_s_and_sampling_repeats():
    assert np.array_equal(epoch_order("paper", LENGTHS, 10, 1, 5).ravel(), np.arange(100))
    sampled = epoch_order("sampled", LENGTHS, 10, seed=1, epoch=0)
    assert sampled.shape == (10, 10)
    assert len(np.unique(sampled)) < 100


def test_every_epoch_has_as_many_batches(load_task):
    task = load_task("train.batch_size=8")
    assert task.batches_per_epoch() == 3
    assert task.facts()["train_questions_dropped_per_epoch"] == 6


@pytest.mark.parametrize("batching", ["bucketed", "sampled", "paper"])
def test_a_batch_is_the_same_whatever_came_before(load_task, batching):
    first, second = (load_task(f"task.batching={batching}") for _ in range(2))
    for epoch, index in ((0, 0), (1, 3), (0, 2)):
        first.batch(epoch, index)
    one, other = first.batch(2, 1).inputs, second.batch(2, 1).inputs
    assert torch.equal(one.passage, other.passage)
    assert torch.equal(one.answer, other.answer)


def test_a_permutation_moves_entities_among_themselves_only():
    relabel = permutation(20, range(4, 12), np.random.default_rng(1))
    assert sorted(relabel) == list(range(20))
    assert np.array_equal(np.delete(relabel, range(4, 12)), np.delete(np.arange(20), range(4, 12)))
    assert not np.array_equal(relabel, np.arange(20))


def test_names_change_together_and_afresh_for_every_batch(load_task):
    plain = load_task("task.entities=given")
    named = load_task("task.entities=permuted")
    maps = []
    for epoch, index in ((0, 0), (0, 1), (1, 0)):
        before, after = plain.batch(epoch, index).inputs, named.batch(epoch, index).inputs
        pairs = {}
        for field in ("passage", "question", "answer"):
            ours, theirs = getattr(before, field).flatten().tolist(), getattr(after, field).flatten().tolist()
            for a, b in zip(ours, theirs, strict=True):
                assert pairs.setdefault(a, b) == b
        entities = named.corpus.vocabulary.entities
        assert all((a in entities) == (b in entities) and (a in entities or a == b) for a, b in pairs.items())
        maps.append(tuple(sorted(pairs.items())))
    assert len(set(maps)) == 3


def test_passages_are_cut_where_that_is_asked_for_and_answers_lost_so_are_counted(load_task):
    whole, cut = load_task(), load_task("task.truncate=1")
    assert whole.facts()["valid_error_floor"] == 0
    assert cut.batch(0, 0).inputs.passage.shape[0] == 1
    assert cut.facts()["valid_error_floor"] == 1


def test_fewer_questions_than_a_batch_are_refused(load_task):
    with pytest.raises(DataError, match=r"30 training questions do not fill train\.batch_size=64"):
        load_task("train.batch_size=64")


def test_made_up_questions_have_the_paper_s_shapes(load_task):
    task = load_task("size=paper", "train.batch_size=16")
    task.load_synthetic()
    batch = task.batch(0, 0).inputs
    assert len(task.corpus.vocabulary) == 65_829
    assert 80 < batch.passage_lengths.float().mean() < 140
    assert 9 < batch.question_lengths.float().mean() < 20
    again = load_task("size=paper", "train.batch_size=16", "norm=none", "seed=9")
    again.load_synthetic()
    assert np.array_equal(again.corpus.splits["train"].tokens, task.corpus.splits["train"].tokens)


def test_entities_are_numbered_as_passage_then_question_name_them():
    passage, question, answer = (np.array(part) for part in ([7, 30, 5, 7, 9], [11, 30, 5], [9]))
    numbering = by_occurrence([passage, question, answer], range(4, 12))
    assert [part.tolist() for part in numbering.parts] == [[4, 30, 5, 4, 6], [7, 30, 5], [6]]
    assert numbering.order.tolist() == [7, 5, 9, 11]


def test_answers_are_written_under_the_names_that_the_data_have(load_task):
    plain, numbered = load_task("task.entities=given"), load_task("task.entities=by_occurrence")
    vocabulary = plain.corpus.vocabulary
    for row in range(3):
        before, after = plain.corpus.question("valid", row), numbered.corpus.question("valid", row)
        assert [vocabulary.original(int(word), after.order) for word in after.passage] == before.passage.tolist()
        assert vocabulary.original(after.answer, after.order) == before.answer
