"""Training: the command leaves a whole record, a resumed run its bits, and retrieval is learned."""

import json

import pytest
import torch

from rmsrepro.cli import main
from rmsrepro.norms.factory import norm_names
from rmsrepro.tasks.order_embedding import evaluation
from rmsrepro.train.checkpoint import CheckpointStore
from rmsrepro.train.loop import Hooks

SILENT = Hooks(
    on_rows=lambda step, row: None,
    on_step=lambda step, loss: None,
    save=lambda state: None,
    save_best=lambda state: None,
    wants_save=lambda step: False,
    stop_signal=lambda: 0,
)


@pytest.mark.parametrize("norm", norm_names())
def test_every_norm_lowers_the_loss(start_trainer, norm):
    # Wide enough for prmsnorm's statistic to come from more than one number.
    trainer = start_trainer(f"norm={norm}", "task.hidden=64", "train.max_steps=40", "train.eval_every=0")
    losses = []
    trainer.run(Hooks(**{**vars(SILENT), "on_step": lambda step, loss: losses.append(loss)}))
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_a_trained_model_finds_the_images_of_new_sentences(start_trainer):
    trainer = start_trainer("norm=rmsnorm", "train.max_steps=60", "train.eval_every=0")
    before = trainer.evaluate("test")
    trainer.run(SILENT)
    after = trainer.evaluate("test")
    assert after["test/recall_sum"] > before["test/recall_sum"] + 50
    assert after["test/recall_sum"] == sum(after[f"test/image_r{k}"] for k in (1, 5, 10))
    assert after["test/caption_mean_rank"] < before["test/caption_mean_rank"]


def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(start_trainer, tmp_path):
    overrides = ["norm=rmsnorm", "train.max_steps=9", "task.dropout_words=0.2"]
    whole = start_trainer(*overrides)
    whole.run(SILENT)
    first = start_trainer(*overrides)
    store = CheckpointStore(tmp_path / "checkpoints")
    stop_after_6 = Hooks(**{**vars(SILENT), "stop_signal": lambda: 15 if first.step == 6 else 0, "save": store.save})
    assert first.run(stop_after_6).steps == 6
    second = start_trainer(*overrides)
    second.restore(torch.load(store.last, weights_only=True))
    second.run(SILENT)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name]), name
    assert second.evaluate("test") == whole.evaluate("test")


def test_evaluation_is_an_average_over_folds_and_no_matter_of_blocks(start_trainer, monkeypatch):
    trainer = start_trainer("norm=none", "task.fold_images=10")
    task, model = trainer.task, trainer.model.eval()
    folds = [
        evaluation.evaluate_folds(model, task.corpus.pairs["test"], [range(a, a + 10)], task.device, normalise=True)
        for a in (0, 10)
    ]
    monkeypatch.setattr(evaluation, "_BLOCK", 7)
    found = trainer.evaluate("test")
    for name in ("image_r1", "caption_r5", "caption_mean_rank", "image_median_rank"):
        assert found[f"test/{name}"] == pytest.approx((folds[0][name] + folds[1][name]) / 2)
    facts = task.facts()
    assert (facts["test_folds"], facts["test_images_scored"], facts["valid_folds"]) == (2, 20, 1)


def test_a_collapsed_model_scores_as_badly_as_can_be(start_trainer):
    trainer = start_trainer("norm=none")
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.zero_()
    found = trainer.evaluate("valid")
    assert (found["valid/image_mean_rank"], found["valid/caption_mean_rank"]) == (20, 96)
    assert found["valid/recall_sum"] == 0


def test_the_command_trains_selects_and_records(small, pairs_root, tmp_path, capsys):
    command = [*small, "norm=prmsnorm", "train.max_steps=12", "train.eval_every=5", f"data.root={pairs_root}"]
    assert main([*command, f"runs.root={tmp_path / 'runs'}"]) == 0
    result = json.loads(next((tmp_path / "runs").rglob("result.json")).read_text())
    assert (result["primary"], result["direction"], result["reported"]) == ("test/image_r1", "max", "best")
    sides = [f"test/{side}_{name}" for side in ("caption", "image") for name in ("r1", "r5", "r10", "mean_rank")]
    assert set(sides) <= set(result["metrics"])
    assert result["best"]["best_value"] == result["metrics"]["valid/recall_sum"]
    assert "ties count against" in result["facts"]["recall"]
    assert capsys.readouterr().out.strip().endswith("result.json")


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("task.valid_split=val", "val.txt is not there"),
        ("task.cnn=vgg19", "task.cnn"),
        ("task.folder=absent", "absent/train.txt is not there"),
        ("data=coco", "coco is not there; unpack"),
        ("train.optimizer=adam_order", "adam_order_embedding"),
    ],
)
def test_what_the_user_can_mend_is_one_line(small, pairs_root, tmp_path, capsys, override, reason):
    assert main([*small, f"data.root={pairs_root}", f"runs.root={tmp_path / 'runs'}", override]) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error:"))
    assert reason in line
