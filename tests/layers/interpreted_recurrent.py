"""The GPU's recurrent kernels against the loop, step by step and as replayed graphs.

Without a GPU test_recurrent_triton.py runs this in a process of its own, with Triton's interpreter in place of one.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rmsrepro.kernels.triton import captured, recurrent
from rmsrepro.kernels.triton.graphs import Graphs, capture_on_gpu
from rmsrepro.layers import NormGRU, NormLSTM, fused
from tests.kernels.support import capture_by_hand

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

FIELDS = {
    "none": {},
    "layernorm": {"eps_placement": "outside", "gain_offset": 1.0},
    "rmsnorm": {"bias_placement": "inside", "shift": True},
    "prmsnorm": {"p": 0.3, "eps_placement": "outside"},
    "l2norm": {},
}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(fused, "_kernels", lambda tensor: recurrent)


def compare(kind, norm, module, loop, batch):
    """Run the layer and the loop, a module in float64, on the same fresh input; compare values and gradients."""
    x, mask = torch.randn(3, batch, 7), torch.rand(3, batch) > 0.3
    directions = 2 if module.bidirectional else 1
    states = [torch.randn(directions, batch, 20) for _ in range(module.states)]
    results = []
    for layer, dtype in ((module, torch.float32), (loop, torch.float64)):
        leaves = [t.to(DEVICE, dtype).requires_grad_() for t in (x, *states)]
        hx = tuple(leaves[1:]) if kind is NormLSTM else leaves[1]
        y, last = layer(leaves[0], hx, mask=mask.to(DEVICE))
        parts = [y, *(last if isinstance(last, tuple) else (last,))]
        weights = torch.linspace(-1, 1, 20 * directions, dtype=dtype, device=DEVICE)
        loss = sum((part * weights[: part.shape[-1]]).square().sum() for part in parts)
        results.append(parts + list(torch.autograd.grad(loss, [*leaves, *layer.parameters()])))
    for got, expected in zip(*results, strict=True):
        scale = expected.abs().max().item() if expected.numel() else 0.0
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=2e-5 * (scale + 0.1))


def build(kind, norm, bidirectional):
    """Return a layer, and the loop with the same parameters."""
    options = {"norm": norm, "bidirectional": bidirectional, **FIELDS[norm]}
    layer = kind(7, 20, impl="fused", **options)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -0.7, 1.0)
    loop = kind(7, 20, impl="composed", dtype=torch.float64, **options)
    loop.load_state_dict(layer.state_dict())
    return layer.to(DEVICE), loop.to(DEVICE)


@pytest.mark.parametrize(("norm", "batch"), [*((norm, 2) for norm in FIELDS), ("rmsnorm", 0)])
@pytest.mark.parametrize("kind", [NormLSTM, NormGRU])
def test_outputs_states_and_gradients_agree_with_the_loop(kind, norm, batch):
    compare(kind, norm, *build(kind, norm, bidirectional=norm == "rmsnorm"), batch)


@pytest.mark.parametrize("kind", [NormLSTM, NormGRU] if DEVICE == "cuda" else [NormLSTM])
def test_replayed_graphs_agree_with_the_loop_call_after_call(kind, monkeypatch):
    monkeypatch.setattr(fused, "_kernels", lambda tensor: captured)
    monkeypatch.setattr(captured, "graphs", Graphs(capture_on_gpu if DEVICE == "cuda" else capture_by_hand))
    module, loop = build(kind, "rmsnorm", bidirectional=False)
    for _ in range(4):
        compare(kind, "rmsnorm", module, loop, batch=2)
    assert len(captured.graphs) == 2
