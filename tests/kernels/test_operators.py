"""The norms inside PyTorch: registered operators, torch.compile, autocast, vmap, second derivatives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rmsrepro.kernels import ops  # registers the operators
from rmsrepro.kernels.spec import NormSpec
from rmsrepro.norms import functional
from tests.kernels.support import device, needs_kernels

pytestmark = needs_kernels
SPECS = {
    "layernorm": NormSpec(True, 24, 1e-5),
    "rmsnorm": NormSpec(False, 24, 1e-5, True, 1.0),
    "partial": NormSpec(False, 7, 1e-5),
}


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(device(), dtype)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_operators_pass_torch_s_own_checks(spec: NormSpec) -> None:
    x, residual, gain, bias = (draw(5, 24).requires_grad_(), draw(5, 24).requires_grad_(), draw(24), draw(24))
    gain.requires_grad_()
    bias.requires_grad_()
    torch.library.opcheck(torch.ops.rmsrepro.norm.default, (x, gain, bias, *spec))
    torch.library.opcheck(torch.ops.rmsrepro.norm.default, (x, None, None, *spec))
    torch.library.opcheck(torch.ops.rmsrepro.add_norm.default, (x, residual, gain, bias, *spec))
    stat = torch.ops.rmsrepro.norm(x, gain, bias, *spec)[1]
    arguments = (draw(5, 24), None, x.detach(), gain.detach(), stat.detach(), torch.float32, [True, True, True], *spec)
    torch.library.opcheck(torch.ops.rmsrepro.norm_backward.default, arguments)


def test_operator_and_eager_path_agree_bit_for_bit() -> None:
    spec, x, gain, dy = SPECS["partial"], draw(5, 24).requires_grad_(), draw(24).requires_grad_(), draw(5, 24)
    by_operator = ops.norm(x, gain, None, spec)
    eager = functional.rms_norm(x, gain, partial=7 / 24, impl="fused")
    assert torch.equal(by_operator, eager)
    for a, b in zip(
        torch.autograd.grad(by_operator, (x, gain), dy), torch.autograd.grad(eager, (x, gain), dy), strict=True
    ):
        assert torch.equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("impl", ["fused", "auto", "compile", "torch"])
def test_compiled_whole_graphs_hold_a_norm_without_a_break(impl: str) -> None:
    def block(x: Tensor, gain: Tensor) -> Tensor:
        return functional.rms_norm(x * 2, gain, impl=impl).relu() + functional.layer_norm(x, gain, impl=impl)

    x, gain = draw(6, 24).requires_grad_(), draw(24).requires_grad_()
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    ours, theirs = compiled(x, gain), block(x, gain)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(*(torch.autograd.grad(y.sum(), (x, gain)) for y in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)


def test_autocast_leaves_bfloat16_rows_as_they_are() -> None:
    layer = torch.nn.Linear(24, 24, device=device())
    gain = draw(24).requires_grad_()
    with torch.autocast(device(), torch.bfloat16):
        y = functional.rms_norm(layer(draw(5, 24)), gain, impl="fused")
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert gain.grad is not None
    assert gain.grad.dtype == torch.float32


@pytest.mark.parametrize("impl", ["auto", "fused", "torch", "composed"])
def test_vmap_maps_over_rows_and_over_gains(impl: str) -> None:
    x, gain = draw(3, 5, 24), draw(3, 24)
    mapped = torch.func.vmap(lambda a, g: functional.rms_norm(a, g, impl=impl))(x, gain)
    single = torch.stack([functional.rms_norm(a, g, impl="composed") for a, g in zip(x, gain, strict=True)])
    torch.testing.assert_close(mapped, single)


@pytest.mark.parametrize("layer", [False, True])
def test_second_derivatives_are_those_of_the_composed_formula(layer: bool) -> None:
    norm = functional.layer_norm if layer else functional.rms_norm
    results = []
    for impl in ("fused", "composed"):
        x, gain = draw(4, 24).requires_grad_(), draw(24).requires_grad_()
        (first,) = torch.autograd.grad(norm(x, gain, impl=impl).pow(3).sum(), x, create_graph=True)
        results.append(torch.autograd.grad(first.pow(2).sum(), (x, gain)))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_a_gain_of_the_wrong_length_is_refused_before_memory_is_read() -> None:
    with pytest.raises(ValueError, match=r"weight is \[23\].*needs \[24\]"):
        functional.rms_norm(draw(5, 24), draw(23), impl="fused")


def test_no_gradient_is_recorded_without_grad_mode() -> None:
    with torch.no_grad():
        assert not functional.rms_norm(draw(2, 24).requires_grad_(), impl="fused").requires_grad
