import math

import pytest

from rmsrepro.errors import DataError
from rmsrepro.report.printed import parse_printed
from rmsrepro.report.units import UNITS, convert, fixed, step_time, telling_digits


def test_per_cent_and_fraction_convert_by_their_declared_units():
    assert convert(0.985, UNITS["fraction"], UNITS["%"], "x") == pytest.approx(98.5)
    assert convert(10.49, UNITS["%"], UNITS["fraction"], "x") == pytest.approx(0.1049)


def test_per_cent_under_the_name_of_a_fraction_is_refused():
    with pytest.raises(DataError, match=r"run 2: 98\.5 is no value in the declared unit \(fraction: 0 to 1\)"):
        convert(98.5, UNITS["fraction"], UNITS["%"], "run 2")


def test_units_of_different_things_do_not_convert():
    with pytest.raises(DataError, match="ms/step cannot be shown as s/epoch"):
        convert(1.0, UNITS["ms/step"], UNITS["s/epoch"], "x")


@pytest.mark.parametrize(
    ("given", "per_1k"), [("ms/step", 10.0), ("s/1k steps", 10.0), ("s/0.1k steps", 100.0), ("min/10k steps", 60.0)]
)
def test_times_per_step_convert_whatever_number_of_steps_they_are_printed_for(given, per_1k):
    value = {"ms/step": 10.0, "s/1k steps": 10.0, "s/0.1k steps": 10.0, "min/10k steps": 10.0}[given]
    assert convert(value, UNITS[given], UNITS["s/1k steps"], "x") == pytest.approx(per_1k)


def test_durations_name_their_unit_and_keep_their_order_when_it_changes():
    assert [step_time(seconds) for seconds in (20e-6, 0.01, 1.5)] == ["20.0 µs", "10.0 ms", "1.50 s"]


@pytest.mark.parametrize(("value", "text"), [(-0.0, "0.00"), (-0.004, "0.00"), (-0.006, "-0.01"), (2.5, "2.50")])
def test_a_negative_zero_is_never_printed(value, text):
    assert fixed(value, 2) == text


@pytest.mark.parametrize(
    ("values", "mark", "digits"),
    [
        ([0.2, -0.3], 0.0, 2),
        ([0.2, -0.0042], 0.0, 3),
        ([0.00004, 0.2], 0.0, 5),
        ([1e-9], 0.0, 5),
        ([0.0, 0.2], 0.0, 2),
        ([0.98, 0.998], 1.0, 3),
        ([0.98, 1.0], 1.0, 2),
        ([math.nan, math.inf], 0.0, 2),
    ],
)
def test_as_many_digits_are_shown_as_tell_a_value_from_none(values, mark, digits):
    assert telling_digits(values, 2, mark) == digits


def test_printed_cells_keep_spread_speed_up_and_digits():
    cell = parse_printed("501 ± 11.8 (24.7%)", "x")
    assert (cell.value, cell.spread, cell.speedup_percent, cell.digits) == (501.0, 11.8, 24.7, 0)
    assert parse_printed("≈5.97", "x").approximate
    assert parse_printed("-", "x") is None
    assert parse_printed("-2.60", "x").value == -2.6
