"""From text files to translations and scores, stopped and resumed in between without a difference."""

import json
import math
import os
import signal

import pytest
import torch
import toy
from tasks.translation.corpus import write_corpus

from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.transformer.task import Task
from rmsrepro.tasks.translation.scoring import score

STEPS = ["train.max_steps=12", "train.eval_every=6", "track.log_every=1"]


def interrupt_step_5():
    original, calls = Task.loss_sum, iter(range(1, 10**6))

    def loss_sum(self, *args):
        if next(calls) == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, *args)

    Task.loss_sum = loss_sum


def test_a_run_goes_from_text_to_signed_scores_and_resumes_to_the_same(small, tmp_path):
    roots = [tmp_path / name for name in ("straight", "resumed")]
    assert toy.command(*small, *STEPS, f"runs.root={roots[0]}").code == 0
    assert toy.command(*small, *STEPS, f"runs.root={roots[1]}", setup=interrupt_step_5).code == 143
    assert toy.command(*small, *STEPS, f"runs.root={roots[1]}").code == 0
    straight, resumed = (toy.result(root) for root in roots)
    assert straight["metrics"] == resumed["metrics"]
    assert toy.rows(roots[0]) == toy.rows(roots[1])
    assert straight["primary"] == "test/bleu"
    assert {"valid/bleu", "valid/chrf", "valid/loss", "test/bleu", "test/chrf"} <= straight["metrics"].keys()
    scores = straight["facts"]["scores"]
    assert scores["test"]["segments_scored"] == 12
    assert "tok:13a" in scores["test"]["bleu_signature"]
    manifest = json.loads((toy.run_dir(roots[0]) / "manifest.json").read_text())
    assert manifest["facts"]["padding_share"] < 0.5
    lines = (toy.run_dir(roots[0]) / "translations.test.txt").read_text().split("\n")
    assert len(lines) == 13
    # Blank lines stay blank at their places, and a source of hundreds of subwords is one line like any other.
    assert [lines[i] for i in (0, 5, 11)] == ["", "", ""]
    references = (toy.run_dir(roots[0]) / "references.test.txt").read_text().split("\n")
    assert score(lines[:-1], references[:-1]).bleu == straight["metrics"]["test/bleu"]
    nbest = (toy.run_dir(roots[0]) / "nbest.test.txt").read_text().splitlines()
    assert [int(line.split(" ||| ")[0]) for line in nbest] == list(range(12))


def test_it_learns_and_the_loss_is_the_likelihood_of_every_token(start_trainer):
    trainer = start_trainer("train.max_steps=60", "task.dropout=0.0", "task.label_smoothing=0.2", "task.loss=sentence")
    before = trainer.evaluate("valid")["valid/loss"]
    for _ in range(60):
        trainer.train_step(0.01)
        trainer.step += 1
    after = trainer.evaluate("valid")["valid/loss"]
    assert after < before - 1.0
    valid, model, total, count = trainer.task.data.valid.pairs, trainer.model.eval(), 0.0, 0
    with torch.no_grad():
        for i in range(len(valid)):
            source, target = (ids.tolist() for ids in valid.pair(i))
            memory, state = model.encode(torch.tensor([[*source, 3]]), torch.tensor([len(source) + 1]))
            for token, wanted in zip([2, *target], [*target, 3], strict=True):
                x, state = model.step(torch.tensor([token]), memory, state)
                weight, _ = model.output()
                total -= (x @ weight.t()).log_softmax(1)[0, wanted].item()
                count += 1
    assert after == pytest.approx(total / count, rel=1e-5)


@pytest.mark.parametrize("loss", ["token", "sentence", "sentence_mean"])
def test_the_loss_is_the_mean_that_its_name_says(load_task, loss):
    task = load_task(f"task.loss={loss}", "task.dropout=0.0", "task.label_smoothing=0.0", "task.output_bias=true")
    torch.manual_seed(0)
    model = task.build_model(NormFactory(task.cfg.norm, task.cfg.impl))
    batch = task.batch(0, 3)
    total, _ = task.loss_sum(model, batch, None)
    pairs = batch.inputs
    weight, bias = model.output()
    log_p = torch.nn.functional.linear(model.features(pairs), weight, bias).log_softmax(1)
    losses = -log_p.gather(1, pairs.target_out[pairs.target_mask].unsqueeze(1)).squeeze(1)
    by_sentence = losses.split(pairs.target_lengths.tolist())
    expected = {
        "token": losses.mean(),
        "sentence": torch.stack([part.sum() for part in by_sentence]).mean(),
        "sentence_mean": torch.stack([part.mean() for part in by_sentence]).mean(),
    }[loss]
    torch.testing.assert_close(total / batch.weight, expected)
    assert batch.items == len(losses)
    # Sums by sentence are logged by token, too; the others are no sums of likelihoods, or are that already.
    by_token = {name: total / count for name, (total, count) in batch.sums.items()}
    assert list(by_token) == (["token_loss"] if loss == "sentence" else [])
    assert all(value == pytest.approx(losses.mean().item()) for value in by_token.values())


def test_without_a_test_set_the_validation_set_judges(tmp_path, start_trainer):
    write_corpus(tmp_path / "own")
    for suffix in ("en", "de"):
        (tmp_path / "own" / "parallel" / f"test.{suffix}").unlink()
    trainer = start_trainer(f"data.root={tmp_path / 'own'}")
    assert trainer.task.spec.primary == "valid/bleu"
    assert trainer.evaluate("test") == {}
    assert "valid/bleu" in trainer.evaluate("valid")


def test_validation_is_greedy_or_searched_as_asked_and_lists_hold_n_best(start_trainer):
    trainer = start_trainer("task.search.n_best=2", "task.search.valid=beam")
    trainer.evaluate("valid")
    listed = trainer.task.files()["nbest.valid.txt"].splitlines()
    assert len(listed) == 2 * len(trainer.task.data.valid)
    scores = [float(line.rsplit(" ||| ", 1)[1]) for line in listed]
    assert all(best >= second for best, second in zip(scores[::2], scores[1::2], strict=True))
    greedy = start_trainer("task.search.n_best=2")
    greedy.evaluate("valid")
    assert len(greedy.task.files()["nbest.valid.txt"].splitlines()) == len(greedy.task.data.valid)


def test_batches_hold_every_pair_once_within_the_budget(load_task):
    task = load_task("task.batch_tokens=100")
    batches = [task.batch(0, i) for i in range(task.batches_per_epoch())]
    assert sum(batch.items for batch in batches) == int(task.data.train.target_lengths.sum())
    for batch in batches:
        assert max(batch.inputs.source.numel(), batch.inputs.target_in.numel()) <= 100
    by_sentences = load_task("task.batch_tokens=null", "train.batch_size=7")
    assert len(by_sentences.batch(0, 0).inputs.source) <= 7


@pytest.mark.parametrize("norm", ["none", "layernorm", "rmsnorm", "batchnorm"])
def test_made_up_data_trains_every_norm_without_files(small, norm):
    from rmsrepro.compose import compose_config

    cfg = compose_config([*small, "data.root=/nowhere", f"norm={norm}"])
    task = Task(cfg, torch.device("cpu"))
    task.load_synthetic()
    model = task.build_model(NormFactory(cfg.norm, cfg.impl))
    batch = task.batch(0, 0)
    loss, _ = task.loss_sum(model, batch, None)
    loss.backward()
    assert math.isfinite(loss.item())
    lengths = task._pairs.target_lengths
    assert 20 < lengths.mean() < 34
    assert lengths.max() <= 80
