"""The cells' formulas by hand: the paper's code bases, where biases and norms stand, and the options' meaning."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from rmsrepro.layers import NormGRU, NormLSTM

EPS = 1e-5


def rms(a: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return a / (a.square().mean(-1, keepdim=True) + EPS).sqrt() * gain


def parameters(layer: torch.nn.Module) -> dict[str, torch.Tensor]:
    for parameter in layer.parameters():
        torch.nn.init.uniform_(parameter, -1.0, 1.0)
    return {name.replace("_l0", "").replace(".weight", ""): p for name, p in layer.named_parameters()}


def gru_step(p: dict[str, torch.Tensor], x: torch.Tensor, h: torch.Tensor, input_bias, hidden_bias) -> torch.Tensor:
    """Nematus' step: biases inside the norms, one norm for both gates and one for the candidate, of x and of h each."""
    size = h.shape[-1]
    a, b = F.linear(x, p["weight_ih"], input_bias), F.linear(h, p["weight_hh"], hidden_bias)
    gates = rms(a[:, : 2 * size], p["norm_ih_gates"]) + rms(b[:, : 2 * size], p["norm_hh_gates"])
    reset, update = gates.sigmoid().chunk(2, -1)
    candidate = rms(a[:, 2 * size :], p["norm_ih_candidate"]) + reset * rms(b[:, 2 * size :], p["norm_hh_candidate"])
    return update * h + (1 - update) * candidate.tanh()


@pytest.mark.parametrize("impl", ["composed", "auto"])
@pytest.mark.parametrize(
    ("preset", "bias"), [("nematus", "bias_ih"), ("order_embedding", "bias_ih"), ("nematus_context", "bias_hh")]
)
def test_nematus_and_order_embedding_normalise_projection_and_bias(preset, bias, impl):
    layer = NormGRU(5, 7, cell=preset, impl=impl)
    p = parameters(layer)
    assert {name for name in p if "bias" in name} == {bias}
    x, h = torch.randn(2, 3, 5), torch.randn(3, 7)
    expected = h
    for t in range(2):
        expected = gru_step(p, x[t], expected, p.get("bias_ih"), p.get("bias_hh"))
    torch.testing.assert_close(layer(x, h.unsqueeze(0))[1][0], expected)


@pytest.mark.parametrize("impl", ["composed", "auto"])
def test_the_attentive_reader_adds_its_bias_inside_and_again_behind_the_norms(impl):
    layer = NormLSTM(5, 7, cell="attentive_reader", impl=impl)
    p = parameters(layer)
    x, h, c = torch.randn(1, 3, 5), torch.randn(3, 7), torch.randn(3, 7)
    a = rms(F.linear(x[0], p["weight_ih"], p["bias_ih"]), p["norm_ih"]) + rms(F.linear(h, p["weight_hh"]), p["norm_hh"])
    i, f, g, o = (a + p["bias_ih"]).chunk(4, -1)
    carried = f.sigmoid() * c + i.sigmoid() * g.tanh()
    _, (h_new, c_new) = layer(x, (h.unsqueeze(0), c.unsqueeze(0)))
    torch.testing.assert_close(c_new[0], carried)  # the carried cell state is not normalised
    torch.testing.assert_close(h_new[0], o.sigmoid() * rms(carried, p["norm_c"]).tanh())


def test_reset_before_the_projection_multiplies_the_state():
    layer = NormGRU(5, 7, cell={"reset": "before"}, bias=False)
    p = parameters(layer)
    x, h = torch.randn(1, 3, 5), torch.randn(3, 7)
    a, u = F.linear(x[0], p["weight_ih"]), p["weight_hh"]
    gates = rms(a[:, :14], p["norm_ih_gates"]) + rms(F.linear(h, u[:14]), p["norm_hh_gates"])
    r, z = gates.sigmoid().chunk(2, -1)
    n = (rms(a[:, 14:], p["norm_ih_candidate"]) + rms(F.linear(r * h, u[14:]), p["norm_hh_candidate"])).tanh()
    torch.testing.assert_close(layer(x, h.unsqueeze(0))[0][0], z * h + (1 - z) * n)


@pytest.mark.parametrize("kind", [NormLSTM, NormGRU])
def test_a_norm_inside_the_time_loop_gives_the_same_numbers(kind):
    hoisted, inside = kind(5, 7), kind(5, 7, cell={"hoist_input": False})
    inside.load_state_dict(hoisted.state_dict())
    x = torch.randn(4, 3, 5)
    torch.testing.assert_close(inside(x)[0], hoisted(x)[0])


def test_the_bias_behind_a_norm_is_its_shift():
    outside = {name for name, _ in NormLSTM(5, 7, norm="layernorm").named_parameters()}
    inside = {name for name, _ in NormLSTM(5, 7, norm="layernorm", bias_placement="inside").named_parameters()}
    assert inside - outside == {"norm_ih_l0.bias", "norm_hh_l0.bias"}


def test_gains_start_where_they_are_told_to():
    layer = NormLSTM(5, 7, cell={"gain_init": 0.1}, gain_offset=1.0)
    torch.testing.assert_close(layer.norm_hh_l0.weight.detach(), torch.full((28,), -0.9))
