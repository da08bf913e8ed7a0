"""What a few runs say about a number: estimates, intervals and tests, all numerics from scipy and sacrebleu.

A value is one run (one seed) or one timing block, never a sentence or an image of a test set. Deviations are sample
deviations (divisor n - 1) everywhere. What cannot be computed is a named state, not a number.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

#: Confidence of every interval that is shown.
LEVEL = 0.95
#: A value beyond this, either way, overflowed or is about to: its square is no number.
LARGEST = 1e100

State = Literal["ok", "missing", "one value", "no spread", "not finite"]


@dataclass(frozen=True)
class Interval:
    """A two-sided interval at confidence `level`."""

    low: float
    high: float
    level: float = LEVEL

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def half_width(self) -> float:
        """Return half the distance between the ends."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Estimate:
    """The mean of `n` values; deviation and interval only in the state `ok`."""

    n: int
    state: State
    mean: float | None = None
    sd: float | None = None
    interval: Interval | None = None


@dataclass(frozen=True)
class Difference:
    """The mean difference a - b with its interval and two-sided p value.

    `paired` says that values of the same seed were subtracted; otherwise it is Welch's comparison of two means.
    `n` counts pairs, or the smaller of the two groups.
    """

    n: int
    state: State
    paired: bool
    mean: float | None = None
    interval: Interval | None = None
    p: float | None = None


@dataclass(frozen=True)
class Ratio:
    """The ratio a / b of two times: its geometric mean over blocks with the interval of the log-ratio."""

    n: int
    state: State
    ratio: float | None = None
    interval: Interval | None = None


def is_number(value: float) -> bool:
    """Say whether a value can be computed with and drawn."""
    return abs(value) <= LARGEST


def state_of(values: Sequence[float]) -> State:
    """Say whether a spread can be computed from these values and, if not, why."""
    if len(values) == 0:
        return "missing"
    if not all(map(is_number, values)):
        return "not finite"
    if len(values) == 1:
        return "one value"
    return "no spread" if max(values) == min(values) else "ok"


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """Return the mean with Student's t interval over independent runs."""
    state = state_of(values)
    if state in ("missing", "not finite"):
        return Estimate(len(values), state)
    mean = values[0] if state == "no spread" else float(np.mean(values))
    if state != "ok":
        return Estimate(len(values), state, mean)
    sem = float(stats.sem(values))
    return Estimate(len(values), state, mean, float(np.std(values, ddof=1)), _t(mean, sem, len(values) - 1, level))


def prediction_interval(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Return where one further run would fall, for comparison with a published run that has no spread.

    Student's t with the scale s * sqrt(1 + 1/n); None unless the values have a spread.
    """
    if state_of(values) != "ok":
        return None
    n = len(values)
    scale = float(np.std(values, ddof=1)) * math.sqrt(1.0 + 1.0 / n)
    return _t(float(np.mean(values)), scale, n - 1, level)


def difference(a: Mapping[int, float], b: Mapping[int, float], level: float = LEVEL) -> Difference:
    """Compare two arms given as seed -> value: paired t where the seeds are the same, else Welch's t."""
    x, y, paired = _aligned(a, b)
    n = min(len(x), len(y))
    state: State
    if paired:
        # Differences of equal values leave rounding errors that look like a tiny spread; they are none.
        gaps = [value - other for value, other in zip(x, y, strict=True)]
        state = state_of(gaps)
        if state == "ok" and math.isclose(max(gaps), min(gaps), abs_tol=1e-12):
            state = "no spread"
    else:
        states = (state_of(x), state_of(y))
        order: tuple[State, ...] = ("missing", "not finite", "one value")
        state = next((bad for bad in order if bad in states), "no spread" if states == ("no spread",) * 2 else "ok")
    if state in ("missing", "not finite"):
        return Difference(n, state, paired)
    mean = float(np.mean(x)) - float(np.mean(y))
    if state != "ok":
        return Difference(n, state, paired, mean)
    test = _t_test(x, y, paired=paired)
    bounds = test.confidence_interval(level)
    interval = Interval(float(bounds.low), float(bounds.high), level)
    return Difference(n, state, paired, mean, interval, float(test.pvalue))


def equivalence_p(a: Mapping[int, float], b: Mapping[int, float], margin: float) -> float | None:
    """Return the p value of two one-sided t tests that |mean a - mean b| < `margin`; None without a spread.

    Below 0.05, the two are comparable to within the margin; this is so exactly when the 90 % interval of the
    difference lies within it.
    """
    if margin <= 0:
        raise ValueError(f"margin={margin}: expected a positive number")
    if difference(a, b).state != "ok":
        return None
    x, y, paired = _aligned(a, b)

    above = _t_test(np.asarray(x) + margin, y, paired=paired, alternative="greater")
    below = _t_test(np.asarray(x) - margin, y, paired=paired, alternative="less")
    return max(float(above.pvalue), float(below.pvalue))


def log_ratio(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Ratio:
    """Compare two arms' times, block by block of one interleaved session, by the mean of log(a/b).

    The two must have a block for a block, all positive; a block is one value, however many steps it holds.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} blocks against {len(b)}: times are compared block by block of one session")
    if not all(value > 0 for value in (*a, *b)):
        return Ratio(len(a), "not finite" if len(a) else "missing")
    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    found = estimate(logs, level)
    if found.mean is None:
        return Ratio(found.n, found.state)
    interval = found.interval and Interval(math.exp(found.interval.low), math.exp(found.interval.high), level)
    return Ratio(found.n, found.state, math.exp(found.mean), interval)


def ratio_drift(a: Sequence[float], b: Sequence[float], alpha: float) -> float | None:
    """Return by what share the ratio a/b of two arms' times rose from the first block to the last, by least squares.

    None unless there are three blocks or more, all positive, and the slope of log(a/b) over the blocks is significant
    at `alpha`: single blocks scatter, and interleaving cancels what slows both arms.
    """
    if len(a) != len(b) or len(a) < 3 or not all(value > 0 for value in (*a, *b)):
        return None
    logs = np.log(np.asarray(a) / np.asarray(b))
    fit = stats.linregress(np.arange(len(logs)), logs)
    return math.expm1(fit.slope * (len(logs) - 1)) if fit.pvalue < alpha else None


def paired_bleu(
    references: Sequence[str],
    baseline: tuple[str, Sequence[str]],
    systems: Sequence[tuple[str, Sequence[str]]],
    method: Literal["bs", "ar"] = "bs",
    samples: int = 1000,
    tokenized: bool = False,
) -> dict[str, Any]:
    """Test BLEU differences on one test set with sacrebleu's paired bootstrap (bs) or approximate randomisation (ar).

    Each system is (name, hypotheses): detokenised, or compared as they are if `tokenized`. Returns sacrebleu's
    signature and, per name, score and p value (None for the baseline). The bootstrap's counts one side only: of two
    equal systems it is below 0.05 in about a tenth of the cases. This is the uncertainty of the choice of sentences,
    for one run each; the uncertainty of the seed is another thing, and needs runs.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    for name, lines in (baseline, *systems):
        if len(lines) != len(references):
            raise ValueError(f"{name}: {len(lines)} hypotheses for {len(references)} references")
    named: list[tuple[str, Sequence[str]]] = [(name, list(lines)) for name, lines in (baseline, *systems)]
    metrics: Any = {"BLEU": BLEU(tokenize="none" if tokenized else "13a")}
    test = PairedTest(named, metrics, [list(references)], test_type=method, n_samples=samples)
    signatures, table = test()
    results: list[Any] = list(table["BLEU"])
    scores = {
        # sacrebleu counts resamples that differ by more than the scores, so the same text twice were significant.
        name: {"bleu": float(result.score), "p": 1.0 if index and result.score == results[0].score else result.p_value}
        for index, ((name, _), result) in enumerate(zip(named, results, strict=True))
    }
    return {"signature": str(signatures["BLEU"]), "scores": scores}


def _t(mean: float, scale: float, freedom: int, level: float) -> Interval:
    low, high = stats.t.interval(level, freedom, loc=mean, scale=scale)
    return Interval(float(low), float(high), level)


def _t_test(x: ArrayLike, y: ArrayLike, *, paired: bool, alternative: str = "two-sided") -> Any:
    """Return scipy's paired test, else Welch's."""
    with warnings.catch_warnings():
        # One arm of two without a spread is what Welch's test allows for.
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        if paired:
            return stats.ttest_rel(x, y, alternative=alternative)
        return stats.ttest_ind(x, y, equal_var=False, alternative=alternative)


def _aligned(a: Mapping[int, float], b: Mapping[int, float]) -> tuple[list[float], list[float], bool]:
    if a.keys() == b.keys():
        seeds = sorted(a)
        return [a[seed] for seed in seeds], [b[seed] for seed in seeds], True
    return list(a.values()), list(b.values()), False
