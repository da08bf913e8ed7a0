"""Rows at the ends of the number range: zero, huge, tiny, infinite and NaN."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rmsrepro.norms import functional
from tests.kernels.support import device, needs_kernels

IMPLS = ("composed", "torch", pytest.param("fused", marks=needs_kernels))


def rows_with(value: float, at: int | None = None) -> Tensor:
    x = torch.linspace(-1, 1, 96).reshape(3, 32).clone()
    if at is None:
        x[1] = value
    else:
        x[1, at] = value
    return x.to(device())


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("special", [rows_with(torch.nan), rows_with(torch.nan, 5), rows_with(torch.inf, 5)])
@pytest.mark.parametrize("norm", [functional.rms_norm, functional.layer_norm])
def test_a_bad_row_touches_no_other_row(norm: Callable[..., Tensor], special: Tensor, impl: str) -> None:
    y = norm(special, impl=impl)
    clean = norm(rows_with(0.0), impl=impl)
    assert not y[1].isfinite().all()
    torch.testing.assert_close(y[0::2], clean[0::2], rtol=1e-6, atol=1e-6)


@needs_kernels
@pytest.mark.parametrize("special", [rows_with(torch.nan), rows_with(torch.inf, 5), rows_with(-torch.inf)])
def test_fused_treats_infinities_as_stock_does(special: Tensor) -> None:
    for ours, stock in (
        (functional.rms_norm(special, impl="fused"), F.rms_norm(special, (32,), None, 1e-5)),
        (functional.layer_norm(special, impl="fused"), F.layer_norm(special, (32,), None, None, 1e-5)),
    ):
        torch.testing.assert_close(ours, stock, equal_nan=True, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("value", [1e30, -3e38])
def test_an_overflowing_row_is_right_or_flagged(value: float, impl: str) -> None:
    row = functional.rms_norm(rows_with(value), impl=impl)[1]
    right = torch.full_like(row, 1.0 if value > 0 else -1.0)
    assert not row.isfinite().any() or torch.allclose(row, right, rtol=1e-6)


@needs_kernels
@pytest.mark.parametrize("value", [1e30, 1e-25])
def test_fused_is_right_where_squares_leave_the_range(value: float) -> None:
    x = (torch.linspace(1, 2, 64, dtype=torch.float64) * value).to(device())
    y = functional.rms_norm(x.float(), eps=0.0, impl="fused")
    torch.testing.assert_close(y.double(), x / x.square().mean().sqrt(), rtol=1e-5, atol=1e-5)


@needs_kernels
def test_the_gradient_of_a_huge_row_is_right() -> None:
    base = torch.linspace(1, 2, 64, device=device())
    dy = torch.linspace(-1, 3, 64, device=device())
    gradients = []
    for scale in (1.0, 2.0**100):
        x = (base * scale).requires_grad_()
        gradients.append(torch.autograd.grad(functional.rms_norm(x, eps=0.0, impl="fused"), x, dy)[0] * scale)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("placement", ["inside", "outside"])
def test_a_zero_row_gives_zeros_and_finite_gradients(placement: str, impl: str) -> None:
    x = torch.zeros(2, 32, device=device(), requires_grad=True)
    for norm in (functional.rms_norm, functional.layer_norm):
        y = norm(x, eps_placement=placement, impl=impl)
        assert torch.equal(y, torch.zeros_like(y))
        assert torch.autograd.grad(y.sum(), x)[0].isfinite().all()


@pytest.mark.parametrize("impl", ["composed", "torch", "auto"])
def test_half_precision_squares_are_summed_in_float32(impl: str) -> None:
    y = functional.rms_norm(torch.full((2, 64), 300.0, dtype=torch.float16, device=device()), impl=impl)
    assert torch.equal(y, torch.ones_like(y))


@pytest.mark.parametrize("impl", IMPLS)
def test_known_values_of_both_placements_of_eps(impl: str) -> None:
    def value(x: list[float], eps: float, placement: str) -> Tensor:
        return functional.rms_norm(torch.tensor([x], device=device()), eps=eps, impl=impl, eps_placement=placement)[
            0
        ].cpu()

    expected = {
        ((3.0, 4.0), 1e-12, "inside"): (0.848528, 1.131371),
        ((0.003, 0.004), 1e-5, "inside"): (0.632456, 0.843274),
        ((0.003, 0.004), 1e-5, "outside"): (0.846135, 1.128180),
    }
    for (x, eps, placement), y in expected.items():
        torch.testing.assert_close(value(list(x), eps, placement), torch.tensor(y), rtol=0, atol=1e-6)
