import math
from dataclasses import replace

import numpy as np
import pytest

from rmsrepro.report import verdict
from rmsrepro.report.claims import load_table


def claim(table, arm, column):
    return load_table(table).claims[arm, column]


RMS, LN, NONE = (claim("table10", arm, "test_error") for arm in ("rmsnorm", "layernorm", "baseline"))
RMS_BLEU, LN_BLEU = claim("table2", "rmsnorm", "test14"), claim("table2", "layernorm", "test14")
RMS_TIME, LN_TIME = claim("table2", "rmsnorm", "time"), claim("table2", "layernorm", "time")


def by_seed(*values):
    return dict(enumerate(values, start=1))


def outcome(found):
    return found.outcome


def test_a_number_within_the_prediction_interval_is_reproduced_and_the_verdict_says_by_what():
    found = verdict.judge_level(RMS, [8.7, 8.9, 8.8])
    assert found.outcome == "reproduced"
    assert (found.n, found.rule) == (3, "prediction interval")
    assert 8.83 in found.interval


def test_a_number_outside_the_prediction_interval_is_not_reproduced():
    assert outcome(verdict.judge_level(RMS, [9.9, 10.0, 10.1])) == "not reproduced"


def test_a_number_stands_for_all_that_round_to_it():
    rank = claim("table7", "rmsnorm", "caption_mean_rank")  # 5.3
    assert outcome(verdict.judge_level(rank, [5.334, 5.336, 5.335])) == "reproduced"
    assert outcome(verdict.judge_level(rank, [5.364, 5.366, 5.365])) == "not reproduced"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([8.8, 8.9], "2 of at least 3 seeds"),
        ([], "0 of at least 3 seeds"),
        ([8.83, 8.83, 8.83], "same value"),
        ([8.8, float("nan"), 8.9], "not finite"),
        ([5.0, 9.0, 13.0], "wider than"),
    ],
)
def test_what_cannot_be_judged_is_not_tested(values, reason):
    found = verdict.judge_level(RMS, values)
    assert found.outcome == "not tested"
    assert reason in found.reason


def test_an_interval_that_holds_the_papers_other_arms_too_confirms_nothing():
    found = verdict.judge_level(RMS_BLEU, [21.5, 21.7, 21.9], LN_BLEU)
    assert "wider than ±0.5 BLEU" in found.reason
    # The paper's gap is 0.9, of which half is less than the margin.
    none = claim("table2", "baseline", "test14")
    values = [21.62, 21.7, 21.79]
    assert outcome(verdict.judge_level(none, values)) == "reproduced"
    assert "wider than ±0.45 BLEU" in verdict.judge_level(none, [21.61, 21.7, 21.8], LN_BLEU).reason
    assert outcome(verdict.judge_level(none, [21.63, 21.7, 21.76], LN_BLEU)) == "reproduced"


def test_a_difference_in_the_papers_direction_is_direction_only():
    assert (
        outcome(verdict.judge_difference(RMS, LN, by_seed(30.1, 30.3, 30.0), by_seed(33.0, 33.3, 33.1)))
        == "direction only"
    )


def test_a_difference_the_other_way_is_not_reproduced():
    assert (
        outcome(verdict.judge_difference(RMS, LN, by_seed(33.0, 33.3, 33.1), by_seed(30.1, 30.3, 30.0)))
        == "not reproduced"
    )


def test_comparable_arms_where_the_papers_differ_are_not_reproduced():
    same = verdict.judge_difference(RMS, LN, by_seed(30.1, 30.3, 30.0), by_seed(30.11, 30.28, 30.02))
    # A difference that is sure, and still far below what counts.
    tiny = verdict.judge_difference(RMS, LN, by_seed(30.0, 30.3, 30.1), by_seed(30.05, 30.34, 30.16))
    for found in (same, tiny):
        assert found.outcome == "not reproduced"
        assert "comparable" in found.reason


def test_comparable_quality_needs_equivalence_and_not_merely_no_difference():
    close = verdict.judge_difference(RMS_BLEU, LN_BLEU, by_seed(34.0, 34.2, 34.1), by_seed(34.1, 34.2, 34.15))
    assert close.outcome == "direction only"
    assert "two one-sided" in close.rule
    assert close.interval.level == pytest.approx(0.9)  # which lies within the margin exactly when the tests say so
    noisy = verdict.judge_difference(RMS_BLEU, LN_BLEU, by_seed(30.0, 38.0, 34.0), by_seed(36.0, 31.0, 35.0))
    assert noisy.outcome == "not tested"
    apart = verdict.judge_difference(RMS_BLEU, LN_BLEU, by_seed(30.0, 30.2, 30.1), by_seed(34.1, 34.2, 34.15))
    assert apart.outcome == "not reproduced"


@pytest.mark.parametrize(
    ("ours", "theirs", "reason"),
    [
        ((30.1, 30.3, 30.0), (33.0, 33.3), "LayerNorm: 2 of at least 3 seeds"),
        ((30.1, 30.3), (33.0, 33.3, 33.1), "2 of at least 3 seeds"),
        ((30.1, 30.3, 30.0), (33.0, 33.3, 33.1, 33.2), "3 runs against 4 of LayerNorm"),
        ((30.1, 30.3, 30.0), (33.0, 33.0, 33.0), "same value"),
        ((30.1, 30.3, float("inf")), (33.0, 33.3, 33.1), "not finite"),
        ((30.1, 30.3, 30.0), (), "LayerNorm: 0 of at least 3 seeds"),
    ],
)
def test_a_difference_of_unequal_or_deficient_arms_is_not_tested(ours, theirs, reason):
    found = verdict.judge_difference(RMS, LN, by_seed(*ours), by_seed(*theirs))
    assert found.outcome == "not tested"
    assert reason in found.reason


def test_arms_that_did_not_learn_are_not_comparable_in_quality():
    found = verdict.judge_difference(RMS_BLEU, LN_BLEU, by_seed(0.1, 0.2, 0.15), by_seed(0.12, 0.21, 0.1))
    assert (found.outcome, "LayerNorm did not learn" in found.reason) == ("not tested", True)


def test_a_difference_of_exactly_the_margin_on_paper_counts_as_comparable():
    none, ln = claim("table3", "theano_baseline", "test14"), claim("table3", "theano_layernorm", "test14")
    assert abs(ln.value - none.value) == pytest.approx(0.5)
    assert "two one-sided" in verdict.judge_difference(ln, none, by_seed(1, 2, 4), by_seed(1, 2, 3)).rule


def test_at_another_size_the_best_verdict_is_direction_only():
    ours, theirs = by_seed(8.7, 8.9, 8.8), by_seed(10.4, 10.5, 10.45)
    assert outcome(verdict.judge_quality(RMS, LN, ours, theirs, paper_setting=True)) == "reproduced"
    assert outcome(verdict.judge_quality(RMS, LN, ours, theirs, paper_setting=False)) == "direction only"


def test_a_missed_number_may_still_keep_its_direction():
    ours, theirs = by_seed(7.0, 7.1, 7.05), by_seed(8.9, 9.05, 8.95)
    assert outcome(verdict.judge_quality(RMS, LN, ours, theirs, paper_setting=True)) == "direction only"


def test_a_number_read_from_a_plot_is_not_judged_by_itself():
    approximate = replace(RMS, approximate=True)
    found = verdict.judge_quality(approximate, LN, by_seed(8.7, 8.9, 8.8), {}, paper_setting=True)
    assert found.outcome == "not tested"


def test_arms_that_a_plot_does_not_tell_apart_are_not_judged_by_it():
    rms, ln = claim("figure2", "rmsnorm", "plateau"), claim("figure2", "layernorm", "plateau")
    for ours in ((24.3, 24.4, 24.35), (23.5, 23.56, 23.58)):
        found = verdict.judge_quality(rms, ln, by_seed(*ours), by_seed(23.5, 23.55, 23.6), paper_setting=False)
        assert (found.outcome, "cannot be told from LayerNorm" in found.reason) == ("not tested", True)


def test_in_the_papers_setting_a_number_is_told_from_the_papers_other_arms_too():
    values = by_seed(21.61, 21.7, 21.8)
    none = claim("table2", "baseline", "test14")
    assert verdict.judge_quality(none, LN_BLEU, values, {}, paper_setting=True).outcome == "not tested"


def blocks(ratio, spread=0.005, n=12):
    """Return blocks of an arm and its reference in ms, with the given ratio."""
    rng = np.random.default_rng(0)
    reference = 10.0 * np.exp(rng.normal(0, 0.01, n))
    return (reference * ratio * np.exp(rng.normal(0, spread, n))).tolist(), reference.tolist()


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (501 / 665, "reproduced"),
        (0.80, "reproduced"),
        (0.93, "direction only"),
        (0.50, "direction only"),
        (1.00, "not reproduced"),
        (1.20, "not reproduced"),
    ],
)
def test_a_time_is_judged_by_its_ratio_to_the_reference(ratio, expected):
    assert outcome(verdict.judge_time(RMS_TIME, LN_TIME, *blocks(ratio), paper_setting=True)) == expected


@pytest.mark.parametrize(("ratio", "expected"), [(501 / 665, "direction only"), (1.0, "not reproduced")])
def test_a_ratio_of_another_size_is_judged_by_its_side_only(ratio, expected):
    assert outcome(verdict.judge_time(RMS_TIME, LN_TIME, *blocks(ratio), paper_setting=False)) == expected


def test_times_read_from_a_plot_are_judged_by_their_side_only():
    ln, none = claim("figure1", "layernorm", "minutes"), claim("figure1", "baseline", "minutes")
    assert outcome(verdict.judge_time(ln, none, *blocks(157.0 / 111.8), paper_setting=True)) == "direction only"


def test_no_speed_up_does_not_count_as_a_small_one_reproduced():
    rms, ln = claim("table4", "rmsnorm", "time"), claim("table4", "layernorm", "time")
    assert outcome(verdict.judge_time(rms, ln, *blocks(1.0, spread=0.002), paper_setting=True)) == "not reproduced"
    assert outcome(verdict.judge_time(rms, ln, *blocks(0.94, spread=0.002), paper_setting=True)) == "reproduced"


def test_a_time_ratio_whose_interval_holds_one_is_not_tested():
    assert outcome(verdict.judge_time(RMS_TIME, LN_TIME, *blocks(0.99, spread=0.2), paper_setting=True)) == "not tested"


@pytest.mark.parametrize("n", [15, 300])
def test_a_saving_that_is_no_difference_does_not_become_one_by_more_blocks(n):
    found = verdict.judge_time(RMS_TIME, LN_TIME, *blocks(0.985, spread=0.018, n=n), paper_setting=False)
    assert found.outcome in ("not tested", "not reproduced")


def test_a_saving_within_what_an_arm_differs_from_itself_by_is_not_tested():
    arms = blocks(0.96, spread=0.002)
    assert outcome(verdict.judge_time(RMS_TIME, LN_TIME, *arms, paper_setting=False)) == "direction only"
    found = verdict.judge_time(RMS_TIME, LN_TIME, *arms, paper_setting=False, noise=0.05)
    assert (found.outcome, "differs from itself by, 0.951 to 1.051" in found.reason) == ("not tested", True)
    close = verdict.judge_time(RMS_TIME, LN_TIME, *blocks(501 / 665), paper_setting=True, noise=0.2)
    assert close.outcome == "direction only"  # too noisy a session for the number itself


@pytest.mark.parametrize(
    ("ratio", "small", "paper"), [(1.0, "direction only", "reproduced"), (0.8, *["not reproduced"] * 2)]
)
def test_where_the_papers_times_are_alike_ours_must_be(ratio, small, paper):
    alike = replace(RMS_TIME, value=LN_TIME.value * 0.995)
    arms = blocks(ratio, spread=0.002)
    assert outcome(verdict.judge_time(alike, LN_TIME, *arms, paper_setting=False)) == small
    assert outcome(verdict.judge_time(alike, LN_TIME, *arms, paper_setting=True)) == paper
    # Not where an arm may differ from itself by more.
    arms = blocks(1.0, spread=0.002)
    for claimed in (alike, RMS_TIME):
        found = verdict.judge_time(claimed, LN_TIME, *arms, paper_setting=True, noise=0.03)
        assert found.outcome == "not tested"
    # A paper's ratio that is just beyond no difference is not reproduced by ours that is none.
    near = replace(RMS_TIME, value=LN_TIME.value * 0.968)
    assert outcome(verdict.judge_time(near, LN_TIME, *blocks(0.9826, 0.0002), paper_setting=True)) == "not reproduced"
    # Half of the paper's effect bounds the margin, however small it is.
    little = replace(RMS_TIME, value=LN_TIME.value * 0.974)
    arms = blocks(0.9876, spread=0.0002)
    assert outcome(verdict.judge_time(little, LN_TIME, *arms, paper_setting=True)) == "not reproduced"


def test_blocks_count_and_not_the_steps_in_them():
    found = verdict.judge_time(RMS_TIME, LN_TIME, [7.5, 7.6], [10.0, 10.1], paper_setting=True)
    assert (found.outcome, found.n) == ("not tested", 2)


def test_a_session_that_drifts_or_differs_from_itself_is_refused():
    steady = [10.0, 10.1, 9.9, 10.0, 10.1, 9.9, 10.05, 10.0]
    rising = [10.0, 10.2, 10.4, 10.6, 10.8, 11.0, 11.2, 11.4]
    twice = steady, steady[::-1]
    assert verdict.refuse_session(steady, steady, twice) is None
    assert verdict.refuse_session(rising, rising, twice) is None  # interleaved, so that both became slower alike
    for arms in ((steady, rising), (rising, steady)):
        assert "the ratio drifted by" in verdict.refuse_session(*arms, twice).reason
    assert "sentinel drifted by +5.1%" in verdict.refuse_session(steady, steady, twice, 0.051).reason
    other = [value * 1.05 for value in steady[::-1]]
    assert "differs from itself" in verdict.refuse_session(steady, steady, (steady, other)).reason
    assert "noise is not known" in verdict.refuse_session(steady, steady, None).reason
    alike = [1.5 * value for value in steady]
    assert "timed twice: no spread" in verdict.refuse_session(steady, steady, (steady, alike)).reason


def test_blocks_that_scatter_are_no_drift():
    rng = np.random.default_rng(3)
    sessions = [10 * np.exp(rng.normal(0, 0.05, (2, 6))) for _ in range(100)]
    twice = blocks(1.0)
    refused = sum(verdict.refuse_session(*arms, twice) is not None for arms in sessions)
    assert refused <= 12  # the slope is tested at 5 %


def test_the_noise_of_a_session_is_the_further_end_of_the_interval_of_the_arm_timed_twice():
    first, second = blocks(1.01, spread=0.02)
    found = verdict.noise_of((second, first))
    assert verdict.most_noise(found) == pytest.approx(np.log(found.interval.high))
    assert verdict.noise_of((second, first[1:])) is None
    assert verdict.most_noise(None) == math.inf


def test_a_model_that_the_paper_could_not_train_is_reproduced_by_failing():
    fails = claim("table4", "baseline", "test14")
    assert outcome(verdict.judge_failure(fails, by_seed(0.0, 0.1), diverged=1, paper_setting=True)) == "reproduced"
    assert (
        outcome(verdict.judge_failure(fails, by_seed(0.0, 25.0, 0.1), diverged=0, paper_setting=True))
        == "not reproduced"
    )
    assert outcome(verdict.judge_failure(fails, by_seed(0.0), diverged=1, paper_setting=True)) == "not tested"


def test_a_model_does_not_fail_as_the_papers_where_runs_were_lost_or_nothing_trained():
    def judge(**others):
        return verdict.judge_failure(claim("table4", "baseline", "test14"), {}, 3, paper_setting=True, **others)

    assert judge(lost="5 of 8 runs ran out of memory").outcome == "not tested"
    assert "no run of LayerNorm" in judge(reference=("LayerNorm", [0.2, 0.9])).reason
    assert judge(reference=("LayerNorm", [26.0])).outcome == "reproduced"


def test_every_unit_of_quality_has_a_margin():
    for name in ("table2", "table5", "table7", "table10", "figure1", "figure5"):
        for found in load_table(name).claims.values():
            assert found.unit.is_time or verdict.margin_of(found.unit) > 0


def test_wrong_verdicts_are_as_rare_as_the_level_says():
    # The truth is the paper's own number, with seeds that scatter: a miss is an error of the first kind.
    rng = np.random.default_rng(2)
    repetitions = 200
    runs = rng.normal(RMS.value, 0.15, (repetitions, 3))
    misses = sum(verdict.judge_level(RMS, values.tolist()).outcome == "not reproduced" for values in runs)
    # The paper's number is the mean here, not one more draw, so misses are rarer than 5 %.
    assert misses / repetitions < 0.05
    # The truth is a difference of exactly the margin: calling it comparable is the error of the equivalence test.
    a, b = rng.normal(30.5, 0.2, (repetitions, 3)), rng.normal(30.0, 0.2, (repetitions, 3))
    pairs = zip(a, b, strict=True)
    wrong = sum(
        verdict.judge_difference(RMS_BLEU, LN_BLEU, by_seed(*x), by_seed(*y)).outcome == "direction only"
        for x, y in pairs
    )
    assert wrong / repetitions < 0.05 + 4 * np.sqrt(0.05 * 0.95 / repetitions)
