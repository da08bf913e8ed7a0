"""The fast dropout drops at its rate, scales what stays, and sends gradients the same way."""

import pytest
import torch

from rmsrepro.layers.dropout import Dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.9])
def test_the_rate_is_met_and_the_rest_is_scaled(rate):
    torch.manual_seed(0)
    x = torch.ones(400, 257, requires_grad=True)
    y = Dropout(rate)(x)
    dropped = (y == 0).double().mean().item()
    assert dropped == pytest.approx(rate, abs=0.006)  # six standard deviations
    assert torch.allclose(y[y != 0], torch.tensor(1 / (1 - rate)))
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    dropped = (Dropout(0.5)(torch.ones(100_000)) == 0).double()
    for distance in (1, 2, 3, 4, 8):
        together = (dropped[distance:] * dropped[:-distance]).mean().item()
        assert together == pytest.approx(0.25, abs=0.01)


def test_the_draw_follows_torchs_seed_and_evaluation_drops_nothing():
    layer, x = Dropout(0.3), torch.randn(50, 3)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(layer(x))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert layer.eval()(x) is x
