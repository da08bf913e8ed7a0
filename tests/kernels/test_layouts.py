"""Any layout gives the numbers of its contiguous copy, and no input is written to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rmsrepro.norms import functional
from tests.kernels.support import device, needs_kernels

IMPLS = ("composed", "torch", pytest.param("fused", marks=needs_kernels))


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(device())


LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "every second column": lambda: draw(9, 48)[:, ::2],
    "left columns": lambda: draw(9, 48)[:, :24],
    "every second row": lambda: draw(18, 24)[::2],
    "transposed": lambda: draw(24, 9).t(),
    "transposed batch": lambda: draw(5, 7, 24).transpose(0, 1),
    "one row expanded": lambda: draw(1, 24).expand(9, 24),
    "one column expanded": lambda: draw(9, 1).expand(9, 24),
    "inner slice": lambda: draw(4, 6, 24)[:, 1:5],
    "rank 1": lambda: draw(24),
    "rank 3": lambda: draw(52, 7, 64),
    "rank 5": lambda: draw(2, 1, 3, 2, 24),
    "overlapping": lambda: draw(100).as_strided((9, 24), (5, 1)),
}


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strided_rows_equal_their_copy(layout: str, impl: str) -> None:
    x = LAYOUTS[layout]().detach()
    before = x.clone()
    gain = draw(x.shape[-1]) + 1
    results = []
    for rows in (x, x.contiguous(), x.reshape(-1, x.shape[-1])):
        leaf, weight = rows.detach().requires_grad_(), gain.clone().requires_grad_()
        y = functional.rms_norm(leaf, weight, partial=0.5, impl="composed" if impl == "torch" else impl)
        results.append((y, *torch.autograd.grad((y * 3).sum(), (leaf, weight))))
    assert results[0][0].shape == x.shape
    assert torch.equal(x, before)
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            torch.testing.assert_close(ours.reshape(theirs.shape), theirs)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("norm", [functional.rms_norm, functional.layer_norm])
def test_any_upstream_gradient_is_read_right_and_left_alone(norm: Callable[..., Tensor], impl: str) -> None:
    x, gain = draw(24, 24).requires_grad_(), draw(24).requires_grad_()
    base = draw(48, 48)
    upstream = {
        "sum": torch.ones(1, 1, device=device()).expand(24, 24),
        "row": draw(1, 24).expand(24, 24),
        "transposed": draw(24, 24).t(),
        "strided": base[::2, ::2],
        "left columns": base[:24, :24],
    }
    for name, dy in upstream.items():
        before = dy.clone()
        ours = torch.autograd.grad(norm(x, gain, impl=impl), (x, gain), dy)
        copy = torch.autograd.grad(norm(x, gain, impl=impl), (x, gain), dy.contiguous())
        assert torch.equal(dy, before), name
        for a, b in zip(ours, copy, strict=True):
            torch.testing.assert_close(a, b, msg=name)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("shape", [(0, 24), (4, 0, 24), (0, 3, 24)])
def test_no_rows_give_no_output_and_zero_gradients(shape: tuple[int, ...], impl: str) -> None:
    x, gain, bias = draw(*shape).requires_grad_(), draw(24).requires_grad_(), draw(24).requires_grad_()
    for norm in (functional.rms_norm, functional.layer_norm):
        y = norm(x, gain, bias, impl=impl)
        assert y.shape == shape
        for gradient in torch.autograd.grad(y.sum(), (gain, bias)):
            assert torch.equal(gradient, torch.zeros_like(gradient))
        assert norm(draw(2, 24), gain, bias, impl=impl).isfinite().all()


@needs_kernels
@pytest.mark.parametrize("wanted", range(1, 8))
@pytest.mark.parametrize("norm", [functional.rms_norm, functional.layer_norm])
def test_any_subset_of_gradients_is_the_full_set_s(norm: Callable[..., Tensor], wanted: int) -> None:
    tensors, dy = (draw(33, 50), draw(50), draw(50)), draw(33, 50)
    full = [t.clone().requires_grad_() for t in tensors]
    everything = torch.autograd.grad(norm(*full, impl="fused"), full, dy)
    some = [t.clone().requires_grad_(bool(wanted >> i & 1)) for i, t in enumerate(tensors)]
    leaves = [t for t in some if t.requires_grad]
    chosen = [g for i, g in enumerate(everything) if wanted >> i & 1]
    for ours, theirs in zip(torch.autograd.grad(norm(*some, impl="fused"), leaves, dy), chosen, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@needs_kernels
def test_kernels_write_every_element_of_their_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(allocate: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *args, **kwargs: allocate(*args, **kwargs).fill_(torch.nan)

    x, gain, bias, dy = draw(7, 77).requires_grad_(), draw(77).requires_grad_(), draw(77).requires_grad_(), draw(7, 77)
    monkeypatch.setattr(torch, "empty", poisoned(torch.empty))
    monkeypatch.setattr(torch, "empty_like", poisoned(torch.empty_like))
    y = functional.layer_norm(x, gain, bias, impl="fused")
    assert all(t.isfinite().all() for t in (y, *torch.autograd.grad(y, (x, gain, bias), dy)))
