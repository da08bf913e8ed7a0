"""The conditional GRU: its kernels give what the generic loop gives in float64, and what it computes is Nematus's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rmsrepro.errors import ConfigError
from rmsrepro.layers.conditional_gru import ConditionalGRU
from rmsrepro.norms.factory import NormFactory, norm_config

NORMS = {
    "none": ("none", {}),
    "layernorm": ("layernorm", {}),
    "rmsnorm, bias inside, eps outside": (
        "rmsnorm",
        {"bias_placement": "inside", "shift": True, "eps_placement": "outside"},
    ),
    "rmsnorm without gain": ("rmsnorm", {"gain": False}),
    "prmsnorm": ("prmsnorm", {"p": 0.3}),
    "l2norm": ("l2norm", {}),
    "weightnorm": ("weightnorm", {}),
    "batchnorm": ("batchnorm", {}),
}
FUSED = [name for name in NORMS if name != "batchnorm"]
#: Steps, batch, input, hidden, positions, context, attention: one of each; none; ends of vectors, tiles and blocks.
SIZES = [(1, 1, 3, 5, 1, 2, 3), (4, 3, 7, 33, 5, 9, 17), (3, 25, 5, 16, 6, 40, 32), (3, 0, 4, 4, 2, 3, 3)]
CELLS = {"nematus": {}, "outside": {"first": {"biases": "input"}, "second": {"biases": "hidden"}}}


def build(size, norm, impl, dtype=torch.float32, **cells):
    """Return a conditional GRU; `l2norm` has no fused kernel of its own outside of the loops."""
    _, _, width, hidden, _, context, attention = size
    name, fields = NORMS[norm]
    factory = NormFactory(norm_config(name, **fields), impl)
    return ConditionalGRU(width, hidden, context, attention, norm=factory, **cells).to(dtype)


def inputs(size, masked=False):
    steps, batch, width, hidden, positions, context, _ = size
    x, h = torch.randn(steps, batch, width), torch.randn(batch, hidden)
    lengths = torch.randint(1, positions + 1, (batch,))
    return x, h, torch.randn(batch, positions, context), lengths, torch.rand(steps, batch) > 0.4 if masked else None


def run(layer, given, weights):
    """Return states, contexts, and the gradients of a weighted sum of both in inputs and parameters."""
    dtype = layer.attention.score.dtype
    x, h, context, lengths, mask = given
    leaves = [t.to(dtype, copy=True).requires_grad_() for t in (x, h, context)]
    results = layer(leaves[0], leaves[1], layer.attention.memory(leaves[2], lengths), mask)
    loss = sum((part * w.to(dtype)).sum() for part, w in zip(results, weights, strict=True))
    return [*results, *torch.autograd.grad(loss, [*leaves, *layer.parameters()])]


def compare(size, norm, masked=False, **cells):
    fused = build(size, norm, "auto", **cells)
    for parameter in fused.parameters():
        nn.init.uniform_(parameter, -0.7, 1.0)
    exact = build(size, norm, "composed", torch.float64, **cells)
    exact.load_state_dict(fused.state_dict())
    given = inputs(size, masked)
    cell = fused.cell()
    assert fused._is_fused(*given[:2], cell, fused.attention.memory(*given[2:4]))
    weights = torch.randn(*size[:2], size[3]), torch.randn(*size[:2], size[5])
    for got, expected in zip(run(fused, given, weights), run(exact, given, weights), strict=True):
        scale = expected.abs().max().item() if expected.numel() else 0.0
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=3e-5 * (scale + 0.1))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("norm", FUSED)
def test_states_contexts_and_gradients_agree_with_the_loop(norm, size):
    compare(size, norm)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("norm", ["none", "layernorm", "rmsnorm, bias inside, eps outside"])
def test_masked_steps_and_other_cells_agree_with_the_loop(norm, cells):
    compare((5, 14, 6, 20, 7, 10, 24), norm, masked=True, **CELLS[cells])


@pytest.mark.usefixtures("kernels")
def test_unused_outputs_have_no_gradient():
    size = (3, 4, 5, 6, 7, 8, 9)
    fused, loop = build(size, "layernorm", "auto"), build(size, "layernorm", "composed")
    loop.load_state_dict(fused.state_dict())
    x, h, context, lengths, _ = inputs(size)
    for chosen in (0, 1):
        grads = []
        for layer in (fused, loop):
            results = layer(x, h, layer.attention.memory(context, lengths))
            loss = results[chosen][..., ::2].square().sum()
            grads.append(torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True))
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("impl", ["auto", "composed"])
def test_hypotheses_of_one_sentence_share_its_memory(impl):
    size = (2, 6, 5, 7, 4, 3, 8)
    layer = build(size, "layernorm", impl)
    x, h, context, lengths, _ = inputs(size)
    memory = layer.attention.memory(context[:2], lengths[:2])
    with torch.no_grad():
        shared = layer(x, h, memory)
        apart = layer(x, h, memory.repeated(3))
    for a, b in zip(shared, apart, strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(layer(x, h, memory)[0].detach(), shared[0])


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("norm", ["none", "layernorm", "weightnorm"])
def test_weights_packed_before_give_the_same_bits(norm):
    size = (2, 25, 5, 33, 4, 3, 8)
    layer = build(size, norm, "auto")
    x, h, context, lengths, _ = inputs(size)
    with torch.no_grad():
        memory = layer.attention.memory(context, lengths)
        panels = layer.packed(h, memory)
        assert panels is not None
        for got, expected in zip(layer(x, h, memory, panels=panels), layer(x, h, memory), strict=True):
            assert torch.equal(got, expected)
    assert build(size, norm, "composed").packed(h, memory) is None


@pytest.mark.parametrize("impl", ["auto", "composed"])
@pytest.mark.parametrize("norm", ["none", "rmsnorm without gain", "batchnorm"])
def test_padding_changes_nothing(norm, impl):
    size = (4, 3, 5, 6, 7, 8, 9)
    layer = build(size, norm, impl)
    x, h, context, _, _ = inputs(size)
    lengths = torch.tensor([2, 5, 3])
    states, contexts = layer(x, h, layer.attention.memory(context[:, :5], lengths))
    mask = torch.ones(6, 3, dtype=torch.bool)
    mask[4:] = False
    padded = torch.cat([x, torch.full((2, 3, 5), 1e3)])
    spoilt = context.masked_fill(torch.arange(7)[:, None] >= lengths[:, None, None], 1e3)
    got, attended = layer(padded, h, layer.attention.memory(spoilt, lengths), mask)
    torch.testing.assert_close(got[:4], states)
    torch.testing.assert_close(attended[:4], contexts)
    assert torch.equal(got[4:], got[3:4].expand(2, -1, -1))
    assert not attended[4:].any()


def test_it_is_two_plain_gru_cells_with_attention_between():
    size = (3, 2, 5, 6, 4, 8, 7)
    layer = build(size, "none", "composed")
    x, h, context, _, _ = inputs(size)
    memory = layer.attention.memory(context, torch.tensor([4, 4]))
    states, contexts = layer(x, h, memory)
    cells = []
    for gru, width in ((layer.first, 5), (layer.second, 8)):
        cell = nn.GRUCell(width, 6)
        weights = dict(gru.named_parameters())
        for name, parameter in cell.named_parameters():
            parameter.data.copy_(weights.get(f"{name}_l0", torch.zeros(())))
        cells.append(cell)
    for t in range(3):
        between = cells[0](x[t], h)
        query = between @ layer.attention.query.weight.t()
        scores = torch.tanh(memory.keys + query[:, None]) @ layer.attention.score
        attended = (scores.softmax(1)[:, :, None] * context).sum(1)
        h = cells[1](attended, between)
        torch.testing.assert_close(contexts[t], attended)
        torch.testing.assert_close(states[t], h)


@pytest.mark.usefixtures("kernels")
def test_results_do_not_depend_on_the_number_of_threads():
    size = (4, 30, 6, 40, 5, 8, 9)
    layer, given = build(size, "layernorm", "auto"), inputs(size)
    weights = torch.randn(4, 30, 40), torch.randn(4, 30, 8)
    results, threads = [], torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            results.append(run(layer, given, weights))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_what_does_not_fit_is_refused():
    size = (2, 4, 5, 6, 3, 8, 9)
    layer = build(size, "none", "auto")
    x, h, context, lengths, _ = inputs(size)
    memory = layer.attention.memory(context, lengths)
    with pytest.raises(ValueError, match="lengths must be from 1 to 3"):
        layer.attention.memory(context, lengths + 3)
    with pytest.raises(ValueError, match="h is"):
        layer(x, h[:, :5], memory)
    with pytest.raises(ValueError, match="cannot share 3 memories"):
        layer(x, h, type(memory)(*(part[:3] for part in memory)))
    double = build(size, "none", "fused", torch.float64)
    memory = double.attention.memory(context.double(), lengths)
    with pytest.raises(ConfigError, match=r"impl=fused: .*; use impl=auto"):
        double(x.double(), h.double(), memory)
