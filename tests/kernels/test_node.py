"""The C++ autograd node does what the Python function does, to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rmsrepro.kernels.cpu import node, norms
from rmsrepro.norms import functional

pytestmark = pytest.mark.skipif(node.norm is None, reason="the autograd node is not built here")


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(4)).to(dtype)


def results(norm: Callable[..., Tensor], dtype: torch.dtype, wanted: int, *, bias: bool) -> list[Tensor]:
    tensors = [draw(9, 50, dtype=dtype), draw(50), draw(50)][: 3 if bias else 2]
    leaves = [t.requires_grad_(bool(wanted >> i & 1)) for i, t in enumerate(tensors)]
    y = norm(*leaves, impl="fused")
    needed = [t for t in leaves if t.requires_grad]
    contiguous = torch.autograd.grad(y, needed, draw(9, 50, dtype=dtype), retain_graph=True)
    expanded = torch.autograd.grad(y.sum(), needed, retain_graph=True)
    transposed = torch.autograd.grad(y, needed, draw(50, 9, dtype=dtype).t())
    return [y.detach(), *contiguous, *expanded, *transposed]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("wanted", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("norm", [functional.rms_norm, functional.layer_norm])
def test_node_and_python_agree_bit_for_bit(
    norm: Callable[..., Tensor], wanted: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    bias = wanted >= 4
    by_node = results(norm, dtype, wanted, bias=bias)
    monkeypatch.setattr(norms, "_node", None)
    by_python = results(norm, dtype, wanted, bias=bias)
    assert len(by_node) == len(by_python)
    assert all(torch.equal(a, b) for a, b in zip(by_node, by_python, strict=True))


def test_a_bias_without_a_gain_gets_its_gradient() -> None:
    x, bias = draw(9, 50), draw(50).requires_grad_()
    (gradient,) = torch.autograd.grad(functional.rms_norm(x, None, bias, impl="fused").sum(), bias)
    assert torch.equal(gradient, torch.full((50,), 9.0))


def test_a_second_derivative_crosses_the_node() -> None:
    def second(impl: str) -> Tensor:
        x = draw(4, 24).requires_grad_()
        (first,) = torch.autograd.grad(functional.rms_norm(x, impl=impl).pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    torch.testing.assert_close(second("fused"), second("composed"), rtol=1e-3, atol=1e-3)
