"""Training the language model: resumed runs equal uninterrupted ones, and the command leaves a whole record."""

import json
import math

import pytest
import torch

from rmsrepro.cli import main
from rmsrepro.norms.factory import norm_names
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


@pytest.mark.parametrize(
    "recipe",
    [
        ["norm=rmsnorm", "train.lr=30.0", "train.eval_every=2"],
        ["norm=none", "train.average=nt_asgd", "train.average_patience=0", "train.lr=30.0", "train.eval_every=2"],
        ["norm=layernorm", "train.optimizer=adamw"],
    ],
    ids=["plateau", "nt_asgd", "adamw"],
)
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(start_trainer, tmp_path, recipe):
    overrides = [*recipe, "train.max_steps=14"]
    whole = start_trainer(*overrides)
    whole.run(SILENT)
    # Stopped in the middle of an epoch, so that the recurrent state matters, and saved as a killed run would be.
    first = start_trainer(*overrides)
    store = CheckpointStore(tmp_path / "checkpoints")
    stop_after_5 = Hooks(**{**vars(SILENT), "stop_signal": lambda: 15 if first.step == 5 else 0, "save": store.save})
    assert first.run(stop_after_5).steps == 5
    second = start_trainer(*overrides)
    state = torch.load(store.last, weights_only=True)
    assert state["carry"][0].abs().max() > 0
    second.restore(state)
    second.run(SILENT)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name]), name
    assert second.plateau.scale == whole.plateau.scale
    assert second.average.active == whole.average.active == ("train.average=nt_asgd" in recipe)
    assert second.evaluate("valid") == whole.evaluate("valid")


def test_the_command_trains_and_records_what_it_is_judged_by(small, corpus, tmp_path, capsys):
    (corpus / "text" / "test.txt").unlink()
    runs = tmp_path / "runs"
    command = [*small, "norm=prmsnorm", "train.optimizer=adamw", "train.lr=0.01", "train.max_steps=30"]
    command += [f"data.root={corpus}", f"runs.root={runs}"]
    assert main(command) == 0
    result = json.loads(next(runs.rglob("result.json")).read_text())
    assert result["primary"] == "valid/perplexity"
    assert not any(name.startswith("test/") for name in result["metrics"])
    assert result["metrics"]["valid/perplexity"] < len("abcdefghijkl") + 2
    assert result["facts"]["valid_tokens_scored"] > 0
    assert capsys.readouterr().out.strip().endswith("result.json")


def test_a_text_that_is_too_short_ends_the_command_with_one_line(small, corpus, tmp_path, capsys):
    (corpus / "text" / "train.txt").write_text("a b c\n")
    assert main([*small, f"data.root={corpus}", f"runs.root={tmp_path / 'runs'}"]) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error:"))
    assert "train.txt has 4 tokens" in line
    assert "21 are needed" in line


@pytest.mark.parametrize("norm", norm_names())
def test_every_norm_learns_something(start_trainer, norm):
    trainer = start_trainer(f"norm={norm}", "train.optimizer=adamw", "train.lr=0.01", "train.max_steps=12")
    before = trainer.evaluate("valid")["valid/loss"]
    trainer.run(SILENT)
    assert trainer.evaluate("valid")["valid/loss"] < before


def test_low_precision_trains_and_carries_its_state(start_trainer):
    trainer = start_trainer("train.precision=bf16", "train.max_steps=3")
    trainer.run(SILENT)
    assert math.isfinite(trainer.evaluate("valid")["valid/loss"])
