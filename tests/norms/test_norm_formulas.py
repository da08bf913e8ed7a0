"""Every norm against its formula, written out by hand in float64."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rmsrepro.norms import NormFactory, build_norm, norm_config
from rmsrepro.norms.config import partial_size

EXACT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("gain_offset", [0.0, 1.0])
def test_features_follow_the_formula(statistic_norm, impl, eps_placement, gain_offset, by_hand, randomise):
    cfg = norm_config(statistic_norm, eps=0.3, eps_placement=eps_placement, gain_offset=gain_offset, shift=True)
    norm = randomise(NormFactory(cfg, impl).features(36).double())
    x = torch.randn(5, 36, dtype=torch.float64)
    torch.testing.assert_close(norm(x), by_hand(cfg, x, norm.weight + gain_offset, norm.bias), **EXACT)


@pytest.mark.parametrize("gain_offset", [0.0, 1.0])
def test_images_follow_the_formula(statistic_norm, impl, axes, eps_placement, gain_offset, by_hand, randomise):
    fields = {"eps": 0.3, "eps_placement": eps_placement, "gain_offset": gain_offset, "shift": True}
    cfg = norm_config(statistic_norm, axes=axes, **fields)
    norm = randomise(NormFactory(cfg, impl).channels(6).double())
    x = torch.randn(3, 6, 5, 4, dtype=torch.float64)
    expected = by_hand(cfg, x, norm.weight + gain_offset, norm.bias, image=True)
    torch.testing.assert_close(norm(x), expected, **EXACT)


@pytest.mark.parametrize("rounding", ["ceil", "floor"])
@pytest.mark.parametrize("n", [1, 10, 36, 48])
def test_partial_statistic_follows_the_formula_at_every_rounding(impl, n, rounding, eps_placement, by_hand):
    cfg = norm_config("prmsnorm", rounding=rounding, eps_placement=eps_placement)
    x = torch.randn(4, n, dtype=torch.float64)
    torch.testing.assert_close(NormFactory(cfg, impl).features(n).double()(x), by_hand(cfg, x), **EXACT)


@pytest.mark.parametrize(
    ("n", "p", "ceil", "floor"),
    [
        (512, 0.0625, 32, 32),
        (36, 0.0625, 3, 2),
        (10, 0.0625, 1, 1),
        (48, 0.0625, 3, 3),
        (36, 0.125, 5, 4),
        (10, 0.125, 2, 1),
        (1024, 0.125, 128, 128),
        (30, 0.1, 3, 3),
        (1, 0.0625, 1, 1),
        (2048, 1e-12, 1, 1),
        (7, 1.0, 7, 7),
    ],
)
def test_partial_sizes(n, p, ceil, floor):
    assert (partial_size(n, p, "ceil"), partial_size(n, p, "floor")) == (ceil, floor)


@given(st.integers(1, 10**6), st.integers(1, 10**4))
@settings(max_examples=200, deadline=None)
def test_partial_size_is_the_exact_product_rounded(n, parts):
    exact = Fraction(parts, 10**4) * n
    assert partial_size(n, parts / 10**4, "ceil") == math.ceil(exact)
    assert partial_size(n, parts / 10**4, "floor") == max(1, math.floor(exact))


@pytest.mark.parametrize(
    ("x", "fields", "expected"),
    [
        ([3.0, 4.0], {"eps": 1e-12}, [0.848528, 1.131371]),
        ([0.003, 0.004], {"eps": 1e-5, "eps_placement": "inside"}, [0.632456, 0.843274]),
        ([0.003, 0.004], {"eps": 1e-5, "eps_placement": "outside"}, [0.846135, 1.128180]),
    ],
)
def test_rmsnorm_gives_the_known_numbers(impl, x, fields, expected):
    y = build_norm("rmsnorm", 2, impl=impl, **fields)(torch.tensor([x]))
    torch.testing.assert_close(y, torch.tensor([expected]), rtol=0, atol=2e-6)


@pytest.mark.parametrize("placement", ["inside", "outside"])
def test_linear_bias_stands_where_the_field_says(row_norm, impl, placement, by_hand, randomise):
    cfg = norm_config(row_norm, bias_placement=placement, shift=False)
    layer = randomise(NormFactory(cfg, impl).linear(7, 20, bias=True).double())
    x = torch.randn(4, 7, dtype=torch.float64)
    a = x @ layer.layer.weight.T
    if placement == "inside":
        expected = by_hand(cfg, a + layer.layer.bias, layer.norm.weight)
    else:
        expected = by_hand(cfg, a, layer.norm.weight, layer.bias)
    torch.testing.assert_close(layer(x), expected, **EXACT)


@pytest.mark.parametrize("placement", ["inside", "outside"])
def test_convolution_bias_stands_where_the_field_says(row_norm, impl, placement, by_hand, randomise):
    cfg = norm_config(row_norm, bias_placement=placement, shift=False)
    layer = randomise(NormFactory(cfg, impl).conv2d(2, 6, 3, padding=1, stride=2, bias=True).double())
    x = torch.randn(3, 2, 8, 8, dtype=torch.float64)
    a = torch.nn.functional.conv2d(x, layer.layer.weight, layer.layer.bias, stride=2, padding=1)
    outer = 0.0 if placement == "inside" else layer.bias
    torch.testing.assert_close(layer(x), by_hand(cfg, a, layer.norm.weight, outer, image=True), **EXACT)


def test_a_shift_takes_the_place_of_the_outer_bias(statistic_norm):
    layer = NormFactory(norm_config(statistic_norm, shift=True)).linear(3, 8, bias=True)
    assert sorted(name for name, _ in layer.named_parameters()) == ["layer.weight", "norm.bias", "norm.weight"]


@pytest.mark.parametrize("image", [False, True], ids=["features", "channels"])
def test_gain_follows_the_cast_where_asked(row_norm, impl, image, by_hand):
    x = torch.randn(8, 16, 2, 2).bfloat16() if image else torch.randn(8, 64).bfloat16()
    outputs = []
    for before in (True, False):
        cfg = norm_config(row_norm, cast_before_gain=before, shift=False)
        factory = NormFactory(cfg, impl)
        norm = factory.channels(16) if image else factory.features(64)
        with torch.no_grad():
            norm.weight.fill_(1.625)  # exact in bfloat16: only the order of rounding differs
        plain = by_hand(cfg, x, image=image)
        expected = (plain.bfloat16() * 1.625) if before else (plain * 1.625).bfloat16()
        ulps = (norm(x).float() - expected.float()).abs() / expected.float().abs().clamp_min(1e-3)
        # A tie between float32 and float64 may round apart; a wrong order is off in about a third of all places.
        assert (ulps > 1e-6).float().mean() < 0.02
        outputs.append(norm(x))
    assert not torch.equal(*outputs)


def assert_gradients_match(norm: torch.nn.Module, x: torch.Tensor) -> None:
    def run(x, weight, bias):
        return torch.func.functional_call(norm, {"weight": weight, "bias": bias}, (x,))

    assert torch.autograd.gradcheck(run, (x.requires_grad_(), norm.weight, norm.bias), fast_mode=True)


def test_gradients_match_finite_differences(statistic_norm, impl, eps_placement, randomise):
    cfg = norm_config(statistic_norm, eps_placement=eps_placement, eps=1e-3, shift=True)
    norm = randomise(NormFactory(cfg, impl).features(20).double())
    signs = torch.randn(3, 20, dtype=torch.float64).sign()
    assert_gradients_match(norm, signs * (torch.rand(3, 20, dtype=torch.float64) + 0.2))


def test_image_gradients_match_finite_differences(statistic_norm, impl, axes, randomise):
    norm = NormFactory(norm_config(statistic_norm, axes=axes, eps=1e-3, shift=True), impl).channels(3)
    assert_gradients_match(randomise(norm.double()), torch.randn(2, 3, 2, 3, dtype=torch.float64))
