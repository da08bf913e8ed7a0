"""The rules by which a claim counts as reproduced. Every verdict of every table comes from this file.

A verdict names the rule, n and the interval it rests on. Fewer than three runs, a spread that is not there, or an
interval too wide to tell, give "not tested", never a guess. docs/statistics.md explains each rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rmsrepro.report.claims import Claim
from rmsrepro.report.statistics import (
    Interval,
    Ratio,
    difference,
    equivalence_p,
    estimate,
    log_ratio,
    prediction_interval,
    ratio_drift,
)
from rmsrepro.report.units import Unit

Outcome = Literal["reproduced", "direction only", "not reproduced", "not tested"]

#: Runs, or timing blocks, below which nothing is judged.
MIN_RUNS = 3
#: Differences up to the margin count as comparable quality, in the unit's own terms.
MARGINS = {"BLEU": 0.5, "%": 1.0, "fraction": 0.01, "rank": 0.5, "perplexity": 2.0, "nats": 0.1, "1": 0.1}
#: A log-ratio of times this close to the paper's, and closer than half of the paper's own effect, counts as the same.
RATIO_MARGIN = 0.10
#: A log-ratio of times closer to 0 than this is no speed-up, however narrow its interval.
NO_DIFFERENCE = 0.02
#: A session whose fixed work, or the ratio of two of whose arms, changed by this share over it is not judged, and
#: should be repeated.
MOST_DRIFT = 0.05
#: The significance of the two one-sided tests, whose interval has the level 1 - 2 * ALPHA, and of a ratio's drift.
ALPHA = 0.05
#: A score up to this, in the column's unit, is that of a model that did not learn.
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


def judge_level(claim: Claim, values: Sequence[float], reference: Claim | None = None) -> Verdict:
    """Judge a number itself, which the paper gives without a spread, against our prediction interval.

    `values` are our runs' at the paper's size and on the paper's data, in the claim's unit. An interval that holds the
    paper's other arms too confirms nothing: it may not be wider than the margin to either side, nor than half of the
    paper's own difference to the reference arm where that is no comparable one.
    """
    rule = "prediction interval"
    refusal = _refuse(rule, values)
    if refusal:
        return refusal
    interval = prediction_interval(values)
    assert interval is not None
    limit = margin_of(claim.unit)
    if reference is not None and abs(gap := _gap(claim, reference)) > limit:
        limit = min(limit, abs(gap) / 2)
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
    gap, margin = _gap(claim, reference), margin_of(claim.unit)
    comparable = abs(gap) <= margin
    rule = "equivalence (two one-sided tests)" if comparable else "sign of the difference"
    name = reference.label
    refusal = _refuse(rule, list(ours.values())) or _refuse(rule, list(theirs.values()), of=name)
    if refusal:
        return refusal
    if not _learned(claim, theirs.values()):
        return Verdict("not tested", rule, f"{name} did not learn, so nothing can be said beside it", len(ours))
    if len(ours) != len(theirs):
        # Whoever is missing may be missing because it failed.
        return Verdict("not tested", rule, f"{len(ours)} runs against {len(theirs)} of {name}", len(ours))
    found, narrower = difference(ours, theirs), difference(ours, theirs, 1 - 2 * ALPHA)
    if found.interval is None or narrower.interval is None:
        return Verdict("not tested", rule, f"difference to {name}: {found.state}", found.n)
    p = equivalence_p(ours, theirs, margin)
    equivalent = p is not None and p < ALPHA
    # What the two tests say is shown by the interval that they are the same as.
    interval = narrower.interval if comparable or equivalent else found.interval

    def verdict(outcome: Outcome, reason: str) -> Verdict:
        return Verdict(outcome, rule, reason, found.n, interval)

    if comparable:
        if equivalent:
            return verdict("direction only", f"within ±{margin:g} of {name}, as the paper's")
        if interval.low > margin or interval.high < -margin:
            return verdict("not reproduced", f"more than {margin:g} from {name}")
        return verdict("not tested", f"the interval reaches beyond ±{margin:g} and into it")
    if equivalent:
        return verdict("not reproduced", f"comparable to {name}, the paper's is not")
    if interval.low > 0 or interval.high < 0:
        if (interval.low > 0) == (gap > 0):
            return verdict("direction only", f"differs from {name} as the paper's does")
        return verdict("not reproduced", f"differs from {name} the other way")
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
        if claim.approximate and abs(_gap(claim, reference)) <= margin_of(claim.unit):
            alike = f"read from a plot in which it cannot be told from {reference.label}"
            return Verdict("not tested", "sign of the difference", alike, len(ours))
        return judge_difference(claim, reference, ours, theirs)

    if not paper_setting or claim.approximate:
        if reference is None:
            return Verdict("not tested", "sign of the difference", "the paper has no number to compare with", len(ours))
        return judge_relative(reference)
    level = judge_level(claim, list(ours.values()), reference)
    if level.outcome == "not reproduced" and reference is not None:
        relative = judge_relative(reference)
        if relative.outcome == "direction only":
            return relative
    return level


def judge_time(
    claim: Claim,
    reference: Claim,
    ours_s: Sequence[float],
    theirs_s: Sequence[float],
    *,
    paper_setting: bool,
    noise: float = 0.0,
) -> Verdict:
    """Judge an arm's time relative to its reference arm's, block by block of one interleaved session.

    Only the ratio is compared with the paper's; both arms must have the same impl and machine. At another size than the
    paper's the ratio is another model's, and only its side of 1 is judged, as is that of times read from a plot.
    `noise` is the log-ratio up to which the session's arm that was timed twice may differ from itself; an effect must
    be larger.
    """
    rule = "interval of the log-ratio"
    found = log_ratio(ours_s, theirs_s)
    if found.n < MIN_RUNS or found.ratio is None or found.interval is None:
        why = f"{found.n} of at least {MIN_RUNS} blocks" if found.n < MIN_RUNS else found.state
        return Verdict("not tested", rule, why, found.n)
    paper, interval = math.log(claim.value / reference.value), found.interval
    low, high = math.log(interval.low), math.log(interval.high)
    name = reference.label

    def verdict(outcome: Outcome, reason: str) -> Verdict:
        return Verdict(outcome, rule, reason, found.n, interval)

    comparable = abs(paper) <= NO_DIFFERENCE
    margin = NO_DIFFERENCE if comparable else min(RATIO_MARGIN, abs(paper) / 2)
    exact = paper_setting and not claim.approximate and noise <= margin
    if low > -NO_DIFFERENCE and high < NO_DIFFERENCE and noise <= NO_DIFFERENCE:
        if comparable:
            return verdict("reproduced" if exact else "direction only", f"as fast as {name}, as the paper's")
        return verdict("not reproduced", f"as fast as {name}")
    if exact and not comparable and paper - margin <= low and high <= paper + margin:
        return verdict("reproduced", "close to the paper's ratio")
    least = max(NO_DIFFERENCE, noise)
    if low > least or high < -least:
        if comparable:
            return verdict("not reproduced", f"not as fast as {name}, the paper's is")
        if (low > 0) == (paper > 0):
            return verdict("direction only", f"on the paper's side of {name}")
        return verdict("not reproduced", f"on the other side of {name}")
    within = "what an arm differs from itself by" if noise > NO_DIFFERENCE else "what counts as no difference"
    return verdict("not tested", f"the interval reaches into {within}, {math.exp(-least):.3f} to {math.exp(least):.3f}")


def refuse_session(
    ours_s: Sequence[float],
    theirs_s: Sequence[float],
    timed_twice: tuple[Sequence[float], Sequence[float]] | None,
    sentinel_drift: float | None = None,
) -> Verdict | None:
    """Refuse a session whose fixed work or whose arms' ratio drifted, or whose noise nobody knows; else return None.

    `ours_s` and `theirs_s` are the blocks of the two arms that are compared; `timed_twice` those of both timings of one
    arm, None if there was none. `sentinel_drift` is how much slower work that never changes became, as a share; None if
    nobody says.
    """
    rule, n = "session", len(theirs_s)
    if sentinel_drift is not None and abs(sentinel_drift) > MOST_DRIFT:
        return Verdict("not tested", rule, f"the sentinel drifted by {sentinel_drift:+.1%} over the session", n)
    drift = ratio_drift(ours_s, theirs_s, ALPHA)
    if drift is not None and abs(drift) > MOST_DRIFT:
        return Verdict("not tested", rule, f"the ratio drifted by {drift:+.1%} over the session", n)
    found = noise_of(timed_twice)
    if found is None:
        return Verdict("not tested", rule, "no arm was timed twice, so its noise is not known", n)
    if found.ratio is None or found.interval is None:
        return Verdict("not tested", rule, f"the noise of the arm timed twice: {found.state}", found.n)
    if abs(math.log(found.ratio)) > NO_DIFFERENCE and 1.0 not in found.interval:
        return Verdict("not tested", rule, "the arm timed twice differs from itself", found.n, found.interval)
    return None


def noise_of(timed_twice: tuple[Sequence[float], Sequence[float]] | None) -> Ratio | None:
    """Return the ratio of an arm's second timing to its first; None where none was timed twice, block for block."""
    if timed_twice is None or len(timed_twice[0]) != len(timed_twice[1]):
        return None
    return log_ratio(timed_twice[1], timed_twice[0])


def most_noise(found: Ratio | None) -> float:
    """Return the log-ratio, either way, up to which an arm may differ from itself: the further end of its interval."""
    if found is None or found.interval is None:
        return math.inf
    return max(abs(math.log(found.interval.low)), abs(math.log(found.interval.high)))


def judge_failure(
    claim: Claim,
    scores: Mapping[int, float],
    diverged: int,
    *,
    paper_setting: bool,
    lost: str = "",
    reference: tuple[str, Iterable[float]] | None = None,
) -> Verdict:
    """Judge a model that the paper could not train: the same if every run diverged or scored next to nothing.

    `lost` says how many runs ended in another way without a score, empty if none did. `reference` is the label and the
    scores of the arm that the paper could train: where ours did not learn either, the model's failure says nothing.
    """
    rule = "every run fails"
    n = len(scores) + diverged
    if lost:
        return Verdict("not tested", rule, lost, n)
    if n < MIN_RUNS:
        return Verdict("not tested", rule, f"{n} of at least {MIN_RUNS} runs", n)
    trained = sum(_learned(claim, [score]) for score in scores.values())
    if trained:
        return Verdict("not reproduced", rule, f"{trained} of {n} runs trained", n)
    if reference is not None and not _learned(claim, reference[1]):
        return Verdict("not tested", rule, f"no run of {reference[0]} is known to have trained", n)
    return Verdict("reproduced" if paper_setting else "direction only", rule, f"all {n} runs failed", n)


def smoke_run(n: int) -> Verdict:
    """Refuse what was only run to see that it runs."""
    return Verdict("not tested", "size", "a smoke run", n)


def judge_fact(claim: Claim, value: float) -> Verdict:
    """Judge a property that holds or does not, measured without chance."""
    same = value == claim.value
    return Verdict("reproduced" if same else "not reproduced", "equal", "measured without chance", 1)


def _gap(claim: Claim, reference: Claim) -> float:
    """Return the paper's difference between two arms."""
    # Rounded, for 22.3 - 21.8 is a hair more than the 0.5 that it is on paper.
    return round(claim.value - reference.value, 9)


def _learned(claim: Claim, scores: Iterable[float]) -> bool:
    """Tell whether a run among these learned anything, in a unit for which that can be told by its score."""
    worst = FAILURE_SCORE.get(claim.unit.name, -math.inf)
    return any(math.isfinite(score) and score > worst for score in scores)


def _refuse(rule: str, values: Sequence[float], of: str = "") -> Verdict | None:
    """Refuse values that no interval can be made of; `of` names the arm where it is not the judged one."""
    found = estimate(values)
    whose = f"{of}: " if of else ""
    if found.state == "not finite":
        return Verdict("not tested", rule, f"{whose}a run's value is not finite", found.n)
    if found.n < MIN_RUNS:
        return Verdict("not tested", rule, f"{whose}{found.n} of at least {MIN_RUNS} seeds", found.n)
    if found.state != "ok":
        return Verdict("not tested", rule, f"{whose}all runs gave the same value", found.n)
    return None
