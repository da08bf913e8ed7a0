"""The fast path gives what the generic loop gives in float64: outputs, last states and every gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from rmsrepro.errors import ConfigError
from rmsrepro.layers import NormGRU, NormLSTM

pytestmark = pytest.mark.usefixtures("kernels")

NORMS = {
    "none": ("none", {}),
    "layernorm": ("layernorm", {}),
    "layernorm, eps outside, offset": ("layernorm", {"eps_placement": "outside", "gain_offset": 1.0}),
    "rmsnorm": ("rmsnorm", {}),
    "rmsnorm, bias inside, eps outside": (
        "rmsnorm",
        {"bias_placement": "inside", "shift": True, "eps_placement": "outside"},
    ),
    "rmsnorm without gain": ("rmsnorm", {"gain": False}),
    "prmsnorm": ("prmsnorm", {"p": 0.3}),
    "l2norm": ("l2norm", {}),
    "l2norm, eps outside, no gain": ("l2norm", {"eps_placement": "outside", "gain": False}),
    "weightnorm": ("weightnorm", {}),
}
#: Steps, batch, input, hidden: one of each; none; ends of vectors, tiles and blocks.
SIZES = [(1, 1, 3, 5), (4, 3, 7, 33), (3, 25, 5, 16), (3, 0, 4, 4), (2, 2, 400, 40), (5, 13, 2, 3)]


def build(kind, size, norm, impl, dtype, **options):
    name, fields = NORMS[norm]
    layer = kind(size[2], size[3], norm=name, impl=impl, dtype=dtype, **options, **fields)
    return layer


def twins(kind, size, norm, **options):
    """The same layer by the kernels in float32 and by the loop in float64, with parameters far from their start."""
    fused = build(kind, size, norm, "fused", torch.float32, **options)
    for parameter in fused.parameters():
        nn.init.uniform_(parameter, -0.7, 1.0)
    exact = build(kind, size, norm, "composed", torch.float64, **options)
    exact.load_state_dict(fused.state_dict())
    return fused, exact


def run(layer, x, states, mask, weights):
    """Return outputs, last states, and the gradients of a weighted sum of both in inputs and parameters."""
    hx = states if isinstance(layer, NormLSTM) else states[0]
    y, last = layer(x, hx, mask=mask)
    parts = [y, *(last if isinstance(last, tuple) else (last,))]
    loss = sum((part * w.to(part.dtype)).sum() for part, w in zip(parts, weights, strict=True))
    return parts + list(torch.autograd.grad(loss, [x, *states, *layer.parameters()]))


def compare(kind, size, norm, masked=False, **options):
    fused, exact = twins(kind, size, norm, **options)
    steps, batch, width, hidden = size
    stacked = fused.num_layers * (1 + fused.bidirectional)
    x = torch.randn(steps, batch, width)
    states = [torch.randn(stacked, batch, hidden) for _ in range(fused.states)]
    weights = [torch.randn(steps, batch, hidden * (1 + fused.bidirectional)), *(torch.randn_like(s) for s in states)]
    mask = torch.rand(steps, batch) > 0.4 if masked else None
    results = []
    for layer, dtype in ((fused, torch.float32), (exact, torch.float64)):
        leaves = [t.to(dtype).requires_grad_() for t in (x, *states)]
        results.append(run(layer, leaves[0], leaves[1:], mask, weights))
    for got, expected in zip(*results, strict=True):
        scale = expected.abs().max().item() if expected.numel() else 0.0
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=2e-5 * (scale + 0.1))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", [NormLSTM, NormGRU])
def test_outputs_states_and_gradients_agree_with_the_loop(kind, norm, size):
    compare(kind, size, norm)


@pytest.mark.parametrize("norm", ["none", "layernorm", "rmsnorm", "prmsnorm"])
@pytest.mark.parametrize("kind", [NormLSTM, NormGRU])
def test_masked_stacked_bidirectional_layers_agree_with_the_loop(kind, norm):
    compare(kind, (5, 14, 6, 20), norm, masked=True, num_layers=2, bidirectional=True)


@pytest.mark.parametrize("site", ["norm_input", "norm_hidden", "norm_cell"])
@pytest.mark.parametrize("kind", [NormLSTM, NormGRU])
def test_each_site_can_be_left_without_its_norm(kind, site):
    if kind is NormGRU and site == "norm_cell":
        pytest.skip("a GRU has no cell state")
    compare(kind, (4, 3, 7, 33), "layernorm", cell={site: False})


@pytest.mark.parametrize(
    ("kind", "preset"), [(NormGRU, "nematus"), (NormGRU, "nematus_context"), (NormLSTM, "attentive_reader")]
)
def test_presets_agree_with_the_loop(kind, preset):
    compare(kind, (4, 3, 7, 33), "rmsnorm", cell=preset)


def test_unused_outputs_and_strided_inputs_and_gradients_are_served():
    layer = NormLSTM(6, 9, batch_first=True, impl="fused")
    loop = NormLSTM(6, 9, batch_first=True, impl="composed")
    loop.load_state_dict(layer.state_dict())
    x = torch.randn(3, 5, 12)[..., ::2]
    for use in (
        lambda y, h, c: y.sum(),  # an expanded gradient
        lambda y, h, c: (y.transpose(1, 2) * torch.arange(9.0).view(1, 9, 1)).sum(),
        lambda y, h, c: h.square().sum(),
        lambda y, h, c: c.sum(),
    ):
        grads = []
        for module in (layer, loop):
            y, (h, c) = module(x)
            grads.append(torch.autograd.grad(use(y, h, c), list(module.parameters()), allow_unused=True))
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b, rtol=1e-4, atol=1e-5)


def test_the_graph_can_be_walked_twice_and_the_incoming_gradient_is_left_alone():
    layer = NormGRU(6, 9, impl="fused")
    y, _ = layer(torch.randn(4, 3, 6))
    dy = torch.randn_like(y)
    before = dy.clone()
    first = torch.autograd.grad(y, list(layer.parameters()), dy, retain_graph=True)
    second = torch.autograd.grad(y, list(layer.parameters()), dy)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(dy, before)


def test_a_second_derivative_is_refused_in_words():
    layer = NormGRU(6, 9, impl="fused")
    y, _ = layer(torch.randn(4, 3, 6))
    with pytest.raises(RuntimeError, match="second derivative; use impl=composed"):
        torch.autograd.grad(y.sum(), list(layer.parameters()), create_graph=True)


def test_results_do_not_depend_on_the_number_of_threads():
    layer = NormLSTM(6, 40, impl="fused")
    x, dy = torch.randn(4, 30, 6), torch.randn(4, 30, 40)
    results, threads = [], torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            y, _ = layer(x)
            results.append([y, *torch.autograd.grad(y, list(layer.parameters()), dy)])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_sequence_with_nan_or_overflow_touches_no_other():
    layer = NormLSTM(6, 9, impl="fused")
    x = torch.randn(4, 3, 6)
    expected, _ = layer(x)
    x[1, 1] = float("nan")
    got, _ = layer(x)
    assert got[1:, 1].isnan().all()
    assert torch.equal(got[:, ::2], expected[:, ::2])
    x[1, 1] = 1e30  # its squares overflow
    assert layer(x)[0].isfinite().all()


def test_every_parameter_learns():
    for kind in (NormLSTM, NormGRU):
        layer = kind(6, 9, 2, norm="layernorm", impl="fused")
        before = {name: p.clone() for name, p in layer.named_parameters()}
        layer(torch.randn(4, 3, 6))[0].square().sum().backward()
        torch.optim.SGD(layer.parameters(), 0.1).step()
        assert all(not torch.equal(p, before[name]) for name, p in layer.named_parameters())


def test_what_the_kernels_cannot_do_is_refused_for_fused_and_served_for_auto():
    cases = [
        (NormLSTM(6, 9, norm="batchnorm", impl="fused"), torch.randn(4, 3, 6), "know none, layernorm"),
        (NormGRU(6, 9, cell={"reset": "before"}, impl="fused"), torch.randn(4, 3, 6), "cell.reset=before"),
        (NormGRU(6, 9, cell="order_embedding", impl="fused"), torch.randn(4, 3, 6), "hoist_input"),
        (NormLSTM(6, 9, impl="fused", dtype=torch.float64), torch.randn(4, 3, 6).double(), "float32"),
    ]
    for layer, x, reason in cases:
        with pytest.raises(ConfigError, match=f"impl=fused: .*{reason}.*; use impl=auto"):
            layer(x)
        layer.norm.impl = "auto"
        layer.norm.family.impl = "auto"
    double = NormLSTM(6, 9, dtype=torch.float64)
    assert double(torch.randn(4, 3, 6).double())[0].dtype == torch.float64
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert NormLSTM(6, 9)(torch.randn(4, 3, 6))[0].isfinite().all()


def test_the_kernels_leave_the_work_to_torch_where_operations_are_counted_or_mapped():
    layer, x = NormLSTM(6, 9, norm="rmsnorm", impl="fused"), torch.randn(4, 3, 6)
    with FlopCounterMode(display=False), pytest.raises(ConfigError, match="plain tensors"):
        layer(x)
    with pytest.raises(ConfigError, match="plain tensors"):
        torch.func.vmap(lambda part: layer(part)[0])(x.unsqueeze(0))
    with FlopCounterMode(display=False) as counter:
        NormLSTM(6, 9, norm="rmsnorm")(x)
    assert counter.get_total_flops() >= 2 * 4 * 3 * (6 + 9) * 36
