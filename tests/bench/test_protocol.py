"""The timing protocol: what is slower measures slower, units are right, and noise is shown as noise."""

from __future__ import annotations

import time

import pytest

from rmsrepro.bench import protocol
from rmsrepro.bench.protocol import Timing


def test_times_are_microseconds_per_call() -> None:
    timing = protocol.measure({"sleep": lambda: time.sleep(0.002)}, blocks=3, block_ms=4.0)["sleep"]
    assert 2000 <= timing.median_us < 200_000  # a busy machine sleeps longer, never shorter
    assert timing.as_dict()["median_us"] == pytest.approx(timing.median_us, abs=0.001)


def test_twice_the_work_takes_twice_the_time() -> None:
    arms = {"one": lambda: time.sleep(0.001), "two": lambda: time.sleep(0.002)}
    timings = protocol.measure(arms, blocks=5, block_ms=4.0)
    found = protocol.ratio(timings["two"], timings["one"])
    assert found.low < 2.0 < found.high or found.value == pytest.approx(2.0, rel=0.3)


def test_an_outlier_moves_the_spread_but_not_the_median() -> None:
    timing = Timing((10.0, 10.1, 9.9, 10.0, 2000.0), calls_per_block=1)
    assert timing.median_us == 10.0
    assert protocol.ratio(timing, Timing((10.0,) * 5, 1)).low < 1.0


def test_a_ratio_of_equals_holds_one() -> None:
    a, b = Timing((10.0, 10.2, 9.9, 10.1), 1), Timing((10.1, 10.0, 10.0, 10.1), 1)
    found = protocol.ratio(a, b)
    assert found.low <= 1.0 <= found.high


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (14, 2.145), (24, 2.064), (1000, 1.962)]
)
def test_student_t_quantiles_are_those_of_tables(freedom: int, quantile: float) -> None:
    assert protocol.student_t(0.95, freedom) == pytest.approx(quantile, rel=1e-3)


def test_every_arm_runs_in_every_block() -> None:
    calls: list[str] = []
    protocol.measure({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, blocks=4, block_ms=0.001)
    assert calls.count("a") >= 4 * 2
    assert calls.count("b") >= 4 * 2


def test_a_budget_shortens_blocks_before_it_takes_any_away() -> None:
    quick, slow = {"a": 1e3, "b": 2e3}, {"a": 1e6, "b": 1e6}
    assert protocol.fit_into(100.0, quick, 10, 50.0) == (10, 50.0)
    blocks, block_ms = protocol.fit_into(0.5, quick, 10, 50.0)
    assert blocks == 10
    assert block_ms < 50.0
    # 8 rounds of two calls of 1 s each.
    assert protocol.fit_into(16.0, slow, 10, 50.0) == (8, 50.0)
    assert protocol.fit_into(0.0, slow, 10, 50.0)[0] == protocol.MIN_BLOCKS
    assert protocol.fit_into(0.0, slow, 2, 50.0)[0] == 2


def test_blocks_without_an_end_are_of_the_most_calls_and_fit_into_a_budget_without_an_end() -> None:
    assert protocol.calls_in(1e308, 1.0) == protocol.MAX_CALLS
    assert protocol.fit_into(1e308, {"a": 1e-3}, 10, 1e308) == (10, 1e308)


def test_a_budget_counts_the_calls_that_paired_arms_make_and_not_those_that_would_fill_a_block() -> None:
    call_us = {"quick": 2e3, "middle": 2e3, "slow": 40e3}
    # 20 calls of each arm, as many as fill a block of 40 ms with the middle one, and one to settle: 0.924 s a round.
    assert protocol.calls_of(call_us, 40.0, call_us) == dict.fromkeys(call_us, 20)
    assert protocol.fit_into(9.3, call_us, 10, 40.0, call_us) == (10, 40.0)
    assert protocol.fit_into(9.2, call_us, 10, 40.0, call_us) == (10, 20.0)


def test_a_budget_leaves_no_arm_out() -> None:
    arms = {name: lambda: time.sleep(0.001) for name in "abc"}
    timings = protocol.measure(arms, blocks=50, block_ms=100.0, budget_s=0.001)
    assert {name: len(timing.block_us) for name, timing in timings.items()} == dict.fromkeys("abc", protocol.MIN_BLOCKS)


class Uneven:
    """An arm whose calls of a block take 1, 2, 3, ... milliseconds, `slower` times as long."""

    def __init__(self, slower: float) -> None:
        self.slower, self.at, self.blocks = slower, 0, []

    def begin(self, calls: int) -> None:
        self.at = 0
        self.blocks.append(calls)

    def __call__(self) -> None:
        self.at += 1
        time.sleep(self.slower * self.at / 1000)


def test_uneven_calls_are_the_same_for_all_arms_of_a_block() -> None:
    arms = {"one": Uneven(1.0), "two": Uneven(2.0), "even": lambda: time.sleep(0.001)}
    timings = protocol.measure(arms, blocks=5, block_ms=30.0)
    assert arms["one"].blocks == arms["two"].blocks
    assert timings["one"].calls_per_block == timings["two"].calls_per_block > 1
    assert protocol.ratio(timings["two"], timings["one"]).value == pytest.approx(2.0, rel=0.3)


class Compiled:
    """An arm that takes 50 milliseconds longer the first time it meets one of its calls."""

    def __init__(self) -> None:
        self.kinds, self.at, self.met = 1, 0, set()

    def begin(self, calls: int) -> None:
        self.kinds, self.at = calls, 0

    def __call__(self) -> None:
        kind = (self.kinds, self.at % self.kinds)
        time.sleep(0.001 if kind in self.met else 0.051)
        self.met.add(kind)
        self.at += 1


def test_what_a_kind_of_call_costs_once_is_not_measured() -> None:
    timing = protocol.measure({"one": Compiled()}, blocks=3, block_ms=10.0)["one"]
    assert timing.calls_per_block > 1
    assert max(timing.block_us) < 20_000


def test_an_arm_under_two_names_is_warmed_up_once() -> None:
    calls: list[int] = []

    def arm() -> None:
        time.sleep(0.001)
        calls.append(1)

    protocol.measure({"a": arm, "b": arm}, blocks=2, block_ms=0.001)
    assert len(calls) == 3 + 2 * 2 * 2
