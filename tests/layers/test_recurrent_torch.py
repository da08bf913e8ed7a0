"""Without a norm the layers are torch's: same numbers, same names, same forms of input."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from rmsrepro.errors import ConfigError
from rmsrepro.layers import NormGRU, NormLSTM

PAIRS = [(NormLSTM, nn.LSTM), (NormGRU, nn.GRU)]
IMPLS = ["composed", "auto"]


def states(layers: int, batch: int, hidden: int, kind: type) -> tuple[torch.Tensor, ...] | torch.Tensor:
    made = tuple(torch.randn(layers, batch, hidden, requires_grad=True) for _ in range(2 if kind is nn.LSTM else 1))
    return made if kind is nn.LSTM else made[0]


def flat(result: tuple) -> list[torch.Tensor]:
    output, state = result
    output = output.data if isinstance(output, PackedSequence) else output
    return [output, *(state if isinstance(state, tuple) else (state,))]


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"num_layers": 2, "bidirectional": True, "batch_first": True}], ids=str
)
def test_weights_from_torch_give_torchs_outputs_and_gradients(ours, theirs, options, impl):
    reference = theirs(5, 7, **options)
    layer = ours.from_torch(reference, norm="none", impl=impl)
    x = torch.randn(4, 4, 5, requires_grad=True)
    hx = states(options.get("num_layers", 1) * (1 + options.get("bidirectional", False)), 4, 7, theirs)
    inputs = [x, *(hx if isinstance(hx, tuple) else (hx,))]
    expected, got = flat(reference(x, hx)), flat(layer(x, hx))
    weights = [torch.randn_like(part) for part in expected]
    torch.testing.assert_close(got, expected)
    loss = [sum((a * w).sum() for a, w in zip(parts, weights, strict=True)) for parts in (expected, got)]
    wanted = torch.autograd.grad(loss[0], [*inputs, *reference.parameters()])
    named = dict(layer.named_parameters())
    own = [named[name] for name, _ in reference.named_parameters()]
    torch.testing.assert_close(torch.autograd.grad(loss[1], [*inputs, *own]), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("lengths", [[3, 6, 1], [6, 6, 6]])
def test_packed_sequences_come_back_as_torch_packs_them(ours, theirs, lengths, impl):
    reference = theirs(5, 7, 2, bidirectional=True)
    layer = ours.from_torch(reference, norm="none", impl=impl)
    packed = pack_padded_sequence(torch.randn(6, 3, 5), torch.tensor(lengths), enforce_sorted=False)
    expected, got = reference(packed), layer(packed)
    torch.testing.assert_close(flat(got), flat(expected))
    assert got[0].batch_sizes.equal(expected[0].batch_sizes)
    assert got[0].unsorted_indices.equal(expected[0].unsorted_indices)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_sequence_without_a_batch_keeps_its_form(ours, theirs):
    reference = theirs(5, 7)
    layer = ours.from_torch(reference, norm="none")
    x = torch.randn(4, 5)
    torch.testing.assert_close(flat(layer(x)), flat(reference(x)))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_parameters_carry_torchs_names_and_norms_stand_beside_them(ours, theirs):
    names = set(theirs(5, 7, 2, bidirectional=True).state_dict())
    normed = set(ours(5, 7, 2, bidirectional=True, norm="rmsnorm").state_dict())
    assert set(ours(5, 7, 2, bidirectional=True, norm="none").state_dict()) == names
    assert names < normed
    assert all(name.startswith("norm_") and name.endswith(".weight") for name in normed - names)


def test_dropout_acts_between_layers_in_training_only():
    layer = NormLSTM(5, 7, 2, dropout=0.5)
    x = torch.randn(4, 3, 5)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


def test_torch_weights_that_do_not_fit_are_named():
    with pytest.raises(ConfigError, match="bias_hh_l0"):
        NormGRU(5, 7, cell="nematus").load_torch_state(nn.GRU(5, 7).state_dict())
    with pytest.raises(ConfigError, match="weight_ih_l0"):
        NormLSTM(5, 7).load_torch_state(nn.LSTM(6, 7).state_dict())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: NormLSTM(5, 0), "hidden_size=0"),
        (lambda: NormLSTM(5, 7, dropout=1.5), "dropout=1.5"),
        (lambda: NormLSTM(5, 7, cell="nematus"), "cell=nematus: known presets are attentive_reader"),
        (lambda: NormGRU(5, 7, cell={"norm_cell": False}), "cell.norm_cell: allowed fields"),
        (lambda: NormGRU(5, 7, cell={"reset": "never"}), "cell.reset=never: allowed are after, before"),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_line(build, message):
    with pytest.raises(ConfigError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda layer: layer(torch.randn(0, 3, 5)), "at least one time step"),
        (lambda layer: layer(torch.randn(4, 3, 6)), "input_size=5"),
        (lambda layer: layer(torch.randn(4, 3, 5), torch.zeros(1, 2, 7)), "initial state must be"),
        (lambda layer: layer(torch.randn(4, 3, 5), lengths=torch.tensor([5, 1, 1])), "from 0 to 4"),
        (lambda layer: layer(torch.randn(4, 3, 5), mask=torch.ones(3, 4)), "mask must cover"),
    ],
)
def test_inputs_of_a_wrong_shape_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call(NormGRU(5, 7))
