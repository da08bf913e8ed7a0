"""Sequences of different lengths: what is padding changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rmsrepro.layers import NormGRU, NormLSTM

KINDS = [NormLSTM, NormGRU]
NORMS = ["rmsnorm", "layernorm", "batchnorm", "weightnorm"]
LENGTHS = torch.tensor([3, 6, 1, 5])


def hidden_of(state: tuple | torch.Tensor) -> torch.Tensor:
    return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize(("norm", "impl"), [("rmsnorm", "composed"), ("rmsnorm", "auto"), ("batchnorm", "auto")])
@pytest.mark.parametrize("kind", KINDS)
def test_masked_steps_carry_the_state_and_repeat_it(kind, norm, impl):
    layer = kind(5, 7, norm=norm, impl=impl).eval()
    mask = torch.tensor([[1, 0], [0, 0], [1, 1], [0, 1]])
    x = torch.randn(4, 2, 5)
    y, state = layer(x, mask=mask)
    assert torch.equal(y[1, 0], y[0, 0])
    assert torch.equal(y[:2, 1], torch.zeros(2, 7))
    assert torch.equal(y[3, 0], y[2, 0])
    torch.testing.assert_close(hidden_of(state)[0, 0], layer(x[[0, 2], :1])[0][-1, 0])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_lengths_a_mask_and_a_packed_sequence_say_the_same(kind, norm):
    layer = kind(5, 7, 2, bidirectional=True, norm=norm).eval()
    x = torch.randn(6, 4, 5)
    mask = torch.arange(6).unsqueeze(1) < LENGTHS
    packed, state = layer(pack_padded_sequence(x, LENGTHS, enforce_sorted=False))
    padded, _ = pad_packed_sequence(packed)
    for options in ({"lengths": LENGTHS}, {"mask": mask}):
        y, last = layer(x, **options)
        torch.testing.assert_close(y * mask.unsqueeze(-1), padded)
        torch.testing.assert_close(hidden_of(last), hidden_of(state))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_in_the_padding_reaches_neither_outputs_nor_gradients(kind, norm):
    results = []
    for fill in (0.0, float("nan")):
        torch.manual_seed(1)
        layer = kind(5, 7, norm=norm, bidirectional=True)
        x = torch.randn(6, 4, 5)
        for b, length in enumerate(LENGTHS):
            x[length:, b] = fill
        x.requires_grad_()
        y, _ = layer(x, lengths=LENGTHS)
        results.append([y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)
        assert a.isfinite().all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_sequence_of_a_padded_batch_is_as_it_is_alone(kind, norm):
    layer = kind(5, 7, bidirectional=True, norm=norm)
    x = torch.randn(6, 4, 5)
    layer(x + torch.arange(6.0).view(6, 1, 1))  # statistics of the steps, where there are any, then differ
    y, _ = layer.eval()(x, lengths=LENGTHS)
    for b, length in enumerate(LENGTHS):
        torch.testing.assert_close(y[:length, b], layer(x[:length, b : b + 1])[0][:, 0])


@pytest.mark.parametrize("norm", ["none", "rmsnorm", "layernorm", "batchnorm", "l2norm", "weightnorm"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_batch_keeps_its_shape_and_gives_zero_gradients(kind, norm):
    layer = kind(5, 7, norm=norm)
    y, _ = layer(torch.randn(3, 0, 5))
    assert y.shape == (3, 0, 7)
    y.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in layer.parameters())
    assert layer(torch.randn(3, 2, 5))[0].isfinite().all()
