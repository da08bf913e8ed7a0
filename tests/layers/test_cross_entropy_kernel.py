"""The CPU kernel of the linear cross-entropy: every instruction set, sizes that fill no tile, rows that overflow."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from rmsrepro.kernels.cpu.operands import serves
from rmsrepro.layers.linear_cross_entropy import Smoothing, linear_cross_entropy, reference

pytestmark = pytest.mark.usefixtures("kernels")


def draw(rows, dim, classes, scale=1.0):
    torch.manual_seed(0)
    tensors = [scale * torch.randn(rows, dim), torch.randn(classes, dim), torch.randn(classes)]
    return [tensor.requires_grad_() for tensor in tensors], torch.randint(0, classes, (rows,))


def results(function, leaves, targets, **options):
    loss = function(*leaves, targets, **options)
    return loss.detach(), *torch.autograd.grad(loss, [leaf for leaf in leaves if leaf is not None])


SIZES = [(1, 1, 1), (5, 3, 2), (13, 33, 31), (12, 64, 257), (385, 20, 33), (800, 7, 1030)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
def test_loss_and_gradients_agree_with_float64_at_any_size(size, biased, instruction_set):
    (x, weight, bias), targets = draw(*size)
    options = {"smoothing": Smoothing(0.1), "row_weights": torch.rand(size[0])}
    leaves = [x, weight, bias if biased else None]
    exact = [None if leaf is None else leaf.detach().double().requires_grad_() for leaf in leaves]
    assert serves(*leaves)
    ours = results(linear_cross_entropy, leaves, targets, **options)
    theirs = results(reference, exact, targets, **options)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=2e-5, atol=2e-5)


def test_only_what_is_asked_for_is_computed(instruction_set):
    leaves, targets = draw(30, 9, 70)
    whole = torch.autograd.grad(linear_cross_entropy(*leaves, targets), leaves)
    for wanted in range(3):
        part = [leaf if i == wanted else leaf.detach() for i, leaf in enumerate(leaves)]
        (grad,) = torch.autograd.grad(linear_cross_entropy(*part, targets), [leaves[wanted]])
        torch.testing.assert_close(grad, whole[wanted], rtol=0, atol=0)
    with torch.no_grad():
        torch.testing.assert_close(linear_cross_entropy(*leaves, targets), reference(*leaves, targets))


def test_the_number_of_threads_changes_nothing():
    leaves, targets = draw(500, 33, 700)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(results(linear_cross_entropy, leaves, targets))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=0, atol=0)


def test_what_is_not_finite_stays_in_its_row(instruction_set):
    (x, weight, bias), targets = draw(40, 8, 50)
    clean = torch.autograd.grad(linear_cross_entropy(x, weight, bias, targets), [x])[0]
    with torch.no_grad():
        x[17, 3] = torch.nan
    loss = linear_cross_entropy(x, weight, bias, targets)
    (grad,) = torch.autograd.grad(loss, [x])
    assert loss.isnan()
    assert grad[17].isnan().all()
    rest = torch.arange(40) != 17
    torch.testing.assert_close(grad[rest], clean[rest], rtol=0, atol=0)


def test_logits_far_apart_neither_overflow_nor_lose_the_loss(instruction_set):
    leaves, targets = draw(20, 8, 50, scale=300.0)
    torch.testing.assert_close(results(linear_cross_entropy, leaves, targets), results(reference, leaves, targets))
    (x, weight, _), targets = draw(4, 8, 50)
    masked = torch.zeros(50)
    masked[::2] = -torch.inf
    odd = targets // 2 * 2 + 1
    stock = F.cross_entropy(x @ weight.t() + masked, odd, reduction="sum")
    torch.testing.assert_close(linear_cross_entropy(x, weight, masked, odd), stock)


def test_gradients_keep_their_digits_where_the_wanted_class_is_nearly_certain(instruction_set):
    weight = torch.randn(200, 64) / 8
    targets = torch.full((384,), 3)
    x = 16 * weight[targets] + torch.randn(384, 64) / 10
    leaves = [tensor.requires_grad_() for tensor in (x, weight, torch.zeros(200))]
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    _, _, *ours = results(linear_cross_entropy, leaves, targets)
    loss, _, *theirs = results(reference, exact, targets)
    assert loss < 0.05 * len(targets)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).norm() < 1e-5 * b.norm()


def test_a_counter_of_flops_sees_the_products():
    leaves, targets = draw(30, 9, 70)
    with FlopCounterMode(display=False) as counter:
        linear_cross_entropy(*leaves, targets)
    assert counter.get_total_flops() >= 2 * 30 * 9 * 70


def test_a_target_that_is_no_class_is_refused():
    leaves, targets = draw(5, 4, 6)
    for wrong in (6, -1):
        targets[2] = wrong
        with pytest.raises(IndexError, match="for 6 classes"):
            linear_cross_entropy(*leaves, targets)
