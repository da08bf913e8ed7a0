"""Perplexity is per token over the whole stream, and nothing but the model and the text decides it."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.lstm_lm import model as model_module
from rmsrepro.tasks.lstm_lm.task import perplexity


def build(task, seed=0):
    torch.manual_seed(seed)
    return task.build_model(NormFactory(task.cfg.norm, task.cfg.impl)).eval()


@pytest.mark.parametrize("norm", ["none", "rmsnorm"])
def test_it_equals_a_sum_by_hand_over_every_token_but_the_first(load_task, norm):
    task = load_task(f"norm={norm}", "task.dropout=0.5")
    model = build(task)
    words = [w for line in task.corpus.texts["test"].lines for w in [*line.split(), "<eos>"]]
    ids = [task.corpus.vocabulary.words.index(word) for word in words]
    total, state = 0.0, None
    for now, following in pairwise(ids):
        output, state = model.lstm(model.embedding[now].view(1, 1, -1), state)
        scores = (model.embedding @ output.flatten() + model.output_bias).tolist()
        total += math.log(sum(map(math.exp, scores))) - scores[following]
    metrics = task.evaluate(model, "test")
    assert metrics["test/loss"] == pytest.approx(total / (len(ids) - 1), rel=1e-6)
    assert metrics["test/perplexity"] == pytest.approx(math.exp(total / (len(ids) - 1)), rel=1e-6)
    assert task.facts()["test_tokens_scored"] == len(ids) - 1


def test_neither_the_batch_size_nor_the_pieces_of_evaluation_enter(load_task, monkeypatch):
    tasks = [load_task(f"train.batch_size={size}") for size in (1, 7)]
    first, second = (task.evaluate(build(task), "valid") for task in tasks)
    assert first == second
    monkeypatch.setattr(model_module, "_EVAL_TOKENS", 9)
    third = tasks[0].evaluate(build(tasks[0]), "valid")
    assert third["valid/loss"] == pytest.approx(first["valid/loss"], rel=1e-6)


def test_a_loss_too_large_for_exp_is_an_infinite_perplexity():
    assert perplexity(10_000.0) == math.inf
    assert perplexity(0.0) == 1.0
    assert math.isnan(perplexity(math.nan))


def test_a_model_that_is_certainly_wrong_has_a_finite_loss(load_task):
    task = load_task("norm=none")
    model = build(task)
    with torch.no_grad():
        model.output_bias[0] = 5000.0
    metrics = task.evaluate(model, "valid")
    assert 1000 < metrics["valid/loss"] < 5001
    assert metrics["valid/perplexity"] == math.inf


def test_the_model_without_norm_is_the_stock_tied_lstm(load_task):
    task = load_task("norm=none", "task.dropout=0.0")
    model = build(task).train()
    stock = torch.nn.LSTM(8, 8, 2)
    stock.load_state_dict(model.lstm.state_dict())
    weight = model.embedding.detach().clone().requires_grad_()
    tokens, targets = task.batch(0, 0).inputs
    output, _ = stock(F.embedding(tokens, weight))
    expected = F.cross_entropy(F.linear(output.flatten(0, 1), weight), targets.flatten(), reduction="sum")
    loss, _ = model(tokens, targets, None)
    expected.backward()
    loss.backward()
    assert not model.embedding.grad.is_sparse
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(model.embedding.grad, weight.grad)
    torch.testing.assert_close(model.lstm.weight_hh_l0.grad, stock.weight_hh_l0.grad)
