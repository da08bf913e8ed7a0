"""One timing session: all arms of one table in turn, in one implementation, on one device."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import torch

from rmsrepro.bench import machine, protocol
from rmsrepro.bench.memory import refusing_what_does_not_fit
from rmsrepro.bench.protocol import Ratio, Timing
from rmsrepro.bench.step_arms import REFERENCE, SMALLER, Contest, build_steps, counterpart

#: Names beside the arms' own: a reference arm once more, and work that never changes.
_AGAIN, _SENTINEL = " again", "sentinel"
_SENTINEL_WIDTH, _SENTINEL_PRODUCTS = 512, 16


@dataclass(frozen=True)
class Session:
    """The timings of one session and what they were taken under."""

    name: str
    """Names the process and session; only arms of one session are compared."""
    contest: Contest
    impl: str
    device: str
    """cpu or cuda."""
    timings: Mapping[str, Timing]
    again: Mapping[str, Timing]
    """The reference arms a second time: their ratios to themselves are the noise floor."""
    sentinel: Timing
    conditions: dict[str, Any]
    cut_short: Mapping[str, float] = field(default_factory=dict)
    """The share of an arm's steps that overflowed and so lack the optimiser's part; arms without any are not in it."""

    def reference(self, arm: str) -> str:
        """Return the arm that `arm` is divided by."""
        return _reference(self.contest, self.timings, arm)

    def versus_reference(self, arm: str) -> Ratio:
        """Return an arm's time over its reference arm's."""
        return protocol.ratio(self.timings[arm], self.timings[self.reference(arm)])

    def noise(self, arm: str) -> Ratio:
        """Return a reference arm's time over its own."""
        return protocol.ratio(self.again[arm], self.timings[arm])

    def bound(self, arm: str) -> Ratio | None:
        """Return an arm's time over that of the same step without a norm: no norm can make it faster than that.

        None for the arm without a norm, and where there is none to compare with.
        """
        plain = counterpart(self.contest, arm, "none")
        if plain is None or plain == arm or plain not in self.timings:
            return None
        return protocol.ratio(self.timings[arm], self.timings[plain])

    @property
    def drift(self) -> float:
        """Return how much slower the sentinel was in the last quarter of the blocks than in the first."""
        times = self.sentinel.block_us
        quarter = max(1, len(times) // 4)
        return statistics.fmean(times[-quarter:]) / statistics.fmean(times[:quarter]) - 1


def run_session(
    contest: Contest,
    impl: str,
    device: torch.device,
    say: Callable[[str], None],
    *,
    blocks: int,
    block_ms: float,
    budget_s: float,
) -> Session | None:
    """Build and time every arm that `impl` can compute; None, said why, where fewer than two are left."""
    started_s, before = time.monotonic(), machine.conditions(device.type)
    steps = build_steps(contest, impl, device, say)
    if len(steps) < 2:
        say(f"{contest.name}, impl={impl}: fewer than two arms can be timed")
        return None
    references = dict.fromkeys(_reference(contest, steps, arm) for arm in steps)
    calls = {**steps, **{f"{arm}{_AGAIN}": steps[arm] for arm in references}, _SENTINEL: _sentinel(device)}
    left_s = budget_s - (time.monotonic() - started_s)
    with refusing_what_does_not_fit(f"{contest.name}, size={contest.size}, impl={impl}", SMALLER):
        timings = protocol.measure(calls, blocks=blocks, block_ms=block_ms, device=device.type, budget_s=left_s)
    return Session(
        name=f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.urandom(3).hex()}",
        contest=contest,
        impl=impl,
        device=device.type,
        timings={arm: timings[arm] for arm in steps},
        again={arm: timings[f"{arm}{_AGAIN}"] for arm in references},
        sentinel=timings[_SENTINEL],
        conditions={"before": before, "after": machine.conditions(device.type)},
        cut_short={arm: step.cut_short / step.calls for arm, step in steps.items() if step.cut_short},
    )


def _reference(contest: Contest, timed: Iterable[str], arm: str) -> str:
    """Return LayerNorm's arm of the same setting; where there is none, the first arm with a norm."""
    names = list(timed)
    found = counterpart(contest, arm, REFERENCE)
    if found in names:
        return found
    return next((name for name in names if "norm=none" not in contest.arms[name]), names[0])


def _sentinel(device: torch.device) -> Callable[[], object]:
    """Return products of two fixed matrices: the same work in every block of every session, for some 20 ms a call."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(_SENTINEL_WIDTH, _SENTINEL_WIDTH, generator=generator).to(device) for _ in range(2))

    def multiply() -> None:
        for _ in range(_SENTINEL_PRODUCTS):
            torch.mm(a, b)

    return multiply
