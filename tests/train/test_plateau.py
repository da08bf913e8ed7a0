"""What follows the validation metric: the learning rate of `plateau` and the average of NT-ASGD."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from rmsrepro.config import TrainConfig
from rmsrepro.errors import ConfigError
from rmsrepro.train.averaging import TriggeredAverage
from rmsrepro.train.plateau import Plateau

PLATEAU = TrainConfig(schedule="plateau", plateau_factor=4.0)
NT_ASGD = TrainConfig(average="nt_asgd", average_patience=2)


def test_the_rate_is_divided_after_each_evaluation_without_a_new_best():
    plateau, scales = Plateau(PLATEAU), []
    for improved in (True, False, True, False, False):
        plateau.observe(improved)
        scales.append(plateau.scale)
    assert scales == [1, 1 / 4, 1 / 4, 1 / 16, 1 / 64]


def test_patience_counts_evaluations_in_a_row_and_survives_a_checkpoint():
    plateau = Plateau(replace(PLATEAU, plateau_patience=2))
    plateau.observe(False)
    resumed = Plateau(replace(PLATEAU, plateau_patience=2))
    resumed.load_state_dict(plateau.state_dict())
    resumed.observe(False)
    assert (plateau.scale, resumed.scale) == (1, 1 / 4)


def test_other_schedules_are_left_alone():
    plateau = Plateau(TrainConfig())
    plateau.observe(False)
    assert plateau.scale == 1


def average_over(values, *, direction="min"):
    parameter = nn.Parameter(torch.zeros(1))
    average = TriggeredAverage([parameter], NT_ASGD, direction)
    started = []
    for value in values:
        average.observe(value)
        started.append(average.active)
    return started


def test_averaging_starts_when_an_evaluation_is_worse_than_the_best_before_the_last_few():
    assert average_over([9, 5, 6, 7]) == [False, False, False, False]
    assert average_over([5, 6, 7, 8]) == [False, False, False, True]
    assert average_over([-5, -6, -7, -8], direction="max") == [False, False, False, True]
    assert average_over([5, math.nan, math.inf, 6]) == [False, False, False, False]


def test_the_average_is_the_mean_since_the_trigger_and_stands_in_only_while_asked():
    parameter = nn.Parameter(torch.zeros(1))
    average = TriggeredAverage([parameter], replace(NT_ASGD, average_patience=0))
    for value in (1.0, 2.0):
        average.observe(value)
    for value in (1.0, 2.0, 5.0):
        parameter.data.fill_(value)
        average.step()
    resumed = TriggeredAverage([parameter], NT_ASGD)
    resumed.load_state_dict(average.state_dict())
    for kept in (average, resumed):
        with kept.swapped_in():
            assert parameter.item() == pytest.approx((0 + 1 + 2 + 5) / 4)
        assert parameter.item() == 5.0


@pytest.mark.parametrize("field", ["plateau_factor", "plateau_patience", "average"])
def test_settings_that_mean_nothing_are_refused_by_name(field):
    bad = {"plateau_factor": 1.0, "plateau_patience": 0, "average": "swa"}[field]
    with pytest.raises(ConfigError, match=rf"train\.{field}="):
        replace(TrainConfig(), **{field: bad}).validate()
