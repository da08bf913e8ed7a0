"""Ranks and recall: any of an image's captions, no off-by-one, and ties against the model."""

import pytest
import torch

from rmsrepro.tasks.order_embedding.evaluation import folds
from rmsrepro.tasks.order_embedding.ranks import caption_ranks, image_ranks, rank_metrics


def image_of(images: int, each: int = 5) -> torch.Tensor:
    return torch.arange(images).repeat_interleave(each)


def test_ranks_one_to_twenty_count_exactly_those_within_k():
    metrics = rank_metrics(torch.arange(1, 21))
    assert metrics == {"r1": 5.0, "r5": 25.0, "r10": 50.0, "mean_rank": 10.5, "median_rank": 10.5}


def test_forced_ranks_come_out_in_both_directions():
    # Caption c of 20 has rank c + 1: that many images have a smaller error than its own.
    errors = torch.full((20, 20), 9.0).fill_diagonal_(1.0)
    for c in range(20):
        errors[c, [(c + 1 + k) % 20 for k in range(c)]] = 0.0
    assert image_ranks(errors, torch.arange(20)).tolist() == list(range(1, 21))
    assert caption_ranks(errors.t().contiguous(), torch.arange(20)).tolist() == list(range(1, 21))


def test_they_equal_a_sort_by_hand_where_nothing_ties():
    generator = torch.Generator().manual_seed(0)
    errors, own = torch.rand(35, 7, generator=generator), image_of(7)
    for caption, rank in enumerate(image_ranks(errors, own).tolist()):
        assert errors[caption].argsort().tolist().index(int(own[caption])) == rank - 1
    for image, rank in enumerate(caption_ranks(errors, own).tolist()):
        order = errors[:, image].argsort().tolist()
        assert min(order.index(c) for c in range(5 * image, 5 * image + 5)) == rank - 1


def test_captions_in_any_order_are_matched_by_the_map():
    generator = torch.Generator().manual_seed(0)
    errors, own = torch.rand(35, 7, generator=generator), image_of(7)
    shuffled = torch.randperm(35, generator=generator)
    assert torch.equal(image_ranks(errors[shuffled], own[shuffled]), image_ranks(errors, own)[shuffled])
    assert torch.equal(caption_ranks(errors[shuffled], own[shuffled]), caption_ranks(errors, own))


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_a_model_that_finds_everything_equal_ranks_last(value):
    errors = torch.full((100, 20), value)
    assert image_ranks(errors, image_of(20)).tolist() == [20] * 100
    assert caption_ranks(errors, image_of(20)).tolist() == [96] * 20


def test_one_error_that_is_no_number_helps_nobody():
    errors = torch.ones(10, 2)
    errors[:5, 0] = errors[5:, 1] = 0.0
    errors[0, 0] = float("nan")
    assert image_ranks(errors, image_of(2)).tolist() == [2] + [1] * 9
    assert caption_ranks(errors, image_of(2)).tolist() == [6, 1]


@pytest.mark.parametrize(
    ("images", "most", "expected"),
    [
        (3000, 5, [(0, 1000), (1000, 2000), (2000, 3000)]),
        (5000, 1, [(0, 1000)]),
        (2500, 5, [(0, 1000), (1000, 2000)]),
        (999, 5, [(0, 999)]),
    ],
)
def test_folds_are_whole_thousands_from_the_first_image_on(images, most, expected):
    assert [(part.start, part.stop) for part in folds(images, 1000, most)] == expected
