"""Run by test_triton.py in a process of its own, where Triton's interpreter stands in for a GPU."""

from __future__ import annotations

import pytest
import torch

from rmsrepro.kernels import reference
from rmsrepro.kernels.spec import NormSpec
from rmsrepro.kernels.triton import norms
from tests.kernels.support import exact


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


#: A short row, several tiles of rows, a long row, and rows that the backward and the forward kernels stream.
SHAPES = ((1, 3), (33, 50), (3, 1128), (2, 8193), (2, 16500))


@pytest.mark.parametrize(
    ("rows", "n", "gain_dtype"),
    [(*shape, torch.float32) for shape in SHAPES] + [(5, 36, torch.bfloat16), (5, 36, None)],
    ids=str,
)
@pytest.mark.parametrize("kind", ["layer", "rms", "partial", "outside"])
def test_kernels_agree_with_the_formula(rows: int, n: int, gain_dtype: torch.dtype | None, kind: str) -> None:
    k = max(1, n // 16) if kind == "partial" else n
    spec = NormSpec(kind == "layer", k, 1e-3, kind == "outside", 0.5 if gain_dtype else 0.0)
    x, residual, dy, dsum = draw(rows, n), draw(rows, n, seed=1), draw(n, rows).t(), draw(1, n).expand(rows, n)
    gain = None if gain_dtype is None else draw(n).to(gain_dtype)
    bias = draw(n, seed=2)
    plan = norms.plan(spec, n, x.dtype, gain_dtype, bias.dtype)
    y, added, stat = plan.forward(x, gain, bias, residual)
    effective = None if gain is None else gain.double() + spec.gain_offset
    truth = exact(x + residual, effective, bias, spec.eps, centre=spec.centre, k=k, outside=spec.eps_outside)
    torch.testing.assert_close(y.double(), truth, rtol=1e-4, atol=1e-4)
    assert torch.equal(added, x + residual)
    ours = plan.backward(dy, added, gain, stat, True, gain is not None, True, dsum)
    theirs = reference.backward(spec, dy, added, gain, (True, gain is not None, True), bias.dtype)
    torch.testing.assert_close(ours[0], theirs[0] + dsum, rtol=1e-3, atol=1e-3)
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-2 if gain_dtype == torch.bfloat16 else 1e-3, atol=1e-3)


def test_overflow_infinity_and_nan_stay_in_their_rows() -> None:
    x = draw(5, 50)
    x[1], x[2, 3], x[3, 4] = 1e30, torch.inf, torch.nan
    y = norms.plan(NormSpec(False, 50, 1e-5), 50, x.dtype, None, None).forward(x, None, None)[0]
    torch.testing.assert_close(y[1], torch.ones(50))
    assert y[2].nan_to_num(7.0).tolist() == [0.0] * 3 + [7.0] + [0.0] * 46
    assert y[3].isnan().all()
    assert y[[0, 4]].isfinite().all()


def test_no_rows_give_zero_gradients() -> None:
    plan = norms.plan(NormSpec(True, 24, 1e-5), 24, torch.float32, torch.float32, torch.float32)
    x, gain, bias = draw(0, 24), draw(24), draw(24)
    y, _, stat = plan.forward(x, gain, bias)
    _, dgain, dbias = plan.backward(y, x, gain, stat, True, True, True)
    assert dgain.eq(0).all()
    assert dbias.eq(0).all()


@pytest.mark.parametrize("n", [50, 8200])
def test_strided_rows_and_unwanted_gradients(n: int) -> None:
    x, gain = draw(6, 2 * n)[:, :n], draw(n)
    plan = norms.plan(NormSpec(False, n, 1e-5), n, x.dtype, gain.dtype, None)
    y, _, stat = plan.forward(x, gain, None)
    whole = plan.forward(x.contiguous(), gain, None)
    assert torch.equal(y, whole[0])
    dx, dgain, dbias = plan.backward(y, x, gain, stat, False, True, False)
    assert (dx, dbias) == (None, None)
    assert torch.equal(dgain, plan.backward(y, x, gain, stat, True, True, False)[1])
