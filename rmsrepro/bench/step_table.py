"""Step timings in words: a table a session, with the noise floor, and what a faster norm could bring at most."""

from __future__ import annotations

from typing import Any

from rmsrepro.bench.protocol import Ratio, Timing
from rmsrepro.bench.step_session import Session
from rmsrepro.report.verdict import MOST_DRIFT


def to_markdown(session: Session) -> str:
    """Write a session's table; times in ms per step, ratios with 95 % intervals."""
    contest, blocks = session.contest, len(session.sentinel.block_us)
    lines = [
        f"{contest.name}: {contest.task}, size {contest.size}, impl {session.impl}, {session.device}, {blocks} blocks",
        "",
        "| arm | median ms | IQR ms | times its reference | reference | norm's share of the step | a free norm |",
        "|---|---:|---:|---|---|---:|---:|",
    ]
    for arm, timing in session.timings.items():
        bound = session.bound(arm)
        share, most = ("", "") if bound is None else (_share(bound), f"{max(1.0, bound.value):.2f}x as fast")
        versus = f"{session.versus_reference(arm)} | {session.reference(arm)}"
        lines.append(f"| {arm} | {_times(timing)} | {versus} | {share} | {most} |")
    for arm, timing in session.again.items():
        lines.append(f"| {arm} again (noise) | {_times(timing)} | {session.noise(arm)} | {arm} | | |")
    warning = f": more than {MOST_DRIFT:.0%}, so repeat the session" if abs(session.drift) > MOST_DRIFT else ""
    lines += ["", f"The sentinel drifted by {session.drift:+.1%} over the session{warning}."]
    lines += [
        f"{arm}: {share:.0%} of its steps overflowed and were cut short." for arm, share in session.cut_short.items()
    ]
    return "\n".join(lines)


def _times(timing: Timing) -> str:
    return f"{timing.median_us / 1000:.2f} | {timing.iqr_us / 1000:.2f}"


def share_percent(slowdown: float) -> float:
    """Return what share of a step a norm adds that makes it `slowdown` times as long; below 0 where that is noise."""
    return 100 * (1 - 1 / slowdown)


def _share(bound: Ratio) -> str:
    ends = f"[{share_percent(bound.low):.1f}, {share_percent(bound.high):.1f}]"
    return f"{share_percent(bound.value):.1f} {ends} %"


def as_dict(session: Session) -> dict[str, Any]:
    """Return what a JSON file keeps: milliseconds per step, block by block."""
    return {
        "session": session.name,
        "plan": session.contest.name,
        "task": session.contest.task,
        "size": session.contest.size,
        "impl": session.impl,
        "device": session.device,
        "conditions": session.conditions,
        "noise": {arm: session.noise(arm).as_dict() for arm in session.again},
        "sentinel_ms": block_ms(session.sentinel.block_us),
        "sentinel_drift": round(session.drift, 4),
        "cut_short": dict(session.cut_short),
        "arms": {arm: _arm(session, arm) for arm in session.timings},
    }


def block_ms(block_us: tuple[float, ...]) -> list[float]:
    """Return blocks in milliseconds, to the tenth of a microsecond."""
    return [round(us / 1000, 4) for us in block_us]


def _arm(session: Session, arm: str) -> dict[str, Any]:
    timing, bound = session.timings[arm], session.bound(arm)
    found: dict[str, Any] = {
        "overrides": session.contest.arms[arm],
        "median_ms": round(timing.median_us / 1000, 4),
        "iqr_ms": round(timing.iqr_us / 1000, 4),
        "block_ms": block_ms(timing.block_us),
        "calls_per_block": timing.calls_per_block,
        "reference": session.reference(arm),
        "times_reference": session.versus_reference(arm).as_dict(),
    }
    if bound is not None:
        found |= {"norm_share_percent": round(share_percent(bound.value), 2), "speedup_bound": bound.as_dict()}
    return found
