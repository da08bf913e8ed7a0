"""How everything here is timed: interleaved in one process, so that only ratios of one run are ever compared.

A block holds every arm once, in random order; each arm runs a fixed number of calls in it, after one unmeasured
call where calls are short, with the device synchronised before the clock is read. Slow drifts of the machine meet all
arms of a block alike, and the ratio of two arms is taken within blocks.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

MIN_CALLS, MAX_CALLS = 1, 10_000
#: Blocks that a command may ask for at least, and that a time budget never goes below: fewer have no spread worth
#: showing.
MIN_BLOCKS = 3
#: Calls longer than this do not notice that another arm has been at the caches, and go without the unmeasured call.
LONG_CALL_MS = 200.0


@runtime_checkable
class Paired(Protocol):
    """An arm whose work differs from call to call, as training steps of unlike batches do.

    All such arms make the same number of calls in a block, so that each can do in it what the others do. They come
    with their first call made.
    """

    def begin(self, calls: int) -> None:
        """Prepare for a block of `calls` calls, each time the same."""

    def __call__(self) -> object:
        """Do the work of one call."""


@dataclass(frozen=True)
class Timing:
    """The times of one arm: microseconds per call, one number per block."""

    block_us: tuple[float, ...]
    calls_per_block: int

    @property
    def median_us(self) -> float:
        """Median over blocks."""
        return statistics.median(self.block_us)

    @property
    def iqr_us(self) -> float:
        """Distance between the quartiles over blocks."""
        low, _, high = statistics.quantiles(self.block_us, n=4, method="inclusive")
        return high - low

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON file keeps."""
        return {
            "median_us": round(self.median_us, 3),
            "iqr_us": round(self.iqr_us, 3),
            "blocks": len(self.block_us),
            "calls_per_block": self.calls_per_block,
        }


@dataclass(frozen=True)
class Ratio:
    """How many times as long one arm takes as another, with an interval from the blocks' log-ratios."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    def as_dict(self) -> dict[str, float]:
        """Return what a JSON file keeps."""
        return {"ratio": round(self.value, 4), "low": round(self.low, 4), "high": round(self.high, 4)}


def measure(
    arms: Mapping[str, Callable[[], object]],
    *,
    blocks: int = 15,
    block_ms: float = 10.0,
    device: str = "cpu",
    seed: int = 0,
    budget_s: float | None = None,
) -> dict[str, Timing]:
    """Time `arms`, each a call without arguments, in `blocks` interleaved blocks of about `block_ms` per arm.

    Where that would take longer than `budget_s`, blocks become shorter, then fewer, down to 3; no arm is left out.
    """
    if blocks < 2:
        raise ValueError(f"blocks={blocks}: at least 2 are needed for a spread")
    synchronise = torch.cuda.synchronize if device.startswith("cuda") else _nothing
    started_s = time.perf_counter()
    distinct = {id(run): run for run in arms.values()}
    settled = {key: _warm_up(run, block_ms, synchronise) for key, run in distinct.items()}
    call_us = {name: settled[id(run)] for name, run in arms.items()}
    paired = {name: run for name, run in arms.items() if isinstance(run, Paired)}
    if budget_s is not None:
        left_s = budget_s - (time.perf_counter() - started_s)
        blocks, block_ms = fit_into(left_s, call_us, blocks, block_ms, paired)
    calls = calls_of(call_us, block_ms, paired)
    unmet = {id(run): (run, calls[name]) for name, run in paired.items() if calls[name] > 1}
    for run, each in unmet.values():  # warming up has met only one kind of call, and compilers see each kind anew
        _make_block(run, each)
    times: dict[str, list[float]] = {name: [] for name in arms}
    order, rng = list(arms), random.Random(seed)
    for _ in range(blocks):
        rng.shuffle(order)
        for name in order:
            if call_us[name] < LONG_CALL_MS * 1000:
                arms[name]()
            if name in paired:
                paired[name].begin(calls[name])
            times[name].append(_time_us(arms[name], calls[name], synchronise))
    return {name: Timing(tuple(times[name]), calls[name]) for name in arms}


def ratio(numerator: Timing, denominator: Timing, confidence: float = 0.95) -> Ratio:
    """Return numerator / denominator with a Student-t interval of the mean log-ratio over blocks."""
    logs = [math.log(a / b) for a, b in zip(numerator.block_us, denominator.block_us, strict=True)]
    centre = statistics.fmean(logs)
    half = student_t(confidence, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(centre), math.exp(centre - half), math.exp(centre + half))


def student_t(confidence: float, freedom: int) -> float:
    """Return the two-sided quantile of Student's t."""
    from scipy import stats  # late: it takes a second, and only results need it

    return float(stats.t.ppf(0.5 + confidence / 2, freedom))


def calls_in(block_ms: float, call_us: float) -> int:
    """Return how many calls fill a block."""
    return round(min(max(block_ms * 1000 / call_us, MIN_CALLS), MAX_CALLS))


def calls_of(call_us: Mapping[str, float], block_ms: float, paired: Collection[str] = ()) -> dict[str, int]:
    """Return how many calls each arm makes in a block: as many as fill it, `paired` ones what their median one does."""
    calls = {name: calls_in(block_ms, us) for name, us in call_us.items()}
    if paired:
        calls |= dict.fromkeys(paired, calls_in(block_ms, statistics.median(call_us[name] for name in paired)))
    return calls


def fit_into(
    budget_s: float, call_us: Mapping[str, float], blocks: int, block_ms: float, paired: Collection[str] = ()
) -> tuple[int, float]:
    """Return how many blocks of how many ms take at most `budget_s`, given how long a call of each arm takes."""

    def round_s(ms: float) -> float:
        calls = calls_of(call_us, ms, paired)
        return sum((calls[name] + (us < LONG_CALL_MS * 1000)) * us for name, us in call_us.items()) / 1e6

    while blocks * round_s(block_ms) > budget_s and block_ms * 1000 > min(call_us.values()):
        block_ms /= 2
    affordable = int(min(blocks, budget_s / round_s(block_ms)))
    return max(min(blocks, MIN_BLOCKS), affordable), block_ms


def _warm_up(run: Callable[[], object], block_ms: float, synchronise: Callable[[], None]) -> float:
    """Call an arm until caches and compilers have settled; returns the microseconds that a call then takes."""
    if isinstance(run, Paired):
        run.begin(1)
    else:
        run()
    once_us = _time_us(run, 1, synchronise)
    if once_us > max(block_ms, LONG_CALL_MS) * 1000:
        return once_us
    once_us = _time_us(run, 1, synchronise)
    if once_us > block_ms * 1000:
        return once_us
    return min(_time_us(run, 3, synchronise) for _ in range(3))


def _make_block(run: Paired, calls: int) -> None:
    run.begin(calls)
    for _ in range(calls):
        run()


def _time_us(run: Callable[[], object], calls: int, synchronise: Callable[[], None]) -> float:
    synchronise()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    synchronise()
    return (time.perf_counter() - start) / calls * 1e6


def _nothing() -> None:
    """Stand in for a synchronisation where calls return when they are done."""
