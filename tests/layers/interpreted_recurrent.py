"""Run by test_recurrent_triton.py in a process of its own, with Triton's interpreter in place of a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rmsrepro.kernels.triton import recurrent
from rmsrepro.layers import NormGRU, NormLSTM, fused

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


@pytest.mark.parametrize(("norm", "batch"), [*((norm, 2) for norm in FIELDS), ("rmsnorm", 0)])
@pytest.mark.parametrize("kind", [NormLSTM, NormGRU])
def test_outputs_states_and_gradients_agree_with_the_loop(kind, norm, batch):
    layer = kind(7, 20, norm=norm, impl="fused", bidirectional=True, **FIELDS[norm])
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -0.7, 1.0)
    loop = kind(7, 20, norm=norm, impl="composed", bidirectional=True, dtype=torch.float64, **FIELDS[norm])
    loop.load_state_dict(layer.state_dict())
    x, mask = torch.randn(3, batch, 7), torch.rand(3, batch) > 0.3
    states = [torch.randn(2, batch, 20) for _ in range(layer.states)]
    results = []
    for module, dtype in ((layer, torch.float32), (loop, torch.float64)):
        leaves = [t.to(dtype).requires_grad_() for t in (x, *states)]
        hx = tuple(leaves[1:]) if kind is NormLSTM else leaves[1]
        y, last = module(leaves[0], hx, mask=mask)
        parts = [y, *(last if isinstance(last, tuple) else (last,))]
        loss = sum((part * torch.linspace(-1, 1, part.shape[-1], dtype=dtype)).square().sum() for part in parts)
        results.append(parts + list(torch.autograd.grad(loss, [*leaves, *module.parameters()])))
    for got, expected in zip(*results, strict=True):
        scale = expected.abs().max().item() if expected.numel() else 0.0
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=2e-5 * (scale + 0.1))
