"""Low and mixed precision: types are kept, and errors stay near the rounding of the type."""

import pytest
import torch
import torch.nn.functional as F

from rmsrepro.norms import NormFactory, norm_config

LOW = [torch.bfloat16, torch.float16]


def stock(norm: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor | None:
    """Run torch's own operation with parameters of the input's type, where there is one."""
    weight, bias = weight.to(x.dtype), bias.to(x.dtype)
    if norm == "layernorm":
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
    if norm == "rmsnorm":
        return F.rms_norm(x, x.shape[-1:], weight, eps) + bias
    return F.batch_norm(x, None, None, weight, bias, True, 0.1, eps) if norm == "batchnorm" else None


def rounding_error(expected: torch.Tensor, dtype: torch.dtype) -> float:
    return (expected.to(dtype).double() - expected).abs().max().item()


@pytest.mark.parametrize("params", ["low", "float32"])
@pytest.mark.parametrize("dtype", LOW)
def test_features_err_at_most_twice_as_much_as_the_stock_operation(
    statistic_norm, impl, dtype, params, by_hand, randomise
):
    cfg = norm_config(statistic_norm, shift=True)
    norm = randomise(NormFactory(cfg, impl).features(256))
    if params == "low":
        norm.to(dtype)
    x = (torch.randn(64, 256) * 3 + 1).to(dtype)
    y = norm(x)
    expected = by_hand(cfg, x, norm.weight, norm.bias)
    allowed = rounding_error(expected, dtype)
    reference = stock(statistic_norm, x, norm.weight, norm.bias, cfg.eps)
    if reference is not None and params == "low":
        allowed = max(allowed, (reference.double() - expected).abs().max().item())
    assert y.dtype == dtype
    assert (y.double() - expected).abs().max() <= 2 * allowed


@pytest.mark.parametrize("dtype", LOW)
def test_images_err_at_most_twice_the_rounding(statistic_norm, impl, axes, dtype, by_hand, randomise):
    cfg = norm_config(statistic_norm, shift=True, axes=axes)
    norm = randomise(NormFactory(cfg, impl).channels(16))
    x = (torch.randn(4, 16, 5, 5) * 3 + 1).to(dtype)
    y = norm(x)
    expected = by_hand(cfg, x, norm.weight, norm.bias, image=True)
    assert y.dtype == dtype
    assert (y.double() - expected).abs().max() <= 2 * rounding_error(expected, dtype)


@pytest.mark.parametrize("dtype", LOW)
def test_low_precision_inputs_give_float32_gains_float32_gradients(statistic_norm, impl, dtype, by_hand):
    cfg = norm_config(statistic_norm, shift=True)
    norm = NormFactory(cfg, impl).features(64)
    x = torch.randn(32, 64).to(dtype).requires_grad_()
    upstream = torch.randn(32, 64).to(dtype)
    norm(x).backward(upstream)
    expected = (by_hand(cfg, x) * upstream.double()).sum(0)
    assert (norm.weight.grad.dtype, x.grad.dtype) == (torch.float32, dtype)
    tolerance = 2 * torch.finfo(dtype).eps * (by_hand(cfg, x) * upstream.double()).abs().sum(0).max().item()
    torch.testing.assert_close(norm.weight.grad.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("mixed", [(torch.float64, torch.float32), (torch.float32, torch.float64)], ids=str)
def test_wider_parameters_or_inputs_are_served(statistic_norm, impl, axes, mixed, by_hand):
    input_type, parameter_type = mixed
    cfg = norm_config(statistic_norm, shift=True, axes=axes)
    factory = NormFactory(cfg, impl)
    for norm, shape in ((factory.features(12), (9, 12)), (factory.channels(12), (3, 12, 2, 2))):
        x = torch.randn(shape, dtype=input_type)
        y = norm.to(parameter_type)(x)
        assert y.dtype == input_type
        torch.testing.assert_close(y.double(), by_hand(cfg, x, image=len(shape) == 4), rtol=1e-5, atol=1e-5)


def test_compute_dtype_is_heeded(statistic_norm, impl, by_hand):
    cfg = norm_config(statistic_norm, compute_dtype="float64")
    x = (torch.randn(64, 256) + 100).float()
    y = NormFactory(cfg, impl).features(256)(x)
    expected = by_hand(cfg, x)
    assert y.dtype == torch.float32
    assert (y.double() - expected).abs().max() <= 2 * rounding_error(expected, torch.float32)


@pytest.mark.parametrize("site", ["linear", "conv2d"])
def test_autocast_gives_low_precision_outputs_and_float32_gradients(norm, impl, site):
    factory = NormFactory(norm_config(norm), impl)
    layer = factory.linear(16, 32) if site == "linear" else factory.conv2d(4, 16, 3)
    x = torch.randn(8, 16) if site == "linear" else torch.randn(4, 4, 6, 6)
    layer.train()
    full = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        low = layer(x)
    low.float().square().sum().backward()
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), full, rtol=0.05, atol=0.05)
    assert all(p.grad.dtype == torch.float32 and torch.isfinite(p.grad).all() for p in layer.parameters())


def test_autocast_keeps_a_float32_residual_stream_float32(statistic_norm, impl, by_hand):
    cfg = norm_config(statistic_norm)
    norm = NormFactory(cfg, impl).features(64)
    x = torch.randn(16, 64)
    with torch.autocast("cpu", torch.bfloat16):
        y = norm(x)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y.double(), by_hand(cfg, x), rtol=1e-5, atol=1e-5)
