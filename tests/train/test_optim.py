"""Optimisers: Adam with eps under the root, and who is decayed."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from rmsrepro.config import TrainConfig
from rmsrepro.train.optim import AdamEpsInside, AdamOrderEmbedding, build_optimizer, set_hyperparameters

LR, BETA2, EPS = 0.01, 0.999, 1e-8


def gradients(steps: int, scale: float) -> torch.Tensor:
    return torch.randn(steps, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * scale


def by_hand(start: list[float], grads: torch.Tensor, beta1s: list[float]) -> list[float]:
    """Follow each number on its own with plain floats."""
    ends = []
    for i, p in enumerate(start):
        m = v = 0.0
        for t, (g, beta1) in enumerate(zip(grads[:, i].tolist(), beta1s, strict=True), start=1):
            m = beta1 * m + (1 - beta1) * g
            v = BETA2 * v + (1 - BETA2) * g * g
            p -= LR * (m / (1 - beta1**t)) / math.sqrt(v / (1 - BETA2**t) + EPS)
        ends.append(p)
    return ends


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-7])
def test_eps_stands_under_the_root_and_beta1_may_change(scale):
    beta1s = [0.9] * 6 + [0.5] * 6
    grads = gradients(len(beta1s), scale)
    p = nn.Parameter(torch.linspace(-1, 1, 4, dtype=torch.float64))
    start = p.tolist()
    optimizer = AdamEpsInside([p], lr=LR, betas=(0.9, BETA2), eps=EPS)
    for grad, beta1 in zip(grads, beta1s, strict=True):
        set_hyperparameters(optimizer, LR, beta1)
        p.grad = grad.clone()
        optimizer.step()
    assert p.tolist() == pytest.approx(by_hand(start, grads, beta1s), rel=1e-12)


def test_small_gradients_move_less_than_with_eps_outside():
    moved = {}
    for kind in ("adam_eps_inside", "adam"):
        layer = nn.Linear(2, 1, bias=False)
        nn.init.zeros_(layer.weight)
        layer.weight.grad = torch.full((1, 2), 1e-5)
        build_optimizer(layer, TrainConfig(optimizer=kind, lr=LR, adam_eps=EPS)).step()
        moved[kind] = -layer.weight[0, 0].item()
    assert moved["adam_eps_inside"] == pytest.approx(LR * 1e-5 / math.sqrt(1e-10 + EPS), rel=1e-4)
    assert moved["adam"] == pytest.approx(LR, rel=2e-3)


def test_a_saved_optimiser_goes_on_where_it_was():
    grads = gradients(6, 1.0)

    def run(p: nn.Parameter, optimizer: AdamEpsInside, some: torch.Tensor) -> None:
        for grad in some:
            p.grad = grad.clone()
            optimizer.step()

    whole, halved = (nn.Parameter(torch.ones(4, dtype=torch.float64)) for _ in range(2))
    first = AdamEpsInside([halved], lr=LR)
    run(whole, AdamEpsInside([whole], lr=LR), grads)
    run(halved, first, grads[:3])
    second = AdamEpsInside([halved], lr=LR)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    run(halved, second, grads[3:])
    assert torch.equal(whole, halved)


def test_a_parameter_without_a_gradient_stays():
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    used.grad = torch.ones(2)
    AdamEpsInside([used, unused], lr=LR).step()
    assert unused.tolist() == [1.0, 1.0]
    assert used.tolist() != [1.0, 1.0]


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "adam_eps_inside", "adam_order_embedding"])
def test_only_matrices_are_decayed(optimizer):
    layer = nn.Linear(3, 2)
    nn.init.ones_(layer.bias)
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    for p in layer.parameters():
        p.grad = torch.zeros_like(p)
    build_optimizer(layer, TrainConfig(optimizer=optimizer, lr=LR, weight_decay=0.5)).step()
    assert not torch.equal(layer.weight, weight)
    assert torch.equal(layer.bias, bias)


def test_order_embeddings_adam_corrects_with_the_wrong_rates():
    grads = gradients(12, 1.0)
    p = nn.Parameter(torch.linspace(-1, 1, 4, dtype=torch.float64))
    expected = p.detach().clone()
    m, v = torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    optimizer = AdamOrderEmbedding([p], lr=LR, betas=(0.9, BETA2), eps=EPS, fused=True)
    for t, grad in enumerate(grads, start=1):
        p.grad = grad.clone()
        optimizer.step()
        m, v = 0.9 * m + 0.1 * grad, BETA2 * v + (1 - BETA2) * grad**2
        expected -= LR * math.sqrt(1 - 0.001**t) / (1 - 0.1**t) * m / (v.sqrt() + EPS)
    torch.testing.assert_close(p.detach(), expected, rtol=1e-10, atol=0)
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["eps"]) == (LR, EPS)


def test_order_embeddings_adam_takes_large_steps_at_first():
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer, steps = AdamOrderEmbedding([p], lr=1.0), []
    for _ in range(100):
        before = p.item()
        p.grad = torch.ones_like(p)
        optimizer.step()
        steps.append(before - p.item())
    assert (steps[0], steps[9], steps[99]) == pytest.approx((3.5, 6.5, 3.2), abs=0.1)
