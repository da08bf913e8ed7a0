"""Norms that are not functions of a row: of the weights, and of the batch at each time step."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rmsrepro.errors import ConfigError
from rmsrepro.layers import NormGRU, NormLSTM

KINDS = [NormLSTM, NormGRU]


@pytest.mark.parametrize("impl", ["composed", "auto"])
@pytest.mark.parametrize(("kind", "stock"), [(NormLSTM, nn.LSTM), (NormGRU, nn.GRU)])
def test_weightnorm_starts_as_the_plain_layer_and_divides_by_the_rows_length(kind, stock, impl):
    plain = stock(5, 7)
    layer = kind.from_torch(plain, norm="weightnorm", impl=impl)
    x = torch.randn(4, 3, 5)
    torch.testing.assert_close(layer(x)[0], plain(x)[0])
    with torch.no_grad():
        layer.linear_hh_l0.weight.mul_(3.0)
    torch.testing.assert_close(layer(x)[0], plain(x)[0])


def test_batchnorm_has_the_statistics_of_each_step_and_of_no_other():
    layer = NormLSTM(5, 7, norm="batchnorm", cell={"max_steps": 3, "norm_hidden": False, "norm_cell": False})
    x = torch.randn(4, 8, 5) * torch.tensor([1.0, 2.0, 3.0, 4.0]).view(4, 1, 1)
    layer(x)
    a = F.linear(x, layer.weight_ih_l0)
    norm = layer.norm_ih_l0
    torch.testing.assert_close(norm.running_mean[:2], 0.1 * a[:2].mean(1))
    torch.testing.assert_close(norm.running_mean[2], 0.9 * 0.1 * a[2].mean(0) + 0.1 * a[3].mean(0))
    assert norm.num_batches_tracked.tolist() == [1, 1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_batchnorm_evaluates_with_the_running_statistics(kind):
    layer = kind(5, 7, norm="batchnorm", momentum=1.0)
    x = torch.randn(4, 200, 5)
    trained, _ = layer(x)
    layer.eval()
    torch.testing.assert_close(layer(x)[0], trained, rtol=0.02, atol=0.02)  # the running variance is the unbiased one
    torch.testing.assert_close(layer(x[:, :1])[0], layer(x)[0][:, :1])


def test_masked_rows_leave_the_batch_statistics_alone():
    full, masked = (NormGRU(5, 7, norm="batchnorm") for _ in range(2))
    masked.load_state_dict(full.state_dict())
    x = torch.randn(4, 8, 5)
    mask = torch.ones(4, 8)
    mask[:, 5:] = 0
    y_full, y_masked = full(x[:, :5])[0], masked(x, mask=mask)[0]
    torch.testing.assert_close(y_masked[:, :5], y_full)
    for name, buffer in full.named_buffers():
        torch.testing.assert_close(dict(masked.named_buffers())[name], buffer)


def test_a_last_step_with_one_row_left_is_normalised_by_the_running_statistics():
    layer = NormLSTM(5, 7, norm="batchnorm")
    y, _ = layer(torch.randn(3, 4, 5), lengths=torch.tensor([3, 2, 1, 1]))
    assert y.isfinite().all()
    assert layer.norm_ih_l0.num_batches_tracked[:3].tolist() == [1, 1, 0]
    with pytest.raises(ConfigError, match="at least 2"):
        layer(torch.randn(3, 1, 5))


def test_the_statistics_of_all_steps_are_in_the_checkpoint_once():
    layer = NormLSTM(5, 7, norm="batchnorm", cell={"max_steps": 3})
    layer(torch.randn(4, 8, 5))
    state = layer.state_dict()
    assert state["norm_ih_l0.running_mean"].shape == (3, 28)
    assert sum("running_mean" in name for name in state) == 3
    other = NormLSTM(5, 7, norm="batchnorm", cell={"max_steps": 3})
    other.load_state_dict(state)
    x = torch.randn(4, 8, 5)
    assert torch.equal(other.eval()(x)[0], layer.eval()(x)[0])
