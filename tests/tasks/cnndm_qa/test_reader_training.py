"""From files to a result: every question judged, a killed run the same, and what the user got wrong in one line."""

import copy
import json
import math

import pytest
import torch

from rmsrepro.cli import main
from rmsrepro.errors import ConfigError, DataError
from rmsrepro.train.loop import Hooks

STEPS = ["train.max_steps=6", "train.eval_every=3", "train.lr=0.01", "task.init=independent"]


def hooks(save=lambda state: None):
    """Return hooks that save after the fourth step and at evaluations."""
    return Hooks(
        on_rows=lambda step, row: None,
        on_step=lambda step, loss: None,
        save=save,
        save_best=lambda state: None,
        wants_save=lambda step: step == 4,
        stop_signal=lambda: 0,
    )


@pytest.mark.parametrize("norm", ["none", "rmsnorm", "batchnorm"])
def test_a_resumed_run_ends_where_a_straight_one_does(start_trainer, norm):
    straight = start_trainer(f"norm={norm}", *STEPS)
    states = []
    straight.run(hooks(save=lambda state: states.append(copy.deepcopy(state))))
    resumed = start_trainer(f"norm={norm}", *STEPS)
    resumed.restore(next(state for state in states if state["step"] == 4))
    resumed.run(hooks())
    for (name, p), other in zip(straight.model.state_dict().items(), resumed.model.state_dict().values(), strict=True):
        assert torch.equal(p, other), name


@pytest.mark.parametrize("split", ["valid", "test"])
def test_every_question_is_judged_beside_the_baselines(start_trainer, split):
    trainer = start_trainer("norm=rmsnorm", *STEPS)
    metrics = trainer.evaluate(split)
    assert set(metrics) == {
        f"{split}/{name}" for name in ("error", "entity_accuracy", "loss", "max_frequency", "exclusive_frequency")
    }
    assert all(map(math.isfinite, metrics.values()))
    count = len(trainer.task.corpus.splits[split])
    assert (metrics[f"{split}/error"] * count) % 1 == pytest.approx(0, abs=1e-9)
    lines = trainer.task.files()[f"answers.{split}.tsv"].splitlines()
    assert len(lines) == count + 1
    name, answer, _word, _entity = lines[1].split("\t")
    assert name.endswith("000")
    assert answer.startswith("@entity")
    right = sum(line.split("\t")[1] == line.split("\t")[3] for line in lines[1:])
    assert right / count == pytest.approx(metrics[f"{split}/entity_accuracy"])


def test_it_learns_who_left(start_trainer):
    trainer = start_trainer("norm=rmsnorm", "task.init=independent", "task.dropout=0.0", "task.hidden=32",
                            "train.max_steps=150", "train.lr=0.01", "task.entities=given",
                            "train.eval_every=0")  # fmt: skip
    before = trainer.evaluate("valid")["valid/loss"]
    trainer.run(hooks())
    assert trainer.losses.latest < 0.5 * before


def test_one_command_goes_from_files_to_a_result(questions, small, root, capsys):
    arguments = [*small, f"data.root={questions}", "size=tiny", "train.max_steps=2", "task.limit_questions=8"]
    assert main(arguments) == 0
    result = json.loads(next(root.rglob("result.json")).read_text())
    assert result["primary"] == "test/error"
    assert result["facts"]["test_questions"] == 7
    assert result["facts"]["valid_answer_not_in_passage"] >= 0
    assert next(root.rglob("answers.test.tsv")).read_text().count("\n") == 8


def test_without_test_questions_the_validation_decides(load_task, questions, capsys):
    for file in (questions / "cloze" / "cloze" / "questions" / "test").iterdir():
        file.unlink()
    task = load_task()
    assert task.spec.primary == "valid/error"
    assert task.facts()["judged_by"] == "valid/error"
    assert "no test questions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("task.hidden=0", r"task\.hidden=0: allowed is 1 or more"),
        ("task.dropout=1", r"task\.dropout=1\.0: allowed is 0 <= dropout < 1"),
        ("task.sentences=0", r"task\.sentences=0: allowed is 1 or more"),
        ("task.gain_init=nan", r"task\.gain_init=nan: allowed is a finite number"),
        ("task.truncate=0", r"task\.truncate=0: allowed is 1 or more, or -1"),
        ("task.norm_sites=all", r"task\.norm_sites=all: allowed are lstm, everywhere"),
        ("task.init=zeros", r"task\.init=zeros: allowed are attentive_reader, independent"),
        ("task.batching=none", r"task\.batching=none: allowed are bucketed, sampled, paper"),
        ("task.archive=../x", r"task\.archive=\.\./x: expected the name of an archive"),
        ("data=mnist", r"data=mnist: allowed are brown_cloze"),
    ],
)
def test_a_value_that_means_nothing_is_refused(load_task, override, why):
    with pytest.raises(ConfigError, match=why):
        load_task(override)


def test_an_archive_that_is_not_there_is_named_with_the_way_out(load_task):
    with pytest.raises(DataError, match=r"cloze/mine\.tar\.xz is not there .*task\.archive names it"):
        load_task("task.archive=mine")
    with pytest.raises(DataError, match=r"cloze/cnn\.tar\.xz is not there .*rc-data"):
        load_task("data=cnn")


def test_a_split_that_training_needs_is_named(load_task, questions):
    for file in (questions / "cloze" / "cloze" / "questions" / "validation").iterdir():
        file.unlink()
    with pytest.raises(DataError, match="has no valid questions; it has train, test"):
        load_task()
