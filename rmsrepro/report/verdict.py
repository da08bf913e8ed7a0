"""The rules by which a claim counts as reproduced. Every verdict of every table comes from this file.

A verdict names the rule, n and the interval it rests on. Fewer than three runs, a spread that is not there, or an
interval too wide to tell, give "not tested", never a guess. docs/statistics.md explains each rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rmsrepro.report.claims import Claim
from rmsrepro.report.statistics import (
    Interval,
    difference,
    equivalence_p,
    estimate,
    log_ratio,
    prediction_interval,
)
from rmsrepro.report.units import Unit

Outcome = Literal["reproduced", "direction only", "not reproduced", "not tested"]

#: Runs, or timing blocks, below which nothing is judged.
MIN_RUNS = 3
#: Differences up to the margin count as comparable quality, in the unit's own terms.
MARGINS = {"BLEU": 0.5, "%": 1.0, "fraction": 0.01, "rank": 0.5, "perplexity": 2.0, "nats": 0.1, "1": 0.25}
#: A prediction interval wider than so many margins on either side cannot tell a reproduction from a miss.
WIDEST = 2.0
#: A log-ratio of times this close to the paper's, and closer than half of the paper's own effect, counts as the same.
RATIO_MARGIN = 0.10
#: A log-ratio of times closer to 0 than this is no speed-up, however narrow its interval.
NO_DIFFERENCE = 0.02
#: A session whose reference arm or fixed work became this much slower or faster from its first to its last quarter is
#: not judged, and should be repeated.
MOST_DRIFT = 0.05
#: The significance of the two one-sided tests.
ALPHA = 0.05
#: A model that the paper could not train: a score up to this, in the column's unit, is a failure here too.
FAILURE_SCORE = {"BLEU": 1.0}


@dataclass(frozen=True)
class Verdict:
    """An outcome, the rule that gave it, and what it rests on."""

    outcome: Outcome
    rule: str
    reason: str
    n: int
    interval: Interval | None = None


def margin_of(unit: Unit) -> float:
    """Return the difference that counts as comparable in this unit."""
    return MARGINS[unit.name]


def judge_level(claim: Claim, values: Sequence[float]) -> Verdict:
    """Judge a number itself, which the paper gives without a spread, against our prediction interval.

    `values` are our runs' at the paper's size and on the paper's data, in the claim's unit.
    """
    rule = "prediction interval"
    refusal = _refuse(rule, values)
    if refusal:
        return refusal
    interval = prediction_interval(values)
    assert interval is not None
    limit = WIDEST * margin_of(claim.unit)
    half_digit = 0.5 * 10.0**-claim.digits  # a printed 5.3 is anything that rounds to it
    if interval.high < claim.value - half_digit or interval.low > claim.value + half_digit:
        return Verdict("not reproduced", rule, "the paper's number lies outside", len(values), interval)
    if interval.half_width > limit:
        reason = f"the interval is wider than ±{limit:g} {claim.unit.name}"
        return Verdict("not tested", rule, reason, len(values), interval)
    return Verdict("reproduced", rule, "the paper's number lies within", len(values), interval)


def judge_difference(claim: Claim, reference: Claim, ours: Mapping[int, float], theirs: Mapping[int, float]) -> Verdict:
    """Judge an arm's difference to its reference arm: the same sign, or comparable where the paper's are.

    `ours` and `theirs` map seed to value, for the arm and its reference, in the claim's unit, of equal size and data.
    At best this is "direction only": at another size or on other data the number itself cannot be reproduced.
    """
    # Rounded, for 22.3 - 21.8 is a hair more than the 0.5 that it is on paper.
    gap, margin = round(claim.value - reference.value, 9), margin_of(claim.unit)
    comparable = abs(gap) <= margin
    rule = "equivalence (two one-sided tests)" if comparable else "sign of the difference"
    found = difference(ours, theirs)
    for values in (list(ours.values()), list(theirs.values())):
        refusal = _refuse(rule, values)
        if refusal:
            return refusal
    if len(ours) != len(theirs):
        # Whoever is missing may be missing because it failed.
        return Verdict("not tested", rule, f"{len(ours)} runs against {len(theirs)} of {reference.label}", found.n)
    if found.interval is None:
        return Verdict("not tested", rule, f"difference to {reference.label}: {found.state}", found.n)
    n, interval = found.n, found.interval
    p = equivalence_p(ours, theirs, margin)
    equivalent = p is not None and p < ALPHA

    def verdict(outcome: Outcome, reason: str) -> Verdict:
        return Verdict(outcome, rule, reason, n, interval)

    name = reference.label
    if comparable:
        if equivalent:
            return verdict("direction only", f"within ±{margin:g} of {name}, as the paper's")
        if interval.low > margin or interval.high < -margin:
            return verdict("not reproduced", f"more than {margin:g} from {name}")
        return verdict("not tested", f"the interval reaches beyond ±{margin:g} and into it")
    if interval.low > 0 or interval.high < 0:
        if (interval.low > 0) == (gap > 0):
            return verdict("direction only", f"differs from {name} as the paper's does")
        return verdict("not reproduced", f"differs from {name} the other way")
    if equivalent:
        return verdict("not reproduced", f"comparable to {name}, the paper's is not")
    return verdict("not tested", "the interval holds both signs")


def judge_quality(
    claim: Claim,
    reference: Claim | None,
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
    *,
    paper_setting: bool,
    lost: str = "",
    unlike: str = "",
) -> Verdict:
    """Judge a quality cell: the number itself in the paper's setting, else its difference to the reference arm.

    In the paper's setting a missed number may still keep its direction. A number that was read from a plot is too
    uncertain to be judged by itself. `lost` says how many runs ended without the number, empty if none did: those that
    are left are a selection, by which no arm is judged. `unlike` says why no difference to the reference arm can be.
    """
    if lost:
        return Verdict("not tested", "all runs of an arm", lost, len(ours))

    def judge_relative(reference: Claim) -> Verdict:
        if unlike:
            return Verdict("not tested", "like with like", unlike, len(ours))
        return judge_difference(claim, reference, ours, theirs)

    if not paper_setting or claim.approximate:
        if reference is None:
            return Verdict("not tested", "sign of the difference", "the paper has no arm to compare with", len(ours))
        return judge_relative(reference)
    level = judge_level(claim, list(ours.values()))
    if level.outcome == "not reproduced" and reference is not None:
        relative = judge_relative(reference)
        if relative.outcome == "direction only":
            return relative
    return level


def judge_time(
    claim: Claim, reference: Claim, ours_s: Sequence[float], theirs_s: Sequence[float], *, paper_setting: bool
) -> Verdict:
    """Judge an arm's time relative to its reference arm's, block by block of one interleaved session.

    Only the ratio is compared with the paper's; both arms must have the same impl and machine. At another size than the
    paper's the ratio is another model's, and only its side of 1 is judged, as is that of times read from a plot.
    """
    rule = "interval of the log-ratio"
    found = log_ratio(ours_s, theirs_s)
    if found.n < MIN_RUNS or found.ratio is None or found.interval is None:
        why = f"{found.n} of at least {MIN_RUNS} blocks" if found.n < MIN_RUNS else found.state
        return Verdict("not tested", rule, why, found.n)
    paper, interval = math.log(claim.value / reference.value), found.interval
    low, high = math.log(interval.low), math.log(interval.high)
    margin = max(NO_DIFFERENCE, min(RATIO_MARGIN, abs(paper) / 2))
    name = reference.label
    exact = paper_setting and not claim.approximate
    if exact and paper - margin <= low and high <= paper + margin:
        return Verdict("reproduced", rule, "close to the paper's ratio", found.n, interval)
    if low > -NO_DIFFERENCE and high < NO_DIFFERENCE:
        return Verdict("not reproduced", rule, f"as fast as {name}", found.n, interval)
    if low > 0 or high < 0:
        if (low > 0) == (paper > 0):
            return Verdict("direction only", rule, f"on the paper's side of {name}", found.n, interval)
        return Verdict("not reproduced", rule, f"on the other side of {name}", found.n, interval)
    return Verdict("not tested", rule, "the interval holds 1", found.n, interval)


def refuse_session(
    reference_s: Sequence[float],
    timed_twice: tuple[Sequence[float], Sequence[float]] | None,
    sentinel_drift: float | None = None,
) -> Verdict | None:
    """Refuse a timing session whose sentinel or reference arm drifted, or whose arm timed twice differs from itself.

    Returns None for a session that can be judged. `reference_s` are the blocks that an arm's are compared with;
    `timed_twice` those of both timings of one arm, the session's noise floor, None if there was none. `sentinel_drift`
    is how much slower work that never changes became, as a share; None if nobody says.
    """
    rule, n = "session", len(reference_s)
    if sentinel_drift is not None and abs(sentinel_drift) > MOST_DRIFT:
        return Verdict("not tested", rule, f"the sentinel drifted by {sentinel_drift:+.1%} over the session", n)
    quarter = max(1, n // 4)
    if n >= MIN_RUNS:
        drift = sum(reference_s[-quarter:]) / sum(reference_s[:quarter]) - 1
        if abs(drift) > MOST_DRIFT:
            return Verdict("not tested", rule, f"the reference drifted by {drift:+.0%} over the session", n)
    if timed_twice is not None and len(timed_twice[0]) == len(timed_twice[1]):
        noise = log_ratio(timed_twice[1], timed_twice[0])
        beyond = noise.ratio is not None and abs(math.log(noise.ratio)) > NO_DIFFERENCE
        if beyond and noise.interval is not None and 1.0 not in noise.interval:
            return Verdict("not tested", rule, "the arm timed twice differs from itself", noise.n, noise.interval)
    return None


def judge_failure(claim: Claim, scores: Mapping[int, float], diverged: int, *, paper_setting: bool) -> Verdict:
    """Judge a model that the paper could not train: the same if every run diverged or scored next to nothing."""
    rule = "every run fails"
    n = len(scores) + diverged
    if n < MIN_RUNS:
        return Verdict("not tested", rule, f"{n} of at least {MIN_RUNS} runs", n)
    worst = FAILURE_SCORE.get(claim.unit.name, 0.0)
    trained = sum(math.isfinite(score) and score > worst for score in scores.values())
    if trained:
        return Verdict("not reproduced", rule, f"{trained} of {n} runs trained", n)
    return Verdict("reproduced" if paper_setting else "direction only", rule, f"all {n} runs failed", n)


def smoke_run(n: int) -> Verdict:
    """Refuse what was only run to see that it runs."""
    return Verdict("not tested", "size", "a smoke run", n)


def judge_fact(claim: Claim, value: float) -> Verdict:
    """Judge a property that holds or does not, measured without chance."""
    same = value == claim.value
    return Verdict("reproduced" if same else "not reproduced", "equal", "measured without chance", 1)


def _refuse(rule: str, values: Sequence[float]) -> Verdict | None:
    found = estimate(values)
    if found.state == "not finite":
        return Verdict("not tested", rule, "a run's value is not finite", found.n)
    if found.n < MIN_RUNS:
        return Verdict("not tested", rule, f"{found.n} of at least {MIN_RUNS} seeds", found.n)
    if found.state != "ok":
        return Verdict("not tested", rule, "all runs gave the same value", found.n)
    return None
