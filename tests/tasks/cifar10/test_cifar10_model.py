"""ConvPool-CNN-C: the paper's layers, a norm on each of them, noise and dropout in training only."""

from __future__ import annotations

import pytest
import torch

from rmsrepro.norms.base import NormedLayer

FULL = ["size=paper"]
WEIGHTS = (
    3 * 9 * 96
    + 2 * (96 * 9 * 96)
    + 96 * 9 * 192
    + 2 * (192 * 9 * 192)
    + 192 * 9 * 192  # valid
    + 2 * (192 * 192)  # 1x1
    + 192 * 10
)
OUTPUTS = 3 * 96 + 6 * 192 + 10


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def outputs_of(model, images):
    """Collect what each weight layer gives for `images`."""
    seen = []
    handles = [layer.register_forward_hook(lambda *call: seen.append(call[2])) for layer in model.weight_layers()]
    with torch.no_grad():
        model(images)
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize(
    ("norm", "per_output"),
    [("none", 1), ("rmsnorm", 2), ("prmsnorm", 2), ("layernorm", 2), ("batchnorm", 2), ("weightnorm", 2)],
)
def test_parameters_are_the_papers_counted_by_hand(build, norm, per_output):
    assert sum(p.numel() for p in build(norm, *FULL).parameters()) == WEIGHTS + per_output * OUTPUTS


def test_each_layer_gives_the_papers_shape(build, images):
    shapes = [tuple(y.shape[1:]) for y in outputs_of(build("rmsnorm", *FULL), images)]
    assert shapes == [(96, 32, 32)] * 3 + [(192, 16, 16)] * 3 + [(192, 6, 6)] * 3 + [(10,)]


def test_width_factor_scales_both_widths(build, images):
    shapes = [y.shape[1] for y in outputs_of(build("none", "size=tiny", "task.width_factor=0.25"), images)]
    assert shapes == [24] * 3 + [48] * 6 + [10]


def test_all_ten_layers_are_normalised_over_height_and_width_and_the_logits_too(build, images):
    model = build("rmsnorm", "size=tiny").eval()
    assert all(isinstance(layer, NormedLayer) for layer in model.weight_layers())
    *convolved, logits = outputs_of(model, images)
    for y in convolved:
        torch.testing.assert_close(y.square().mean((2, 3)), torch.ones(y.shape[:2]), atol=1e-3, rtol=0)
    torch.testing.assert_close(logits.square().mean(1), torch.ones(len(logits)), atol=1e-3, rtol=0)


def test_the_norm_stands_before_the_nonlinearity(build, images):
    model = build("rmsnorm", "size=tiny").eval()
    entering = []
    model.activation.register_forward_pre_hook(lambda _, args: entering.append(args[0]))
    outputs = outputs_of(model, images)[:-1]
    assert len(entering) == 9
    assert all(torch.equal(x, y) for x, y in zip(entering, outputs, strict=True))
    assert model.activation.negative_slope == 0.1


def test_noise_and_dropout_act_in_training_only(build, images):
    model = build("rmsnorm", "size=tiny").eval()
    quiet = build("rmsnorm", "size=tiny", "task.noise=0", "task.dropout=0").train()
    assert torch.equal(model(images), model(images))
    assert torch.equal(model(images), quiet(images))
    model.train()
    assert not torch.equal(model(images), model(images))


def test_the_noise_has_the_papers_size(build):
    model = build("rmsnorm", "size=paper").train()
    noise = model.noise(torch.zeros(10, 3, 32, 32))
    assert noise.std().item() == pytest.approx(0.15, rel=0.02)
    assert model.dropout.p == 0.5
