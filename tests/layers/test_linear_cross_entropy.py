"""The fused linear cross-entropy agrees with the stock operations, whatever happens between its passes."""

import re

import pytest
import torch

from rmsrepro.layers import linear_cross_entropy as module
from rmsrepro.layers.linear_cross_entropy import Smoothing, Workspace, linear_cross_entropy, reference


def draw(rows=7, dim=5, classes=11, dtype=torch.float32, scale=1.0):
    torch.manual_seed(0)
    tensors = [scale * torch.randn(rows, dim), torch.randn(classes, dim), torch.randn(classes)]
    return [t.to(dtype).requires_grad_() for t in tensors], torch.randint(0, classes, (rows,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["usual", "probabilities that underflow"])
def test_loss_and_gradients_are_those_of_the_stock_operations(scale, dtype):
    (x, weight, bias), targets = draw(scale=scale, dtype=dtype)
    fused = linear_cross_entropy(x, weight, bias, targets) * 0.3
    stock = reference(x, weight, bias, targets) * 0.3
    torch.testing.assert_close(fused, stock)
    ours, theirs = (torch.autograd.grad(loss, [x, weight, bias]) for loss in (fused, stock))
    torch.testing.assert_close(ours, theirs)


def test_a_shared_workspace_serves_passes_in_flight_and_shorter_ones():
    workspace = Workspace()
    (x, weight, bias), targets = draw()
    for rows in (7, 3, 7):
        losses = [linear_cross_entropy(part[:rows], weight, bias, targets[:rows], workspace) for part in (x, 2 * x)]
        expected = [reference(part[:rows], weight, bias, targets[:rows]) for part in (x, 2 * x)]
        for ours, theirs in zip(losses, expected, strict=True):
            pairs = (torch.autograd.grad(loss, [weight], retain_graph=True) for loss in (ours, theirs))
            torch.testing.assert_close(*pairs)


def test_a_pass_without_gradients_leaves_the_array_to_the_next():
    workspace = Workspace()
    (x, weight, bias), targets = draw(dtype=torch.float64)
    with torch.no_grad():
        first = linear_cross_entropy(x, weight, bias, targets, workspace)
        array = workspace._idle
        torch.testing.assert_close(linear_cross_entropy(x, weight, bias, targets, workspace), first)
    assert workspace._idle.data_ptr() == array.data_ptr()


def test_a_second_backward_pass_is_refused():
    (x, weight, bias), targets = draw()
    loss = linear_cross_entropy(x, weight, bias, targets)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="call backward once"):
        loss.backward()


def test_autocast_takes_products_in_its_type_and_the_sum_in_float32():
    (x, weight, bias), targets = draw(classes=50)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(x, weight, bias, targets)
    loss.backward()
    assert loss.dtype == torch.float32
    assert weight.grad.dtype == torch.float32
    torch.testing.assert_close(loss, reference(x, weight, bias, targets), rtol=2e-2, atol=0)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "row weights"])
@pytest.mark.parametrize("smoothing", [Smoothing(), Smoothing(0.1), Smoothing(0.1, among_others=True)], ids=str)
def test_smoothed_and_weighted_rows_agree_with_the_stock_operations_block_by_block(smoothing, weighted, monkeypatch):
    monkeypatch.setattr(module, "_LEAST_ROWS", 3)
    monkeypatch.setattr(module, "_CPU_LOGITS", 1)
    (x, weight, bias), targets = draw(dtype=torch.float64)
    rows = torch.rand(7, dtype=torch.float64) if weighted else None
    losses = [
        f(x, weight, bias, targets, smoothing=smoothing, row_weights=rows) * 0.3
        for f in (linear_cross_entropy, reference)
    ]
    torch.testing.assert_close(*losses)
    ours, theirs = (torch.autograd.grad(loss, [x, weight, bias]) for loss in losses)
    torch.testing.assert_close(ours, theirs)


def test_smoothing_over_all_is_that_of_torch():
    (x, weight, bias), targets = draw()
    theirs = torch.nn.functional.cross_entropy(x @ weight.t() + bias, targets, reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(linear_cross_entropy(x, weight, bias, targets, smoothing=Smoothing(0.1)), theirs)


def test_the_best_possible_loss_is_zero_where_the_entropy_is_subtracted():
    wanted = torch.full((1, 11), 0.01)
    wanted[0, 4] = 0.9
    x, weight = torch.ones(1, 1), wanted.log().t().contiguous()
    loss = linear_cross_entropy(x, weight, torch.zeros(11), torch.tensor([4]), smoothing=Smoothing(0.1, True))
    assert loss.item() == pytest.approx(0.0, abs=1e-6)


def test_no_rows_are_no_loss_and_no_gradient():
    (x, weight, bias), targets = draw(rows=0)
    loss = linear_cross_entropy(x, weight, bias, targets, smoothing=Smoothing(0.1))
    loss.backward()
    assert loss.item() == 0.0
    assert not weight.grad.any()


@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["usual", "probabilities that underflow"])
def test_no_bias_is_a_bias_of_zero(scale):
    (x, weight, bias), targets = draw(scale=scale)
    results = []
    for none in (None, torch.zeros_like(bias)):
        loss = linear_cross_entropy(x, weight, none, targets, smoothing=Smoothing(0.1))
        results.append((loss, *torch.autograd.grad(loss, [x, weight])))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_does_not_fit_is_refused_before_any_memory_is_read(dtype):
    (x, weight, bias), targets = draw(dtype=dtype)
    wrong = {
        "targets are torch.int32, expected torch.int64": (x, weight, bias, targets.int()),
        "targets is [5] on cpu, expected [7] on cpu": (x, weight, bias, targets[:5]),
        "targets is [7] on meta, expected [7] on cpu": (x, weight, bias, targets.to("meta")),
        "bias is [1] on cpu, expected [11] on cpu": (x, weight, bias[:1], targets),
        "x is [7, 5] on cpu, expected [7, 3] on cpu": (x, weight[:, :3], bias, targets),
        "x is [7, 5, 1] on cpu, expected [7, 5] on cpu": (x[..., None], weight, bias, targets),
    }
    for message, tensors in wrong.items():
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            linear_cross_entropy(*tensors)
    with pytest.raises(ValueError, match="row_weights"):
        linear_cross_entropy(x, weight, bias, targets, row_weights=torch.ones(8))
