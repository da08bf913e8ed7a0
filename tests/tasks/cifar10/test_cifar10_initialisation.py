"""How the net starts: the code base's distributions, and outputs of zero mean and unit variance where it has them."""

from __future__ import annotations

import math

import pytest
import torch

from rmsrepro.norms.base import NormedLayer
from rmsrepro.tasks.cifar10.initialisation import add_fixed_scales, draw_weights, standardise_outputs

IMAGES = torch.randn(64, 3, 32, 32, generator=torch.Generator().manual_seed(3)) * 2 + 1
QUIET = ["size=tiny", "task.noise=0", "task.dropout=0"]


def initialised(build, norm):
    model = build(norm, *QUIET).train()
    standardise_outputs(model, model.weight_layers(), IMAGES)
    return model


@pytest.mark.parametrize("norm", ["none", "weightnorm"])
def test_every_layer_starts_with_zero_mean_and_unit_variance_the_logits_too(build, norm):
    model = initialised(build, norm)
    seen = []
    for layer in model.weight_layers():
        layer.register_forward_hook(lambda *call: seen.append(call[2]))
    model(IMAGES)
    assert len(seen) == 10
    for y in seen:
        rows = y.transpose(0, 1).flatten(1)
        torch.testing.assert_close(rows.mean(1), torch.zeros(len(rows)), atol=1e-4, rtol=0)
        torch.testing.assert_close(rows.std(1, correction=0), torch.ones(len(rows)), atol=1e-3, rtol=0)


def test_weightnorm_learns_the_scale_and_the_plain_net_does_not(build):
    plain, normed = initialised(build, "none"), initialised(build, "weightnorm")
    assert not any("scale" in name for name, _ in plain.named_parameters())
    assert sum("scale" in name for name in plain.state_dict()) == 10
    assert sum("gain" in name for name, _ in normed.named_parameters()) == 10


@pytest.mark.parametrize("norm", ["none", "weightnorm"])
def test_a_checkpoint_holds_the_scales(build, norm):
    model, other = initialised(build, norm).eval(), build(norm, *QUIET).eval()
    assert not torch.equal(model(IMAGES[:2]), other(IMAGES[:2]))
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(IMAGES[:2]), other(IMAGES[:2]))


def test_a_channel_that_never_changes_keeps_its_scale():
    layer = torch.nn.Linear(3, 2)
    draw_weights([layer], "glorot")
    add_fixed_scales([layer])
    standardise_outputs(layer, [layer], torch.ones(5, 3))
    assert torch.isfinite(layer.weight).all()
    torch.testing.assert_close(layer(torch.ones(1, 3)), torch.zeros(1, 2), atol=1e-6, rtol=0)


def weights_of(model):
    return [layer.layer.weight if isinstance(layer, NormedLayer) else layer.weight for layer in model.weight_layers()]


@pytest.mark.parametrize("norm", ["rmsnorm", "prmsnorm", "layernorm", "none"])
def test_glorot_weights_fill_the_interval_of_their_fans(build, norm):
    for weight in weights_of(build(norm, "size=tiny")):
        positions = weight[0, 0].numel()
        bound = math.sqrt(6 / (positions * (weight.shape[0] + weight.shape[1])))
        assert 0.9 * bound < weight.abs().max() <= bound


@pytest.mark.parametrize("norm", ["batchnorm", "weightnorm"])
def test_batchnorm_and_weightnorm_draw_from_a_gaussian_of_005(build, norm):
    for weight in weights_of(build(norm, "size=small")):
        assert weight.std().item() == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize("norm", ["rmsnorm", "none", "batchnorm"])
def test_biases_start_at_zero(build, norm):
    biases = [p for name, p in build(norm, "size=tiny").named_parameters() if name.endswith("bias")]
    assert len(biases) == 10
    assert not any(bias.any() for bias in biases)
