"""The pieces of the recurrent CPU kernels: activations and the matrix product, for every instruction set."""

from __future__ import annotations

import ctypes

import pytest
import torch

from rmsrepro.kernels.cpu import library, recurrent

pytestmark = pytest.mark.usefixtures("kernels")


def activate(x: torch.Tensor, name: str) -> torch.Tensor:
    y = torch.full_like(x, float("nan"))
    assert library.library is not None
    addresses = (ctypes.c_void_p(t.data_ptr()) for t in (x, y))
    library.library.rr_activate(*addresses, ctypes.c_int64(x.numel()), ctypes.c_int32(name == "tanh"))
    return y


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_activations_are_exact_to_a_few_units_in_the_last_place(name, instruction_set):
    tiny = torch.logspace(-30, 1, 20_001)
    x = torch.cat([torch.linspace(-100, 100, 200_001), tiny, -tiny])
    exact = getattr(torch, name)(x.double())
    kept = exact.abs() > 1e-37  # below, float32 has fewer digits
    error = ((activate(x, name).double() - exact).abs() / exact.abs())[kept]
    assert error.max() < 4 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize(("name", "limits"), [("sigmoid", [0.0, 1.0]), ("tanh", [-1.0, 1.0])])
def test_activations_keep_infinities_and_nan_in_bounds(name, limits, instruction_set):
    y = activate(torch.tensor([-float("inf"), float("inf"), float("nan"), 0.0]), name)
    torch.testing.assert_close(y[:2], torch.tensor(limits), rtol=0, atol=1e-37)
    assert y[2].isnan()
    assert y[3] == (0.0 if name == "tanh" else 0.5)


@pytest.mark.parametrize("size", [(1, 1, 1), (7, 5, 3), (13, 1030, 33), (250, 2050, 70), (3, 0, 4), (0, 3, 4)], ids=str)
def test_products_of_any_strides_agree_with_float64(size, instruction_set):
    rows, depth, columns = size
    a, b, bias = torch.randn(rows, depth), torch.randn(depth, columns), torch.randn(columns)
    exact = a.double() @ b.double() + bias.double()
    for left in (a, a.t().contiguous().t()):
        for right in (b, b.t().contiguous().t()):
            got = recurrent.multiply(left, right, bias)
            torch.testing.assert_close(got.double(), exact, rtol=0, atol=1e-5 * (1 + depth) ** 0.5)
