"""Which timing session counts where there are several of one plan, size, impl and machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rmsrepro.report.records import TimingRecord


def choose_sessions(timings: Iterable[TimingRecord]) -> tuple[list[TimingRecord], list[str]]:
    """Keep one session of each place, whole, as arms of two are never compared; returns a line about each other one.

    It is the one with the most arms and, of those, the newest: a session's name begins with its time.
    """
    places: dict[tuple[str, str, str, str], dict[str, list[TimingRecord]]] = defaultdict(lambda: defaultdict(list))
    for timing in timings:
        places[timing.plan, timing.size, timing.impl, timing.hardware][timing.session].append(timing)
    kept, notes = [], []
    for (plan, size, impl, hardware), sessions in places.items():
        chosen = max(sessions, key=lambda name: (_arms(sessions[name]), name))
        kept += sessions[chosen]
        notes += [
            f"{plan}/session {name}, size {size}: its {_arms(sessions[name])} arms with impl={impl} on {hardware} are"
            f" left out; {_arms(sessions[chosen])} of session {chosen} are shown"
            for name in sorted(sessions)
            if name != chosen
        ]
    return kept, notes


def _arms(session: list[TimingRecord]) -> int:
    return len({timing.arm for timing in session})
