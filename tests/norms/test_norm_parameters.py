"""Parameters: their names last, they pass to and from torch's modules, they are copied, and they learn."""

import copy

import pytest
import torch
from torch import nn

from rmsrepro.norms import NormFactory, norm_config

IMAGES = (4, 8, 5, 5)
ROWS = (6, 8)
COUNTERPARTS = {
    "layernorm of rows": ("layernorm", "chw", ROWS, lambda: nn.LayerNorm(8)),
    "layernorm of images": ("layernorm", "chw", IMAGES, lambda: nn.GroupNorm(1, 8)),
    "layernorm of height and width": ("layernorm", "hw", IMAGES, lambda: nn.GroupNorm(8, 8)),
    "rmsnorm of rows": ("rmsnorm", "chw", ROWS, lambda: nn.RMSNorm(8, eps=1e-5)),
    "batchnorm of rows": ("batchnorm", "chw", ROWS, lambda: nn.BatchNorm1d(8)),
    "batchnorm of images": ("batchnorm", "chw", IMAGES, lambda: nn.BatchNorm2d(8)),
}


@pytest.mark.parametrize("case", COUNTERPARTS)
@pytest.mark.parametrize("direction", ["from torch", "to torch"])
def test_state_passes_to_and_from_torchs_modules(case, direction, impl, randomise):
    name, axes, shape, build = COUNTERPARTS[case]
    factory = NormFactory(norm_config(name, axes=axes), impl)
    ours, theirs = factory.channels(8) if shape == IMAGES else factory.features(8), build()
    source, target = (theirs, ours) if direction == "from torch" else (ours, theirs)
    randomise(source)
    source(torch.randn(shape) + 1)  # moves running statistics, where there are any
    target.load_state_dict(source.state_dict(), strict=True)
    x = torch.randn(shape)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=1e-5, atol=1e-5)


RUNNING = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
LINEAR_KEYS = {
    "none": ["weight", "bias"],
    "weightnorm": ["weight", "gain", "bias"],
    "layernorm": ["layer.weight", "norm.weight", "norm.bias"],
    "batchnorm": ["layer.weight", "norm.weight", "norm.bias", *RUNNING],
    "rmsnorm": ["layer.weight", "norm.weight", "bias"],
    "prmsnorm": ["layer.weight", "norm.weight", "bias"],
    "l2norm": ["layer.weight", "norm.weight", "bias"],
}


@pytest.mark.parametrize("site", ["linear", "conv2d"])
@pytest.mark.parametrize("name", LINEAR_KEYS)
def test_names_of_parameters_are_stable(name, impl, site):
    factory = NormFactory(norm_config(name), impl)
    layer = factory.linear(3, 8) if site == "linear" else factory.conv2d(3, 8, 3)
    assert sorted(layer.state_dict()) == sorted(LINEAR_KEYS[name])


def layers_of(norm: str, impl: str) -> list[tuple[nn.Module, torch.Tensor]]:
    """Build the norm at every site that it serves, each with an input."""
    factory = NormFactory(norm_config(norm), impl)
    builders = {
        "linear": (lambda: factory.linear(6, 8), (5, 6)),
        "conv2d": (lambda: factory.conv2d(3, 8, 3), (4, 3, 6, 6)),
        "features": (lambda: factory.features(8), ROWS),
        "channels": (lambda: factory.channels(8), IMAGES),
    }
    return [(builders[site][0](), torch.randn(builders[site][1])) for site in factory.family.sites]


def test_every_parameter_gets_a_gradient_and_moves(norm, impl):
    learning = [(layer, x) for layer, x in layers_of(norm, impl) if list(layer.parameters())]
    for layer, x in learning:
        before = {name: p.detach().clone() for name, p in layer.named_parameters()}
        y = layer(x)
        (y * torch.randn_like(y)).sum().backward()
        for name, parameter in layer.named_parameters():
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name
        torch.optim.SGD(layer.parameters(), lr=0.1).step()
        assert all(not torch.equal(p, before[name]) for name, p in layer.named_parameters())


def test_copies_are_equal_and_independent(norm, impl, randomise):
    for layer, x in layers_of(norm, impl):
        randomise(layer)
        layer(x)
        clone = copy.deepcopy(layer).eval()
        expected = layer.eval()(x)
        assert torch.equal(clone(x), expected)
        for parameter in layer.parameters():
            nn.init.zeros_(parameter)
        assert torch.equal(clone(x), expected)


def test_state_survives_a_file(norm, impl, randomise, tmp_path):
    for layer, x in layers_of(norm, impl):
        randomise(layer)
        layer(x)
        torch.save(layer.state_dict(), tmp_path / "state.pt")
        other = copy.deepcopy(randomise(layer))
        other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True), strict=True)
        layer.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True), strict=True)
        assert torch.equal(other.eval()(x), layer.eval()(x))


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_norms_start_with_an_effective_gain_of_one(statistic_norm, impl, offset, by_hand):
    cfg = norm_config(statistic_norm, gain_offset=offset)
    x = torch.randn(9, 8)
    torch.testing.assert_close(NormFactory(cfg, impl).features(8)(x).double(), by_hand(cfg, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("gain", "shift"), [(False, False), (True, False), (False, True)])
def test_gain_and_shift_can_be_left_out(statistic_norm, impl, axes, gain, shift):
    factory = NormFactory(norm_config(statistic_norm, gain=gain, shift=shift, axes=axes), impl)
    wanted = ["weight"] * gain + ["bias"] * shift
    for module, shape in ((factory.features(8), ROWS), (factory.channels(8), IMAGES)):
        assert [name for name, _ in module.named_parameters()] == wanted
        assert module(torch.randn(shape)).shape == shape
