"""One optimiser step: accumulation, padding, clipping, loss scaling, and what a repeated step starts from."""

from __future__ import annotations

import math

import pytest
import torch
import toy
from torch import nn

from rmsrepro.config import TrainConfig
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.base import build_task
from rmsrepro.train.clip import clip_gradients
from rmsrepro.train.distributed import World
from rmsrepro.train.guard import DivergedError, diverged
from rmsrepro.train.loop import Hooks, Trainer
from rmsrepro.train.sums import means

CPU = torch.device("cpu")
PLAIN = ("task.dropout=0", "norm=none", "train.eval_every=0")


def build(*overrides):
    cfg = toy.config(*overrides)
    task = build_task(cfg, CPU)
    task.load()
    torch.manual_seed(1)
    return Trainer(task, task.build_model(NormFactory(cfg.norm, cfg.impl)), cfg, CPU, World())


class Record:
    """Hooks that keep what they are told."""

    def __init__(self):
        self.rows, self.bests, self.saved, self.steps = [], [], [], []
        self.hooks = Hooks(
            on_rows=lambda step, row: self.rows.append({"step": step, **row}),
            on_step=lambda step, loss: self.steps.append((step, loss)),
            save=self.saved.append,
            save_best=lambda state: self.bests.append(state["step"]),
            wants_save=lambda step: False,
            stop_signal=lambda: 0,
        )


def run(trainer):
    record = Record()
    trainer.run(record.hooks)
    return record


def parameters(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


@pytest.mark.parametrize(("k", "size"), [(2, 16), (4, 8)])
def test_accumulating_k_micro_batches_equals_one_k_times_as_large(k, size):
    whole = build(*PLAIN, "train.batch_size=32", "train.optimizer=sgd")
    parts = build(*PLAIN, f"train.batch_size={size}", f"train.accumulate={k}", "train.optimizer=sgd")
    rows, parts_rows = run(whole).rows, run(parts).rows
    torch.testing.assert_close(parameters(parts), parameters(whole))
    assert [row.get("train/loss") for row in parts_rows] == pytest.approx([row.get("train/loss") for row in rows])


def test_a_micro_batch_of_padding_adds_nothing():
    # The step of which one half is padding is the step of the other half.
    padded = build(*PLAIN, "train.batch_size=16", "train.accumulate=2", "task.padding_at=1", "train.max_steps=1")
    half = build(*PLAIN, "train.batch_size=16", "train.max_steps=1")
    assert run(padded).steps == run(half).steps
    assert torch.equal(parameters(padded), parameters(half))


def test_a_step_of_nothing_but_padding_moves_nothing_and_is_not_averaged_in():
    trainer = build(*PLAIN, "train.optimizer=sgd", "task.padding_at=1", "track.log_every=2", "train.max_steps=2")
    first = build(*PLAIN, "train.optimizer=sgd", "track.log_every=1", "train.max_steps=1")
    row, first_row = run(trainer).rows[0], run(first).rows[0]
    assert torch.equal(parameters(trainer), parameters(first))
    assert row["train/loss"] == first_row["train/loss"]


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
def test_clipping_by_the_global_norm_matches_torch(scale):
    parameters_ = [nn.Parameter(torch.zeros(3, 4)), nn.Parameter(torch.zeros(5)), nn.Parameter(torch.zeros(2))]
    for p in parameters_[:2]:
        p.grad = torch.randn(p.shape) * scale
    wanted = [p.grad.clone() for p in parameters_[:2]]
    norm = torch.cat([g.flatten() for g in wanted]).norm()
    factor = min(1.0, 1.5 / norm.item())
    assert clip_gradients(parameters_, TrainConfig(clip_norm=1.5)).item() == pytest.approx(norm.item())
    for p, grad in zip(parameters_, wanted, strict=False):
        torch.testing.assert_close(p.grad, grad * factor)
    assert parameters_[2].grad is None


def test_clipping_per_tensor_leaves_small_ones_and_then_clips_the_whole():
    large, small = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))

    def clip(**limits):
        large.grad, small.grad = torch.tensor([30.0, 40.0]), torch.tensor([0.3, 0.4])
        total = clip_gradients([large, small], TrainConfig(**limits))
        assert total.item() == pytest.approx(math.hypot(50, 0.5))
        return torch.cat([large.grad, small.grad]).tolist()

    assert clip(clip_norm_per_tensor=1.0) == pytest.approx([0.6, 0.8, 0.3, 0.4])
    total = math.hypot(1.0, 0.5)
    both = clip(clip_norm_per_tensor=1.0, clip_norm=0.5)
    assert both == pytest.approx([value * 0.5 / total for value in (0.6, 0.8, 0.3, 0.4)])


@pytest.mark.parametrize("bad", [math.inf, math.nan])
@pytest.mark.parametrize("limits", [{"clip_norm": 1.0}, {"clip_norm_per_tensor": 1.0}])
def test_clipping_leaves_gradients_that_are_no_numbers_as_they_are(bad, limits):
    p = nn.Parameter(torch.zeros(2))
    p.grad = torch.tensor([bad, 2.0])
    assert not clip_gradients([p], TrainConfig(**limits)).isfinite()
    assert torch.equal(p.grad.nan_to_num(7, 8), torch.tensor([bad, 2.0]).nan_to_num(7, 8))


def fp16(scale, *overrides):
    trainer = build("train.precision=fp16", "train.eval_every=0", "track.log_every=1", *overrides)
    trainer.scaler.load_state_dict({**trainer.scaler.state_dict(), "scale": scale})
    return trainer


def test_a_too_large_loss_scale_repeats_the_step_until_the_weights_move():
    calm, restless = (fp16(scale, "task.carry=true", "norm=batchnorm") for scale in (2.0**10, 2.0**34))
    rows, more_rows = run(calm).rows, run(restless).rows
    assert restless.skipped_steps >= 10
    assert calm.skipped_steps == 0
    assert [row["step"] for row in more_rows] == [row["step"] for row in rows]
    assert [row["train/lr"] for row in more_rows if "train/lr" in row] == [
        row["train/lr"] for row in rows if "train/lr" in row
    ]
    assert restless.optimizer.state_dict()["state"][0]["step"] == 20
    # Buffers and carry are those of a run that never overflowed, up to what the scale rounds away.
    for name, buffer in calm.model.named_buffers():
        torch.testing.assert_close(restless.model.get_buffer(name), buffer, rtol=2e-2, atol=2e-2)
    assert restless.model[0].norm.num_batches_tracked == 20
    assert more_rows[-2]["train/skipped_steps"] == restless.skipped_steps


def test_the_loss_scale_and_its_growth_counter_survive_a_checkpoint():
    trainer = fp16(256.0, "train.max_steps=7")
    state = run(trainer).saved[-1]
    other = fp16(2.0)
    other.restore(state)
    assert other.scaler.state_dict() == trainer.scaler.state_dict()
    assert other.scaler.get_scale() == 256.0
    assert other.scaler.state_dict()["_growth_tracker"] == 7


def test_endless_overflow_ends_as_diverged():
    trainer = fp16(2.0**120)
    with pytest.raises(DivergedError, match="40 overflows in a row at step 1"):
        run(trainer)


@pytest.mark.parametrize(
    ("direction", "values", "best", "step"),
    [("min", [math.nan, 3.0, 2.0, math.nan, 2.5], 2.0, 3), ("max", [math.nan, 3.0, 2.0, 3.0, 2.5], 3.0, 2)],
)
def test_the_best_evaluation_is_found_among_those_that_are_no_numbers(direction, values, best, step):
    listed = "[" + ",".join(map(str, values)) + "]"
    overrides = (f"task.direction={direction}", f"task.eval_values={listed}", "train.eval_every=1", "train.max_steps=5")
    trainer = build(*overrides)
    record = run(trainer)
    assert (trainer.best.best_value, trainer.best.best_step) == (best, step)
    assert trainer.best.nonfinite_count == sum(map(math.isnan, values))
    assert record.bests[-1] == step


@pytest.mark.parametrize(
    ("direction", "target", "stops_at"), [("max", 0.5, 3), ("min", 0.5, 2), ("max", 0.9, 5), ("min", 0.05, 5)]
)
def test_training_stops_at_the_target_in_either_direction(direction, target, stops_at):
    overrides = (
        f"task.direction={direction}",
        "task.eval_values=[nan,0.3,0.6,0.4,0.7]" if direction == "max" else "task.eval_values=[nan,0.4,0.3,0.2,0.1]",
        f"train.stop_at={target}",
        "train.eval_every=1",
        "train.max_steps=5",
    )
    trainer = build(*overrides)
    run(trainer)
    assert trainer.step == stops_at
    assert trainer.reached_target == (stops_at < 5)


@pytest.mark.parametrize(("every", "steps"), [("null", [2, 4, 5]), ("0", [5]), ("3", [3, 5])])
def test_evaluations_come_when_they_are_due_and_at_the_end(every, steps):
    record = run(build(f"train.eval_every={every}", "train.max_steps=5"))
    assert [row["step"] for row in record.rows if "valid/loss" in row] == steps
    assert [state["step"] for state in record.saved] == steps


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_row_holds_the_error_of_the_training_batches_since_the_last_row(accumulate):
    common = ("norm=none", "train.optimizer=sgd", "train.lr=1e-30", "train.eval_every=0", "task.dropout=0")
    trainer = build(*common, f"train.accumulate={accumulate}", "train.batch_size=16", "train.max_steps=4")
    rows = run(trainer).rows
    first, last = 3 * accumulate, 4 * accumulate
    wrong = []
    for number in range(last):
        inputs, labels = trainer.task.batch(*divmod(number, 4)).inputs
        wrong.append((trainer.model(inputs).argmax(1) != labels).float().mean().item())
    assert [row["step"] for row in rows if "train/error" in row] == [3, 4]
    assert rows[0]["train/error"] == pytest.approx(sum(wrong[:first]) / first)
    assert rows[1]["train/error"] == pytest.approx(sum(wrong[first:]) / accumulate)


def test_padding_is_in_no_training_error():
    trainer = build(*PLAIN, "train.optimizer=sgd", "task.padding_at=1", "track.log_every=2", "train.max_steps=2")
    first = build(*PLAIN, "train.optimizer=sgd", "track.log_every=1", "train.max_steps=1")
    assert run(trainer).rows[0]["train/error"] == run(first).rows[0]["train/error"]


def test_processes_that_saw_different_sums_agree_on_the_mean():
    assert means([{"error": (1.0, 4)}, {"error": (3.0, 4), "other": (2.0, 1)}, {}]) == {"error": 0.5, "other": 2.0}


@pytest.mark.parametrize(("loss", "at_fault"), [(310.7, "only the gradient's norm"), (math.inf, "only the loss")])
def test_a_divergence_without_a_tensor_at_fault_names_what_is_not_finite(loss, at_fault):
    error = diverged("the gradient is not finite", torch.nn.Linear(2, 2), 4, 0.1, loss)
    assert str(error).endswith(f"not finite: {at_fault}")
