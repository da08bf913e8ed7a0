"""What must hold whatever the shape: invariances, equalities between norms, and the same bits every time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rmsrepro.kernels import reference
from rmsrepro.kernels.spec import NormSpec
from rmsrepro.norms import functional
from tests.kernels.support import device, needs_kernels

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")
pytestmark = needs_kernels
shapes = st.tuples(st.integers(1, 40), st.integers(2, 700))
quick = hypothesis.settings(max_examples=40, deadline=None)


def draw(rows: int, n: int) -> Tensor:
    generator = torch.Generator().manual_seed(rows * 1009 + n)
    return torch.randn(rows, n, generator=generator).to(device())


@quick
@hypothesis.given(shapes, st.floats(0.01, 1.0), st.integers(-20, 20))
def test_rmsnorm_does_not_see_the_scale_of_its_input(shape: tuple[int, int], p: float, power: int) -> None:
    x = draw(*shape)
    y = functional.rms_norm(x, eps=0.0, partial=p, impl="fused")
    scaled = functional.rms_norm(x * 2.0**power, eps=0.0, partial=p, impl="fused")
    torch.testing.assert_close(scaled, y, rtol=1e-6, atol=0)


@quick
@hypothesis.given(shapes, st.floats(-3, 3))
def test_layernorm_is_rmsnorm_of_the_centred_rows(shape: tuple[int, int], shift: float) -> None:
    x = draw(*shape)
    centred = (x.double() - x.double().mean(-1, keepdim=True)).float()
    y = functional.layer_norm(x + shift, impl="fused")
    torch.testing.assert_close(y, functional.rms_norm(centred, impl="fused"), rtol=1e-3, atol=1e-4)


@quick
@hypothesis.given(shapes, st.floats(0.01, 1.0), st.booleans(), st.booleans(), st.sampled_from([0.0, 1.0]))
def test_gradients_are_the_reference_s(
    shape: tuple[int, int], p: float, centre: bool, outside: bool, offset: float
) -> None:
    rows, n = shape
    x, dy = draw(rows, n), draw(n, rows).t()
    gain, bias = draw(1, n)[0], draw(1, n)[0]
    norm = functional.layer_norm if centre else functional.rms_norm
    fields = {"eps_placement": "outside" if outside else "inside", "gain_offset": offset}
    if not centre:
        fields["partial"] = p
    leaves = [t.clone().requires_grad_() for t in (x, gain, bias)]
    ours = torch.autograd.grad(norm(*leaves, eps=0.1, impl="fused", **fields), leaves, dy)
    spec = functional.Formula("", 0.1, p).spec(n)
    spec = NormSpec(centre, n if centre else spec.k, 0.1, outside, offset)
    theirs = reference.backward(spec, dy, x, gain, (True, True, True))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=2e-4)


@quick
@hypothesis.given(shapes)
def test_adding_a_residual_is_a_sum_and_a_norm(shape: tuple[int, int]) -> None:
    x, residual, gain, dy = draw(*shape), draw(*shape) + 1, draw(1, shape[1])[0], draw(*shape) * 2
    results = []
    for impl in ("fused", "composed"):
        leaves = [t.clone().requires_grad_() for t in (x, residual, gain)]
        y, added = functional.add_rms_norm(*leaves, impl=impl, partial=0.3)
        results.append((y, added, *torch.autograd.grad((y * dy + added * 3 * dy).sum(), leaves)))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_a_partial_norm_of_everything_is_the_full_norm() -> None:
    x = draw(9, 50)
    assert torch.equal(
        functional.rms_norm(x, partial=1.0, impl="fused"), functional.rms_norm(x, partial=0.999, impl="fused")
    )


@pytest.mark.parametrize("shape", [(33, 50), (700, 650), (2000, 512)])
def test_bits_depend_on_neither_the_run_nor_the_number_of_threads(shape: tuple[int, int]) -> None:
    x, gain, bias = draw(*shape).requires_grad_(), draw(1, shape[1])[0].requires_grad_(), draw(1, shape[1])[0]
    bias.requires_grad_()
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (2, 2, 1):
            torch.set_num_threads(threads)
            y = functional.layer_norm(x, gain, bias, impl="fused")
            results.append((y, *torch.autograd.grad(y, (x, gain, bias), draw(*shape))))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))
