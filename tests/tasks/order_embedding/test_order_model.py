"""The model and its loss equal what is written down, whatever makes them quick."""

import pytest
import torch

from rmsrepro.layers import NormGRU
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.order_embedding import score
from rmsrepro.tasks.order_embedding.loss import contrastive_loss
from rmsrepro.tasks.order_embedding.score import order_violation, order_violation_reference
from rmsrepro.tasks.order_embedding.sentences import last_states, stretches

LENGTHS = [9, 9, 7, 6, 6, 6, 4, 3, 2, 2, 1, 1]


@pytest.mark.parametrize("cached", [1, 40, 1 << 18], ids=["single pairs", "odd tiles", "all at once"])
def test_the_tiled_score_and_its_gradients_equal_the_reference(monkeypatch, cached):
    monkeypatch.setattr(score, "_CACHED", cached)
    generator = torch.Generator().manual_seed(0)
    points = [torch.randn(n, 8, generator=generator, dtype=torch.float64, requires_grad=True) for n in (7, 5)]
    weights = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    expected = order_violation_reference(*points)
    torch.testing.assert_close(order_violation(*points), expected)
    grads = torch.autograd.grad((order_violation(*points) * weights).sum(), points)
    torch.testing.assert_close(grads, torch.autograd.grad((expected * weights).sum(), points))


def test_a_sentence_below_its_image_violates_nothing():
    image = torch.tensor([[0.5, 0.5]])
    assert order_violation(torch.tensor([[0.5, 0.2], [0.9, 0.2]]), image).flatten().tolist() == pytest.approx([0, 0.16])


def test_the_loss_sums_every_negative_of_both_directions_once():
    generator = torch.Generator().manual_seed(0)
    errors = torch.rand(6, 6, generator=generator) * 0.2
    total = 0.0
    for i in range(6):
        for j in range(6):
            if i != j:
                total += max(0.0, 0.05 - float(errors[i, j]) + float(errors[i, i]))  # wrong images of sentence i
                total += max(0.0, 0.05 - float(errors[i, j]) + float(errors[j, j]))  # wrong sentences of image j
    assert contrastive_loss(errors, 0.05).item() == pytest.approx(total, rel=1e-5)


def test_stretches_cover_every_token_and_few_that_are_none():
    covered = 0
    end = 0
    for first, last, rows in stretches(LENGTHS):
        assert first == end
        assert rows == sum(length > first for length in LENGTHS)
        end, covered = last, covered + rows * (last - first)
    assert end == max(LENGTHS)
    assert sum(LENGTHS) <= covered < len(LENGTHS) * max(LENGTHS)
    assert list(stretches([3, 3, 3])) == [(0, 3, 3)]


@pytest.mark.parametrize("norm", ["none", "layernorm", "rmsnorm", "prmsnorm", "batchnorm", "weightnorm"])
@pytest.mark.parametrize("hoist", [True, False])
def test_sentences_that_ended_are_left_out_without_a_difference(norm, hoist):
    torch.manual_seed(0)
    # Wide enough for prmsnorm's statistic to come from more than one number.
    gru = NormGRU(5, 64, norm=norm, cell={"biases": "input", "hoist_input": hoist}).eval()
    x, lengths = torch.randn(9, 12, 5), torch.tensor(LENGTHS)
    expected = gru(x, lengths=lengths)[1][-1]
    found = last_states(gru, x, lengths)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    for one, other in zip(
        torch.autograd.grad((found * weights).sum(), list(gru.parameters())),
        torch.autograd.grad((expected * weights).sum(), list(gru.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_sentence_is_the_state_after_its_trailing_eos(load_task):
    task = load_task("norm=rmsnorm")
    model = task.build_model(NormFactory(task.cfg.norm, "composed")).eval()
    images, tokens, lengths = task.batch(0, 0).inputs
    points, sentences = model(images, tokens, lengths)
    for i in (0, len(lengths) - 1):
        alone = tokens[: lengths[i], i : i + 1]
        assert alone[-1].item() == 0
        assert (alone[:-1] > 0).all()
        _, state = model.gru(model.embedding(alone))
        expected = torch.nn.functional.normalize(state[0], dim=-1).abs()
        torch.testing.assert_close(sentences[i : i + 1], expected)
    assert (points >= 0).all()
    torch.testing.assert_close(points.norm(dim=-1), torch.ones(len(points)))


def test_the_norms_sit_on_four_projections_and_the_bias_inside(load_task):
    task = load_task("norm=layernorm")
    model = task.build_model(NormFactory(task.cfg.norm, "composed"))
    names = [name for name, _ in model.gru.named_children()]
    assert names == [f"norm_{side}_{part}_l0" for side in ("ih", "hh") for part in ("gates", "candidate")]
    assert model.gru.bias_inside
    assert model.gru.bias_hh_l0 is None
    assert task.cfg.norm.eps == 1e-5


def test_the_norm_of_the_words_is_the_same_inside_the_loop(load_task):
    found = []
    for place in ("hoisted", "in_loop"):
        task = load_task("norm=rmsnorm", f"task.norm_x={place}")
        torch.manual_seed(0)
        model = task.build_model(NormFactory(task.cfg.norm, "composed"))
        assert model.gru.options.hoist_input is (place == "hoisted")
        found.append(task.loss_sum(model, task.batch(0, 0), None)[0])
    torch.testing.assert_close(found[0], found[1])


def test_the_state_weights_start_orthogonal_and_the_image_weights_glorot(load_task):
    task = load_task("norm=none")
    model = task.build_model(NormFactory(task.cfg.norm, "composed"))
    for block in model.gru.weight_hh_l0.chunk(3):
        torch.testing.assert_close(block @ block.t(), torch.eye(16), rtol=1e-4, atol=1e-5)
    assert model.gru.weight_ih_l0.abs().max() <= 0.1
    assert model.embedding.weight.abs().max() <= 0.1
    assert model.image.weight.abs().max() <= (6 / (12 + 16)) ** 0.5
    assert not model.image.bias.any()
