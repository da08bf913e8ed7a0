"""The reader is the paper's formula, word by word; padding and the company in a batch change nothing."""

from dataclasses import replace

import pytest
import torch

from rmsrepro.layers import NormLSTM
from rmsrepro.layers.step_norm import StepNorm
from rmsrepro.norms.batchnorm import BatchNorm
from rmsrepro.norms.factory import NormFactory
from rmsrepro.norms.rmsnorm import RMSNorm
from rmsrepro.tasks.cnndm_qa.batch import make_batch
from rmsrepro.tasks.cnndm_qa.model import attention_sum
from rmsrepro.tasks.cnndm_qa.scoring import negative_log_likelihood

INIT = "task.init=independent"


def build(task, seed=0):
    torch.manual_seed(seed)
    model = task.build_model(NormFactory(task.cfg.norm, task.cfg.impl)).eval()
    with torch.no_grad():
        # Biases start at zero, where a forgotten one would not be noticed.
        for name, parameter in model.named_parameters():
            if "bias" in name or name.endswith(("h0", "similarity")):
                parameter.uniform_(-0.3, 0.3)
    return model


def plain_lstm(encoder, reverse):
    """Return torch's LSTM with one direction's weights, and its first state [1, H]."""
    own, suffix = encoder.lstm, "_reverse" if reverse else ""
    stock = torch.nn.LSTM(own.input_size, own.hidden_size)
    state = {name: getattr(own, f"{name}{suffix}") for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0")}
    stock.load_state_dict({**state, "bias_hh_l0": torch.zeros(4 * own.hidden_size)})
    return stock, encoder.h0[int(reverse)][None]


def encode(encoder, x):
    outputs = []
    for reverse in (False, True):
        stock, h0 = plain_lstm(encoder, reverse)
        y, _ = stock(x.flip(0) if reverse else x, (h0, torch.zeros_like(h0)))
        outputs.append(y.flip(0) if reverse else y)
    return torch.cat(outputs, 1), torch.cat([outputs[0][-1], outputs[1][0]])


@torch.no_grad()
def test_it_is_the_formula_word_by_word(load_task):
    task = load_task("norm=none", INIT)
    model = build(task)
    question = task.corpus.question("valid", 3)
    d, _ = encode(model.passage_encoder, model.embedding[question.passage])
    _, q = encode(model.question_encoder, model.embedding[question.question])

    def times(term, x):
        return term.linear.weight @ x + (0 if term.bias is None else term.bias)

    scores = []
    for d_t in d:
        similarity = (model.similarity @ d_t) @ (model.similarity @ q)
        m = torch.tanh(times(model.attend_passage, d_t) + times(model.attend_question, q) + similarity)
        scores.append(model.attention @ m)
    weights = torch.stack(scores).softmax(0)
    read = sum(w * d_t for w, d_t in zip(weights, d, strict=True))
    g = times(model.read_out, read) + times(model.question_out, q) + times(model.mean_out, d.mean(0))
    torch.testing.assert_close(model(make_batch([question]))[0], model.output(g.tanh()))


@torch.no_grad()
def test_attention_sums_over_the_places_of_a_word(load_task):
    task = load_task("norm=rmsnorm", INIT, "task.read_out=attention_sum")
    model = build(task)
    questions = [task.corpus.question("valid", row) for row in range(4)]
    probabilities = model(make_batch(questions)).exp()
    torch.testing.assert_close(probabilities.sum(1), torch.ones(4))
    for question, p in zip(questions, probabilities, strict=True):
        assert set(p.gt(1e-30).nonzero().flatten().tolist()) == set(question.passage.tolist())

    weights, passage = torch.tensor([[0.5], [0.2], [0.3]]), torch.tensor([[4], [6], [4]])
    expected = torch.tensor([[0.8, 0.2]])
    torch.testing.assert_close(attention_sum(weights, passage, 7)[:, [4, 6]].exp(), expected)


def test_an_answer_that_the_passage_lacks_has_a_finite_loss_and_no_gradient(load_task):
    task = load_task("norm=none", INIT, "task.read_out=attention_sum")
    model = build(task)
    question = replace(task.corpus.question("valid", 0), answer=0)
    loss = negative_log_likelihood(model(make_batch([question])), torch.tensor([0]), task.settings.loss_eps).sum()
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is None or p.grad.abs().max() < 1e-6 for p in model.parameters())


@pytest.mark.parametrize("norm", ["none", "layernorm", "rmsnorm", "prmsnorm", "weightnorm", "batchnorm"])
@torch.no_grad()
def test_padding_and_the_rest_of_the_batch_change_no_answer(load_task, norm):
    task = load_task(f"norm={norm}", INIT, "task.norm_sites=everywhere")
    model = build(task)
    questions = [task.corpus.question("valid", row) for row in range(6)]
    together = model(make_batch(questions))
    for row, question in enumerate(questions):
        torch.testing.assert_close(model(make_batch([question]))[0], together[row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("impl", ["auto", "composed"])
def test_the_fast_path_and_the_loop_have_the_same_gradients(load_task, impl):
    task = load_task("norm=rmsnorm", INIT, "task.dropout=0.0", f"impl={impl}")
    model, reference = build(task), build(load_task("norm=rmsnorm", INIT, "task.dropout=0.0", "impl=torch"))
    for one in (model, reference):
        task.loss_sum(one, task.batch(0, 0), None)[0].backward()
    for (name, p), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p.grad, other.grad, rtol=1e-3, atol=1e-5, msg=name)


def test_norms_stand_in_the_lstms_only_unless_they_are_wanted_everywhere(load_task):
    def count(*overrides, kind):
        return sum(isinstance(module, kind) for module in build(load_task(*overrides)).modules())

    assert count("norm=rmsnorm", kind=RMSNorm) == 12  # two encoders, two directions: input, state, cell
    assert count("norm=rmsnorm", "task.norm_sites=everywhere", kind=RMSNorm) == 17
    assert count("norm=batchnorm", kind=StepNorm) == 12
    assert count("norm=batchnorm", "task.norm_sites=everywhere", kind=BatchNorm) == 17


def test_batchnorm_keeps_statistics_by_time_step_and_starts_from_small_gains(load_task):
    task = load_task("norm=batchnorm", "task.norm_sites=everywhere", "task.statistics_steps=7")
    model = build(task).train()
    norm = model.passage_encoder.lstm.norm_hh_l0
    assert norm.running_mean.shape == (7, 32)
    assert torch.all(norm.weight == 0.1)
    assert torch.all(model.read_out.linear.norm.weight == 0.1)
    before = [module.running_mean.clone() for module in (norm, model.read_out.linear.norm)]
    model(task.batch(0, 0).inputs)
    after = [module.running_mean for module in (norm, model.read_out.linear.norm)]
    assert all(not torch.equal(b, a) for b, a in zip(before, after, strict=True))
    assert not torch.equal(norm.running_mean[0], norm.running_mean[1])


def test_padding_enters_no_statistic_of_the_attention(load_task):
    task = load_task("norm=batchnorm", "task.norm_sites=everywhere", "task.dropout=0.0", INIT)
    model = build(task).train()
    rows = []
    model.attend_passage.linear.norm.register_forward_hook(lambda _, inputs, __: rows.append(inputs[0].shape[0]))
    batch = task.batch(0, 0).inputs
    model(batch)
    assert rows == [int(batch.passage_lengths.sum())]


def test_equal_shapes_start_equal_as_in_the_papers_code_whatever_the_seed(load_task):
    models = [load_task("norm=rmsnorm", "task.init=attentive_reader") for _ in range(2)]
    first, second = (task.build_model(NormFactory(task.cfg.norm)) for task in models)
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
    lstm = first.passage_encoder.lstm
    gates = lstm.weight_ih_l0.view(4, 8, 8)
    assert torch.equal(gates[0], gates[3])
    assert torch.equal(lstm.weight_ih_l0, lstm.weight_hh_l0_reverse)
    assert torch.equal(first.read_out.linear.weight, first.attend_question.linear.weight)
    torch.testing.assert_close(gates[0] @ gates[0].t(), 0.05**2 * torch.eye(8))
    assert first.embedding.abs().max() <= (6 / sum(first.embedding.shape)) ** 0.5


def test_independent_draws_differ_and_follow_the_seed(load_task):
    task = load_task("norm=rmsnorm", INIT)
    models = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        models.append(task.build_model(NormFactory(task.cfg.norm)))
    weights = [model.passage_encoder.lstm.weight_hh_l0 for model in models]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    gates = weights[0].view(4, 8, 8)
    assert not torch.equal(gates[0], gates[1])
    torch.testing.assert_close(gates[0] @ gates[0].t(), torch.eye(8))


def test_the_lstm_is_the_shared_one(load_task):
    model = build(load_task("norm=rmsnorm"))
    assert isinstance(model.passage_encoder.lstm, NormLSTM)
    assert model.passage_encoder.lstm.options.repeat_bias
    assert model.passage_encoder.lstm.bias_inside
