"""WeightNorm: torch's parametrisation gives the same numbers, and the layer starts as the plain one."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from rmsrepro.errors import ConfigError
from rmsrepro.norms import NormFactory, norm_config


def layer_of(site: str, **fields) -> nn.Module:
    factory = NormFactory(norm_config("weightnorm", **fields))
    return factory.linear(6, 4) if site == "linear" else factory.conv2d(3, 4, 3, padding="same")


def torch_layer_of(site: str) -> nn.Module:
    return nn.Linear(6, 4) if site == "linear" else nn.Conv2d(3, 4, 3, padding="same")


def inputs(site: str) -> torch.Tensor:
    return torch.randn(5, 6) if site == "linear" else torch.randn(2, 3, 6, 6)


@pytest.mark.parametrize("site", ["linear", "conv2d"])
def test_outputs_and_gradients_match_torchs_parametrisation(site, eps_placement, randomise):
    layer = randomise(layer_of(site, eps_placement=eps_placement))
    theirs = parametrizations.weight_norm(torch_layer_of(site))
    gain, direction = theirs.parametrizations.weight.original0, theirs.parametrizations.weight.original1
    with torch.no_grad():
        gain.copy_(layer.gain.view(gain.shape))
        direction.copy_(layer.weight)
        theirs.bias.copy_(layer.bias)
    x = inputs(site)
    torch.testing.assert_close(layer(x), theirs(x))
    layer(x).square().sum().backward()
    theirs(x).square().sum().backward()
    torch.testing.assert_close(layer.gain.grad.flatten(), gain.grad.flatten(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(layer.weight.grad, direction.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(layer.bias.grad, theirs.bias.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("site", ["linear", "conv2d"])
def test_the_layer_starts_as_the_plain_one(site):
    layer, plain = layer_of(site), torch_layer_of(site)
    with torch.no_grad():
        plain.weight.copy_(layer.weight)
        plain.bias.copy_(layer.bias)
    x = inputs(site)
    torch.testing.assert_close(layer(x), plain(x))


def test_without_a_gain_every_output_has_length_one():
    layer = layer_of("linear", gain=False)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    torch.testing.assert_close(layer.effective_weight().norm(dim=1), torch.ones(4))


def test_half_precision_weights_of_zero_stay_finite(eps_placement):
    layer = layer_of("linear", eps_placement=eps_placement)
    with torch.no_grad():
        layer.weight[0] = 0.0
    layer.half()
    y = layer(torch.randn(5, 6).half())
    y.float().sum().backward()
    assert y.dtype == torch.float16
    assert torch.isfinite(y).all()
    assert torch.isfinite(layer.gain.grad).all()


@pytest.mark.parametrize("site", ["features", "channels"])
def test_sites_without_a_weight_are_refused_with_those_that_are_served(site):
    factory = NormFactory(norm_config("weightnorm"))
    message = rf"weightnorm cannot serve the site '{site}'.*linear, conv2d"
    with pytest.raises(ConfigError, match=message):
        getattr(factory, site)(8)
    with pytest.raises(ConfigError, match=message):
        factory.require(["linear", site])
