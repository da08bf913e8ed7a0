import math

import numpy as np
import pytest
from scipy import stats

from rmsrepro.report.statistics import (
    difference,
    equivalence_p,
    estimate,
    log_ratio,
    paired_bleu,
    prediction_interval,
)

T_975_2 = 4.302652729911275  # Student's t, 97.5 %, two degrees of freedom


def by_seed(*values):
    return dict(enumerate(values, start=1))


def test_the_interval_is_students_t_over_runs():
    found = estimate([27.1, 27.4, 27.0])
    half = T_975_2 * math.sqrt(0.13 / 3 / 3)
    assert found.n == 3
    assert found.mean == pytest.approx(27.1667, abs=1e-4)
    assert (found.interval.low, found.interval.high) == pytest.approx((27.16667 - half, 27.16667 + half), abs=1e-5)
    assert (round(found.interval.low, 2), round(found.interval.high, 2)) == (26.65, 27.68)


def test_the_deviation_is_the_sample_deviation():
    assert estimate([0.10, 0.12, 0.30]).sd == pytest.approx(0.1102, abs=5e-5)


@pytest.mark.parametrize(
    ("values", "state", "mean"),
    [
        ([], "missing", None),
        ([0.5], "one value", 0.5),
        ([0.1] * 3, "no spread", 0.1),
        ([1.0, math.nan], "not finite", None),
        ([1e308, 1e307, 1e308], "not finite", None),
    ],
)
def test_what_has_no_spread_is_a_state_and_not_a_number(values, state, mean):
    found = estimate(values)
    assert (found.state, found.mean, found.sd, found.interval) == (state, mean, None, None)
    assert found.n == len(values)
    assert prediction_interval(values) is None


def test_the_prediction_interval_is_wider_than_the_means_by_the_root_of_n_plus_one():
    values = [27.1, 27.4, 27.0, 27.3]
    assert prediction_interval(values).half_width == pytest.approx(estimate(values).interval.half_width * math.sqrt(5))


def test_arms_with_the_same_seeds_are_compared_in_pairs():
    a, b = by_seed(10.0, 20.1, 30.0), by_seed(9.0, 19.0, 29.1)
    found = difference(a, b)
    gaps = np.array([1.0, 1.1, 0.9])
    assert found.paired
    assert found.n == 3
    assert found.interval.half_width == pytest.approx(T_975_2 * gaps.std(ddof=1) / math.sqrt(3))


def test_unequal_n_is_compared_by_welch():
    a, b = by_seed(1.0, 2.0, 3.0, 5.0), by_seed(0.5, 0.7, 0.9)
    found = difference(a, b)
    assert not found.paired
    assert found.n == 3
    assert found.p == pytest.approx(stats.ttest_ind(list(a.values()), list(b.values()), equal_var=False).pvalue)
    va, vb = np.var([1, 2, 3, 5], ddof=1) / 4, np.var([0.5, 0.7, 0.9], ddof=1) / 3
    freedom = (va + vb) ** 2 / (va**2 / 3 + vb**2 / 2)
    assert found.interval.half_width == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(va + vb))


@pytest.mark.filterwarnings("error")
def test_an_arm_without_a_spread_beside_one_with_a_spread_is_compared_without_a_warning():
    a, b = by_seed(36.3, 36.3, 36.3), by_seed(1.0, 2.0, 3.0, 5.0)
    assert difference(a, b).interval.half_width == pytest.approx(
        stats.t.ppf(0.975, 3) * np.std(list(b.values()), ddof=1) / 2
    )
    assert equivalence_p(a, b, 0.5) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("a", "b", "state"),
    [
        ((1.0,), (2.0,), "one value"),
        ((1.1, 2.2, 3.3), (1.0, 2.1, 3.2), "no spread"),
        ((math.nan, 1.0, 2.0), (1.0, 2.0, 4.0), "not finite"),
        ((math.inf,) * 3, (1.0, 2.0, 4.0), "not finite"),
        ((), (), "missing"),
    ],
)
def test_a_difference_that_cannot_be_tested_has_a_state_and_no_p_value(a, b, state):
    found = difference(by_seed(*a), by_seed(*b))
    assert (found.state, found.interval, found.p) == (state, None, None)
    assert equivalence_p(by_seed(*a), by_seed(*b), 1.0) is None


def test_equivalence_agrees_with_the_90_per_cent_interval_lying_within_the_margin():
    rng = np.random.default_rng(0)
    for repetition in range(60):
        a, b = by_seed(*rng.normal(0.0, 0.1, 3)), by_seed(*rng.normal(0.3, 0.3, 3))
        if repetition % 2:
            b[9] = 0.2  # a seed that only one arm has: Welch's test
        interval = difference(a, b, level=0.90).interval
        inside = interval.low > -0.5 and interval.high < 0.5
        assert (equivalence_p(a, b, 0.5) < 0.05) == inside


def test_times_compare_by_the_geometric_mean_of_block_ratios():
    found = log_ratio([2.0, 3.0, 4.2], [1.0, 1.5, 2.0])
    assert found.ratio == pytest.approx((2.0 * 2.0 * 2.1) ** (1 / 3))
    assert found.interval.low < found.ratio < found.interval.high
    inverse = log_ratio([1.0, 1.5, 2.0], [2.0, 3.0, 4.2])
    assert inverse.interval.low == pytest.approx(1 / found.interval.high)


def test_blocks_without_a_partner_are_refused():
    with pytest.raises(ValueError, match="2 blocks against 3"):
        log_ratio([1.0, 2.0], [1.0, 2.0, 3.0])


def test_bleu_differences_are_tested_by_sacrebleu_with_its_signature():
    references = ["the cat sat on the mat today", "a dog ran in the park fast"] * 10
    worse = ["the cat sat on a mat today", "the dog ran in park fast"] * 10
    found = paired_bleu(references, ("layernorm", references), [("rmsnorm", worse)], samples=50)
    assert found["scores"]["layernorm"] == {"bleu": pytest.approx(100.0), "p": None}
    assert found["scores"]["rmsnorm"]["bleu"] < 100
    assert found["scores"]["rmsnorm"]["p"] < 0.05
    assert "tok:13a" in found["signature"]


def test_hypotheses_that_do_not_match_the_references_are_refused():
    with pytest.raises(ValueError, match="rmsnorm: 1 hypotheses for 2 references"):
        paired_bleu(["a", "b"], ("layernorm", ["a", "b"]), [("rmsnorm", ["a"])])


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(1)
    n, repetitions = 3, 400
    means, predictions, differences = 0, 0, 0
    for _ in range(repetitions):
        draws = rng.normal(5.0, 1.0, (2, n))
        means += 5.0 in estimate(draws[0].tolist()).interval
        predictions += rng.normal(5.0, 1.0) in prediction_interval(draws[0].tolist())
        differences += 0.0 in difference(by_seed(*draws[0]), by_seed(*draws[1])).interval
    sd = math.sqrt(0.95 * 0.05 / repetitions)
    for hits in (means, predictions, differences):
        assert abs(hits / repetitions - 0.95) < 4 * sd
