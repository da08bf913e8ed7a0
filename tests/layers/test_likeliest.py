"""The likeliest classes of a linear map's softmax: the kernel and torch's operations find what sorting finds."""

from __future__ import annotations

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from rmsrepro.kernels.cpu.panels import has_bfloat16_product
from rmsrepro.layers.likeliest import Likeliest, largest

FORBIDDEN = [0, 2]


def draw(rows, depth, classes):
    torch.manual_seed(0)
    return torch.randn(rows, depth), torch.randn(classes, depth) * depth**-0.5, torch.randn(classes)


def expected(x, weight, bias, count, asked):
    """Return what Likeliest returns, in float64 and by sorting."""
    logits = x.double() @ weight.double().t() + (0.0 if bias is None else bias.double())
    log_probs = logits.log_softmax(1)
    told = log_probs[:, asked].clone()
    log_probs[:, FORBIDDEN] = -torch.inf
    values, ids = log_probs.sort(1, descending=True)
    return values[:, :count], ids[:, :count], told


def check(found, wanted, atol=2e-5):
    for got, want in zip((found[0], found[2]), (wanted[0], wanted[2]), strict=True):
        torch.testing.assert_close(got.double(), want, rtol=2e-6, atol=atol)
    left = wanted[0] > -torch.inf
    assert torch.equal(found[1][left], wanted[1][left])


#: Rows, depth, classes: one of each; ends of vectors, tiles and panels; more than one block of rows; a deep weight.
SIZES = [(1, 1, 3), (5, 3, 4), (13, 33, 31), (12, 64, 257), (389, 20, 513), (30, 3000, 70), (0, 4, 9)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
def test_classes_and_log_probabilities_agree_with_float64_at_any_size(size, biased, path):
    x, weight, bias = draw(*size)
    given = bias if biased else None
    asked = size[2] // 2
    likeliest = Likeliest(weight, given, forbidden=FORBIDDEN, asked=asked)
    for count in (1, 3, 20):
        check(likeliest(x, count), expected(x, weight, given, min(count, size[2]), asked))


@pytest.mark.usefixtures("kernels")
def test_every_instruction_set_agrees(instruction_set):
    x, weight, bias = draw(40, 37, 300)
    likeliest = Likeliest(weight, bias, forbidden=FORBIDDEN, asked=7)
    assert likeliest.panels is not None
    check(likeliest(x, 6), expected(x, weight, bias, 6, 7))


@pytest.mark.usefixtures("kernels")
def test_neither_neighbours_nor_threads_change_a_bit():
    x, weight, bias = draw(500, 33, 700)
    likeliest = Likeliest(weight, bias, forbidden=FORBIDDEN, asked=7)
    before, whole = torch.get_num_threads(), likeliest(x, 5)
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            torch.testing.assert_close(likeliest(x, 5), whole, rtol=0, atol=0)
    finally:
        torch.set_num_threads(before)
    for row in (0, 11, 499):
        for part, all_rows in zip(likeliest(x[row : row + 1], 5), whole, strict=True):
            assert torch.equal(part[0], all_rows[row])


def test_what_is_not_finite_stays_in_its_row(path):
    x, weight, bias = draw(40, 8, 300)
    likeliest = Likeliest(weight, bias, forbidden=FORBIDDEN, asked=7)
    clean = likeliest(x, 4)
    x[17, 3] = torch.nan
    x[18, 3] = torch.inf
    values, ids, told = likeliest(x, 4)
    assert told[17].isnan()
    assert not (values[17:19] > -torch.inf).any()
    rest = (torch.arange(40) < 17) | (torch.arange(40) > 18)
    for got, want in zip((values, ids, told), clean, strict=True):
        assert torch.equal(got[rest], want[rest])


def test_logits_far_apart_and_classes_without_probability(path):
    x, weight, bias = draw(20, 8, 600)
    far = Likeliest(500 * weight, bias, forbidden=FORBIDDEN, asked=7)(x, 5)
    check(far, expected(x, 500 * weight, bias, 5, 7), atol=1e-3)
    bias[:400] = -torch.inf
    bias[401:] = -torch.inf
    values, ids, told = Likeliest(weight, bias, forbidden=FORBIDDEN, asked=7)(x, 3)
    torch.testing.assert_close(values[:, 0], torch.zeros(20))
    assert (ids[:, 0] == 400).all()
    assert (values[:, 1:] == -torch.inf).all()
    assert (told == -torch.inf).all()


def test_of_equal_classes_any_are_taken_but_none_twice(path):
    likeliest = Likeliest(torch.ones(90, 4), None, forbidden=FORBIDDEN, asked=3)
    values, ids, told = likeliest(torch.ones(13, 4), 6)
    torch.testing.assert_close(values, torch.full((13, 6), -math.log(90)))
    torch.testing.assert_close(told, torch.full((13,), -math.log(90)))
    for row in ids.tolist():
        assert len(set(row)) == 6
        assert not set(row) & set(FORBIDDEN)


def test_a_row_with_less_than_is_asked_for_names_no_class_that_is_none(path):
    x, weight, bias = draw(2, 4, 1281)
    bias[:-1] = -torch.inf
    _, ids, _ = Likeliest(weight, bias, forbidden=FORBIDDEN, asked=7)(x, 5)
    assert (ids[:, 0] == 1280).all()
    assert ids.max() < 1281


def test_what_watches_operations_sees_torchs(path):
    x, weight, bias = draw(7, 33, 70)
    likeliest = Likeliest(weight, bias, forbidden=FORBIDDEN, asked=7)
    with FlopCounterMode(display=False) as counter:
        found = likeliest(x, 5)
    check(found, expected(x, weight, bias, 5, 7))
    assert counter.get_total_flops() == 2 * 7 * 33 * 70
    values, _, told = torch.func.vmap(lambda part: likeliest(part, 5), out_dims=0)(x.view(1, 7, 33))
    torch.testing.assert_close((values[0], told[0]), found[::2])
    with FakeTensorMode():
        fake = Likeliest(torch.empty(70, 33), torch.empty(70), forbidden=FORBIDDEN, asked=7)(torch.empty(7, 33), 5)
    assert [part.shape for part in fake] == [(7, 5), (7, 5), (7,)]


@pytest.mark.parametrize("size", [(1, 1, 3), (13, 33, 31), (30, 64, 300)], ids=str)
def test_under_autocast_the_products_are_in_its_type(size):
    x, weight, bias = draw(*size)
    with torch.autocast("cpu", torch.bfloat16):
        likeliest = Likeliest(weight, bias, forbidden=FORBIDDEN, asked=1)
        values, ids, told = likeliest(x, size[2])
    assert values.dtype == told.dtype == torch.float32
    rounded = expected(x.bfloat16(), weight.bfloat16(), bias, size[2], 1)
    # torch rounds the logits to bfloat16 too, the kernel does not.
    atol = 2e-5 if has_bfloat16_product() else 0.03
    torch.testing.assert_close(values.double(), rounded[0], rtol=0, atol=atol)
    torch.testing.assert_close(told.double(), rounded[2], rtol=0, atol=atol)
    if has_bfloat16_product():
        assert torch.equal(ids[:, :-2], rounded[1][:, :-2])


def test_wrong_shapes_and_numbers_are_refused(path):
    x, weight, bias = draw(3, 5, 9)
    with pytest.raises(ValueError, match=r"bias is \[8\], expected \[9\]"):
        Likeliest(weight, bias[1:], forbidden=[], asked=3)
    with pytest.raises(ValueError, match="class 9 is asked for of 9"):
        Likeliest(weight, bias, forbidden=[], asked=9)
    with pytest.raises(ValueError, match=r"x is \[3, 4\], expected \[N, 5\]"):
        Likeliest(weight, bias, forbidden=[], asked=3)(x[:, 1:], 2)
    for none in (-1, 9):
        with pytest.raises(ValueError, match=rf"classes \[0, {none}\] are forbidden of 9"):
            Likeliest(weight, bias, forbidden=[0, none], asked=3)
    with pytest.raises(ValueError, match="0 classes are wanted, expected 1 or more"):
        Likeliest(weight, bias, forbidden=[], asked=3)(x, 0)


@pytest.mark.parametrize("width", [5, 64, 700, 1280, 8000])
def test_the_largest_of_blocks_are_the_largest(width):
    torch.manual_seed(7)
    x = torch.randn(50, width)
    x[:, width // 2 :] -= 3.0  # the largest stand close together
    values, ids = largest(x, 5)
    assert torch.equal(values, x.topk(5, 1).values)
    assert torch.equal(x.gather(1, ids), values)
