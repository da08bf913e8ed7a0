"""What each norm and size means on CIFAR-10, and what cannot be asked for."""

from __future__ import annotations

import pytest
import torch

from rmsrepro.errors import ConfigError
from rmsrepro.norms.config import partial_size
from rmsrepro.tasks.base import build_task
from rmsrepro.train.schedule import beta1_at, lr_at

STEPS_PER_EPOCH = 500
TOTAL = 200 * STEPS_PER_EPOCH


@pytest.mark.parametrize(
    ("norm", "lr", "init", "init_images", "eps", "p"),
    [
        ("none", 3e-4, "glorot", 500, None, 1.0),
        ("weightnorm", 3e-3, "gaussian", 500, 1e-12, 1.0),
        ("batchnorm", 3e-3, "gaussian", 0, 1e-6, 1.0),
        ("layernorm", 3e-3, "glorot", 0, 1e-6, 1.0),
        ("rmsnorm", 3e-3, "glorot", 0, 1e-6, 1.0),
        ("prmsnorm", 3e-3, "glorot", 0, 1e-6, 0.125),
    ],
)
def test_each_norm_gets_the_papers_settings(config, norm, lr, init, init_images, eps, p):
    cfg = config(norm, "size=paper")
    assert (cfg.train.lr, cfg.task.init, cfg.task.init_images, cfg.norm.p) == (lr, init, init_images, p)
    if eps is not None:
        assert cfg.norm.eps == eps
    assert cfg.norm.momentum == 0.1
    assert (cfg.train.optimizer, cfg.train.adam_eps, cfg.train.batch_size) == ("adam_eps_inside", 1e-8, 100)


def test_statistics_are_taken_over_height_and_width_with_gain_and_shift(config):
    norm = config("rmsnorm").norm
    assert (norm.axes, norm.gain, norm.shift, norm.eps_placement) == ("hw", True, True, "inside")


def test_a_partial_statistic_takes_two_of_the_ten_logits_and_five_of_the_36_positions(config):
    norm = config("prmsnorm").norm
    assert [partial_size(n, norm.p, norm.rounding) for n in (10, 36)] == [2, 5]


def test_paper_size_is_the_whole_net_on_all_images_for_200_epochs(config):
    cfg = config("rmsnorm", "size=paper")
    task = cfg.task
    assert (task.width_factor, task.validation, task.limit_train, cfg.train.epochs) == (1.0, 0, None, 200.0)
    assert (task.noise, task.dropout, task.whiten, task.whiten_eps) == (0.15, 0.5, True, 1e-5)
    assert (cfg.train.weight_decay, cfg.train.report) == (0.0, "last")


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_smaller_sizes_are_narrower_and_hold_images_out(config, size):
    task = config("rmsnorm", f"size={size}").task
    assert task.width_factor < 1
    assert task.validation > 0
    assert task.limit_train is not None


@pytest.mark.parametrize(("epoch", "share"), [(0, 1.0), (100, 1.0), (150, 0.5), (199, 0.01)])
@pytest.mark.parametrize("norm", ["none", "rmsnorm"])
def test_the_learning_rate_is_constant_and_then_falls_to_zero(config, norm, epoch, share):
    train = config(norm, "size=paper").train
    assert lr_at(epoch * STEPS_PER_EPOCH, TOTAL, train) == pytest.approx(train.lr * share)


def test_beta1_drops_after_100_epochs(config):
    train = config("rmsnorm", "size=paper").train
    switch = 100 * STEPS_PER_EPOCH
    assert [beta1_at(step, TOTAL, train) for step in (0, switch - 1, switch, TOTAL - 1)] == [0.9, 0.9, 0.5, 0.5]


def test_the_command_line_is_stronger_than_the_recipe(config):
    cfg = config("none", "size=paper", "train.lr=0.1", "task.init_images=7", "task.validation=100")
    assert (cfg.train.lr, cfg.task.init_images, cfg.task.validation) == (0.1, 7, 100)


@pytest.mark.parametrize(
    ("override", "field"),
    [
        ("task.width_factor=0", "task.width_factor"),
        ("task.noise=-1", "task.noise"),
        ("task.dropout=1", "task.dropout"),
        ("task.whiten_eps=0", "task.whiten_eps"),
        ("task.init=xavier", "task.init"),
        ("task.init_images=-1", "task.init_images"),
        ("task.validation=50000", "task.validation"),
        ("task.limit_train=0", "task.limit_train"),
        ("data=mnist", "data"),
    ],
)
def test_impossible_settings_are_named(config, override, field):
    with pytest.raises(ConfigError, match=field):
        config("rmsnorm", override)


@pytest.mark.parametrize("override", ["train.report=best", "train.stop_at=0.1"])
def test_the_test_set_chooses_nothing(config, override):
    cfg = config("rmsnorm", "size=paper", override)
    with pytest.raises(ConfigError, match=rf"{override.split('=')[0]}.*task\.validation"):
        build_task(cfg, torch.device("cpu"))
    build_task(config("rmsnorm", "size=paper", "task.validation=5000", override), torch.device("cpu"))


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm", "batchnorm"])
def test_data_dependent_initialisation_is_refused_where_a_norm_has_none(config, norm):
    with pytest.raises(ConfigError, match=rf"task\.init_images=500: norm={norm}"):
        build_task(config(norm, "task.init_images=500"), torch.device("cpu"))


def test_weightnorm_without_gains_cannot_be_initialised_from_data(config):
    with pytest.raises(ConfigError, match=r"norm\.gain=false"):
        build_task(config("weightnorm", "norm.gain=false"), torch.device("cpu"))
    build_task(config("weightnorm", "norm.gain=false", "task.init_images=0"), torch.device("cpu"))
