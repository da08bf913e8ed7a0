import math

import pytest

from rmsrepro.runs.best import BestTracker

SEQUENCE = [math.nan, 3.0, 2.0, math.nan, 2.5, math.inf, -math.inf]


def test_nan_neither_becomes_the_best_nor_blocks_later_ones():
    best = BestTracker("min")
    improved = [best.update(value, step) for step, value in enumerate(SEQUENCE)]
    assert improved == [False, True, True, False, False, False, False]
    assert (best.best_value, best.best_step, best.nonfinite_count) == (2.0, 2, 4)


def test_max_takes_the_largest_and_a_tie_keeps_the_earlier_step():
    best = BestTracker("max")
    assert [best.update(value, step) for step, value in enumerate([0.5, 0.9, 0.9, 0.1])] == [
        True,
        True,
        False,
        False,
    ]
    assert best.best_step == 1


def test_a_restored_tracker_goes_on_where_the_saved_one_stopped():
    best, restored = BestTracker("min"), BestTracker("min")
    best.update(2.0, 10)
    best.update(math.nan, 20)
    restored.load_state_dict(best.state_dict())
    assert restored.state_dict() == best.state_dict()
    assert not restored.update(2.5, 30)
    assert restored.update(1.5, 40)


def test_a_state_of_the_other_direction_is_refused():
    with pytest.raises(ValueError, match="direction"):
        BestTracker("max").load_state_dict(BestTracker("min").state_dict())
    with pytest.raises(ValueError, match="'lower'"):
        BestTracker("lower")
