"""The kernels lose at most twice what the stock operations lose, in the output and in every gradient."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rmsrepro.norms import functional
from tests.kernels.support import SIZES, device, exact, needs_kernels

pytestmark = needs_kernels
EPS = 1e-5


def draw(rows: int, n: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows * 100003 + n)
    shapes = ((rows, n), (n,), (n,), (rows, n))
    x, gain, bias, dy = (torch.randn(s, generator=generator).to(device(), dtype) for s in shapes)
    return x.requires_grad_(), gain.requires_grad_(), bias.requires_grad_(), dy


def results(y: Tensor, inputs: tuple[Tensor, ...], dy: Tensor) -> list[Tensor]:
    return [y.detach(), *torch.autograd.grad(y, inputs, dy.to(y.dtype))]


def assert_no_worse(ours: list[Tensor], stock: list[Tensor], truth: list[Tensor], rows: int) -> None:
    for index, (a, b, t) in enumerate(zip(ours, stock, truth, strict=True)):
        scale = t.abs().max().item()
        if a.shape[-1] == 1 and index == 1:
            scale = 2e4  # dx of a row of one is the difference of two terms of dy / x, and x comes near zero
        unit = torch.finfo(a.dtype).eps * scale
        # One rounding of the largest value is granted; float32 sums of float32 products carry sqrt(rows) more.
        slack = unit * (math.sqrt(rows) if index >= 2 else 2.0)
        error = (a.double() - t).abs().max().item()
        stock_error = (b.double() - t).abs().max().item()
        assert error <= 2 * stock_error + slack, f"result {index}: {error:.2e} against {stock_error:.2e} of stock"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_rmsnorm_is_as_exact_as_stock(n: int, dtype: torch.dtype) -> None:
    rows = 3 if n > 5000 else 33
    x, gain, _, dy = draw(rows, n, dtype)
    truth = results(exact(x, gain, None, EPS, centre=False, k=n), (x, gain), dy.double())
    ours = results(functional.rms_norm(x, gain, None, EPS, impl="fused"), (x, gain), dy)
    stock = results(F.rms_norm(x, (n,), gain, EPS), (x, gain), dy)
    assert_no_worse(ours, stock, truth, rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_layernorm_is_as_exact_as_stock(n: int, dtype: torch.dtype) -> None:
    rows = 3 if n > 5000 else 33
    x, gain, bias, dy = draw(rows, n, dtype)
    truth = results(exact(x, gain, bias, EPS, centre=True, k=n), (x, gain, bias), dy.double())
    ours = results(functional.layer_norm(x, gain, bias, EPS, impl="fused"), (x, gain, bias), dy)
    stock = results(F.layer_norm(x, (n,), gain, bias, EPS), (x, gain, bias), dy)
    assert_no_worse(ours, stock, truth, rows)


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_partial_rmsnorm_is_as_exact_as_composed(n: int, outside: bool) -> None:
    rows, placement = 3 if n > 5000 else 33, "outside" if outside else "inside"
    x, gain, bias, dy = draw(rows, n, torch.float32)
    k = max(1, math.ceil(n * 0.0625))
    inputs = (x, gain, bias)
    truth = results(exact(x, gain, bias, EPS, centre=False, k=k, outside=outside), inputs, dy.double())
    ours, composed = (
        results(functional.rms_norm(x, gain, bias, EPS, 0.0625, impl, eps_placement=placement), inputs, dy)
        for impl in ("fused", "composed")
    )
    assert_no_worse(ours, composed, truth, rows)


def test_many_rows_keep_the_gradient_of_the_gain_exact() -> None:
    x, gain, bias, dy = draw(5000, 64, torch.float32)
    truth = results(exact(x, gain, bias, EPS, centre=True, k=64), (x, gain, bias), dy.double())
    ours = results(functional.layer_norm(x, gain, bias, EPS, impl="fused"), (x, gain, bias), dy)
    stock = results(F.layer_norm(x, (64,), gain, bias, EPS), (x, gain, bias), dy)
    assert_no_worse(ours, stock, truth, 16)


def test_a_large_output_written_past_the_caches_is_the_same() -> None:
    x, gain, _, dy = draw(4096, 512, torch.float32)  # 8 MiB, from where the CPU kernels stream
    small = results(functional.rms_norm(x[:64], gain, impl="fused"), (gain,), dy[:64])[0]
    assert torch.equal(functional.rms_norm(x, gain, impl="fused")[:64].detach(), small)
    truth = results(exact(x, gain, None, EPS, centre=False, k=512), (x, gain), dy.double())
    ours = results(functional.rms_norm(x, gain, None, EPS, impl="fused"), (x, gain), dy)
    stock = results(F.rms_norm(x, (512,), gain, EPS), (x, gain), dy)
    assert_no_worse(ours, stock, truth, 16)


@pytest.mark.parametrize("layer", [False, True])
def test_bfloat16_rows_take_a_float32_gain(layer: bool) -> None:
    x, gain, bias, dy = draw(17, 650, torch.bfloat16)
    gain, bias = (t.detach().float().requires_grad_() for t in (gain, bias))
    norm = functional.layer_norm if layer else functional.rms_norm
    ours = results(norm(x, gain, bias, impl="fused"), (x, gain, bias), dy)
    assert [t.dtype for t in ours] == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]
    truth = results(exact(x, gain, bias, EPS, centre=layer, k=650), (x, gain, bias), dy.double())
    for a, t in zip(ours, truth, strict=True):
        torch.testing.assert_close(a.double(), t.double(), rtol=1e-2, atol=2e-2 * t.abs().max().item())
