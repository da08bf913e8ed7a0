"""The CIFAR-10 task: data, splits, batches and whole runs with every norm."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from rmsrepro.data.cifar10 import load_cifar10
from rmsrepro.errors import ConfigError
from rmsrepro.norms import norm_names
from rmsrepro.tasks.cifar10 import task as task_module
from rmsrepro.tasks.cifar10.whitening import Whitening, scale_pixels
from rmsrepro.train.run import train


@pytest.mark.parametrize("norm", norm_names())
def test_every_norm_trains(config, data_root, tmp_path, narrow, capsys, norm):
    cfg = config(norm, *narrow, "train.max_steps=2", f"data.root={data_root}", f"runs.root={tmp_path / 'runs'}")
    cfg.task.init_images = min(cfg.task.init_images, 20)
    assert train(cfg, []) == 0
    result = json.loads(Path(capsys.readouterr().out.splitlines()[-1]).read_text())
    metrics = result["metrics"]
    assert (result["primary"], result["direction"], result["data"]) == ("test/error", "min", "cifar10")
    assert metrics["test/error"] == pytest.approx(1 - metrics["test/accuracy"])
    assert result["timing"]["steps"] == 2


def test_batches_depend_on_seed_epoch_and_index_only(loaded):
    one, other, another_seed = loaded(), loaded(), loaded("rmsnorm", "seed=2")
    other.batch(5, 0)
    images, labels = one.batch(3, 2).inputs
    again_images, again_labels = other.batch(3, 2).inputs
    assert torch.equal(images, again_images)
    assert torch.equal(labels, again_labels)
    for different in (one.batch(3, 1), one.batch(4, 2), another_seed.batch(3, 2)):
        assert not torch.equal(images, different.inputs[0])


def test_the_last_training_images_are_held_out(loaded, data_root):
    task = loaded("rmsnorm", "task.validation=50", "task.limit_train=60")
    data = load_cifar10(data_root, allow_noncanonical=True)
    images = torch.tensor(data.train_images)
    assert torch.equal(task.splits["train"][0], scale_pixels(images[:60]))
    assert torch.equal(task.splits["valid"][0], scale_pixels(images[-50:]))
    assert task.splits["valid"][1].tolist() == data.train_labels[-50:].tolist()
    assert task.facts()["valid_is_test"] is False


def test_without_validation_all_images_train_and_the_curve_is_the_test_sets(loaded):
    task = loaded("rmsnorm", "task.validation=0", "task.limit_train=null")
    assert len(task.splits["train"][1]) == 200
    assert task.splits["valid"] is task.splits["test"]
    assert task.facts()["valid_is_test"] is True


def test_the_whitening_is_fitted_to_the_training_images_that_are_kept(loaded, data_root, monkeypatch):
    fitted = []

    def fit(images, eps):
        fitted.append((images, eps))
        return Whitening(torch.zeros(3072), 2 * torch.eye(3072))

    monkeypatch.setattr(task_module, "fit_whitening", fit)
    task = loaded("rmsnorm", "task.whiten=true", "task.limit_train=30", "task.whiten_eps=0.5")
    images, eps = fitted[0]
    data = load_cifar10(data_root, allow_noncanonical=True)
    assert (images.tolist(), eps) == (data.train_images[:30].tolist(), 0.5)
    assert torch.equal(task.splits["test"][0], 2 * scale_pixels(torch.tensor(data.test_images)))


def test_the_fit_is_cached_beside_the_data(loaded, data_root, monkeypatch):
    monkeypatch.setattr(task_module, "fit_whitening", lambda *_: Whitening(torch.zeros(3072), torch.eye(3072)))
    loaded("rmsnorm", "task.whiten=true")
    monkeypatch.setattr(task_module, "fit_whitening", lambda *_: pytest.fail("fitted again"))
    loaded("layernorm", "task.whiten=true")
    assert len(list((data_root / "cifar10").glob("whitening-*.npz"))) == 1


def test_initialisation_asks_for_no_more_images_than_there_are(loaded):
    with pytest.raises(ConfigError, match=r"task\.init_images=500: 150 training images"):
        loaded("none", "task.init_images=500", "task.limit_train=null")


def test_initialisation_is_a_pure_function_of_the_seed(loaded):
    from rmsrepro import seeding
    from rmsrepro.norms.factory import NormFactory

    def start(seed: int) -> dict[str, torch.Tensor]:
        task = loaded("none", "task.init_images=20", f"seed={seed}")
        seeding.seed_step(seed, 0)
        model = task.build_model(NormFactory(task.cfg.norm))
        task.init_model(model)
        return model.state_dict()

    one, same, other = start(1), start(1), start(2)
    assert all(torch.equal(value, same[name]) for name, value in one.items())
    assert not torch.equal(one["output.bias"], other["output.bias"])


@pytest.mark.skipif(
    not (Path(os.environ.get("RMSREPRO_DATA", "")) / "cifar10" / "test_batch.bin").is_file(),
    reason="CIFAR-10 is not below $RMSREPRO_DATA",
)
def test_the_real_images_load(config):
    task = task_module.Task(config("rmsnorm", "size=tiny"), torch.device("cpu"))
    task.load()
    assert {name: len(labels) for name, (_, labels) in task.splits.items()} == {
        "train": 1000,
        "valid": 500,
        "test": 10_000,
    }
    images, labels = task.splits["test"]
    assert (images.shape[1:], images.abs().max().item()) == ((3, 32, 32), 127.5 / 128)
    assert labels.bincount().tolist() == [1000] * 10
