"""Batches: every pair once an epoch, a pure function of seed, epoch and index, and padding that harms nobody."""

from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rmsrepro.data.parallel import encoded
from rmsrepro.data.parallel.batching import LengthBuckets, collate
from rmsrepro.data.parallel.encoded import EncodedPairs
from rmsrepro.data.parallel.symbols import BOS, EOS, PAD
from rmsrepro.errors import ConfigError

lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=200)
limits = st.one_of(st.integers(1, 500).map(lambda n: {"tokens": n}), st.integers(1, 50).map(lambda n: {"sentences": n}))


def buckets(pairs, **options) -> LengthBuckets:
    source, target = np.array(pairs).reshape(-1, 2).T
    return LengthBuckets(source, target, **{"seed": 1, **options})


def epoch_of(batches: LengthBuckets, epoch: int) -> list[list[int]]:
    return [batches.indices(epoch, index).tolist() for index in range(len(batches))]


@pytest.fixture
def natural() -> np.ndarray:
    """Lengths of 5,000 pairs as those of a real corpus."""
    rng = np.random.default_rng(0)
    source = np.maximum(2, rng.lognormal(3, 0.5, 5000)).astype(int)
    return np.stack([source, np.maximum(2, source * rng.normal(1.1, 0.2, 5000)).astype(int)], axis=1)


@settings(max_examples=200, deadline=None)
@given(pairs=lengths, limit=limits, epoch=st.integers(0, 3))
def test_every_pair_is_there_exactly_once_an_epoch_and_no_batch_exceeds_its_limit(pairs, limit, epoch):
    batches = buckets(pairs, **limit)
    content = epoch_of(batches, epoch)
    assert sorted(chain.from_iterable(content)) == list(range(len(pairs)))
    assert batches.fewest == min(map(len, content))
    for batch in content:
        assert batch
        if "sentences" in limit:
            assert len(batch) <= limit["sentences"]
        else:
            positions = len(batch) * max(max(pairs[index]) for index in batch)
            assert positions <= limit["tokens"] or len(batch) == 1


@settings(max_examples=50, deadline=None)
@given(pairs=lengths, limit=limits)
def test_a_batch_is_a_pure_function_of_seed_epoch_and_index(pairs, limit):
    straight = [epoch_of(buckets(pairs, **limit), epoch) for epoch in range(3)]
    resumed = buckets(pairs, **limit)
    for epoch, index in [(2, 0), (0, len(resumed) - 1), (1, len(resumed) // 2), (0, 0)]:
        assert resumed.indices(epoch, index).tolist() == straight[epoch][index]


def test_epochs_and_seeds_have_other_batches_in_another_order(natural):
    def members(seed, epoch):
        return {frozenset(batch) for batch in epoch_of(buckets(natural, tokens=1000, seed=seed), epoch)}

    first = members(1, 0)
    for seed, epoch in [(1, 1), (2, 0)]:
        assert len(first & members(seed, epoch)) < 0.1 * len(first)
    assert epoch_of(buckets(natural, tokens=1000), 0)[0] != epoch_of(buckets(natural, tokens=1000), 1)[0]


def test_short_and_long_batches_are_mixed(natural):
    batches = buckets(natural, tokens=1000)
    longest = [natural[batches.indices(0, index)].max() for index in range(len(batches))]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3


def test_a_batch_is_filled_as_far_as_the_budget_allows(natural):
    longer = natural.max(axis=1)
    batches = epoch_of(buckets(natural, tokens=1000), 0)
    batches.sort(key=lambda batch: (longer[batch].mean(), -len(batch)))
    for batch, following in pairwise(batches):
        assert (len(batch) + 1) * longer[following].min() > 1000


def test_the_padding_share_is_that_of_the_batches(natural):
    batches = buckets(natural, tokens=1000)
    positions = sum(len(batch) * natural[batch].max(axis=0).sum() for batch in epoch_of(batches, 0))
    assert batches.padding_share == pytest.approx(1 - natural.sum() / positions)
    assert batches.padding_share < 0.12


def test_a_pair_above_the_budget_is_a_batch_of_its_own():
    assert sorted(epoch_of(buckets([(5, 5), (6000, 3), (4, 9000)], tokens=100), 0)) == [[0], [1], [2]]


@pytest.mark.parametrize("limit", [{}, {"tokens": 10, "sentences": 10}, {"tokens": 0}, {"sentences": 0}])
def test_exactly_one_limit_is_asked_for(limit):
    with pytest.raises(ConfigError, match="exactly one"):
        buckets([(1, 1)], **limit)


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_a_batch_has_begin_end_and_padding_where_models_expect_them(dtype):
    top = np.iinfo(dtype).max
    pairs = EncodedPairs.of([[7, 8, 9], [], [5]], [[4], [top, 6], []], np.dtype(dtype))
    batch = collate(pairs, np.array([1, 0, 2]))
    assert batch.source.tolist() == [[EOS, PAD, PAD, PAD], [7, 8, 9, EOS], [5, EOS, PAD, PAD]]
    assert batch.target_in.tolist() == [[BOS, top, 6], [BOS, 4, PAD], [BOS, PAD, PAD]]
    assert batch.target_out.tolist() == [[top, 6, EOS], [4, EOS, PAD], [EOS, PAD, PAD]]
    assert batch.source_lengths.tolist() == pairs.source_lengths[[1, 0, 2]].tolist() == [1, 4, 2]
    assert batch.target_lengths.tolist() == pairs.target_lengths[[1, 0, 2]].tolist() == [3, 2, 1]
    assert batch.target_mask.sum() == 6
    assert {tensor.dtype for tensor in vars(batch).values()} == {torch.int64}


@pytest.mark.parametrize("at_once", [2, 1 << 20])
def test_targets_are_counted_with_their_ends(monkeypatch, at_once):
    monkeypatch.setattr(encoded, "_COUNTED", at_once)
    pairs = EncodedPairs.of([[7], [8], [5]], [[4], [9, 4, 4, 6], []], np.dtype(np.uint16))
    assert pairs.target_counts(11).tolist() == [0, 0, 0, 3, 3, 0, 1, 0, 0, 1, 0]
