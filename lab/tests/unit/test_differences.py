"""Paired differences: their intervals, several arms, and what is certain."""

import numpy as np
import pytest
from scipy import stats

from podslab.statistics.differences import BETTER, OPEN, WORSE, difference, holm, verdicts


def test_the_interval_over_seeds_is_students_t():
    draw = np.random.default_rng(0)
    values_S_Q = draw.standard_normal((5, 40)) + 0.3
    found = difference(values_S_Q)
    means_S = values_S_Q.mean(axis=1)
    reach = stats.t.ppf(0.975, 4) * stats.sem(means_S)
    assert found.low == pytest.approx(means_S.mean() - reach)
    assert found.high == pytest.approx(means_S.mean() + reach)
    assert found.p == pytest.approx(stats.ttest_1samp(means_S, 0).pvalue)


def test_the_interval_over_questions_is_wide_where_seeds_agree():
    # Differences of 1, 0, 1, 0 in both seeds: seeds are alike, questions are not.
    found = difference(np.array([[1.0, 0.0, 1.0, 0.0]] * 2))
    assert (found.low, found.mean, found.high) == (0.5, 0.5, 0.5)
    assert found.wide_low < 0.25
    assert found.wide_high > 0.75


def test_answers_that_could_not_be_scored_are_left_out():
    whole = np.array([[0.2, 0.4], [0.3, 0.5]])
    with_gaps = np.array([[0.2, 0.4, np.nan], [0.3, 0.5, np.nan]])
    assert difference(with_gaps) == difference(whole)
    some = np.array([[0.2, np.nan], [0.3, 0.5]])
    assert difference(some).mean == pytest.approx((0.2 + 0.4) / 2)
    assert np.isnan(difference(np.full((2, 3), np.nan)).mean)


def test_one_seed_decides_nothing():
    found = difference(np.ones((1, 50)))
    assert (found.p, found.low, found.high) == (1.0, -np.inf, np.inf)


@pytest.mark.parametrize("p_values", [[0.001, 0.02, 0.03], [0.2, 0.2], [0.04]])
def test_holm_is_no_less_than_p_and_no_more_than_bonferroni(p_values):
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        assert p <= adjusted <= min(1.0, p * len(p_values))


def made_up(lead: float, seed: int = 0, seeds: int = 8) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    noise = {name: 0.05 * draw.standard_normal((seeds, 30)) for name in ("grpo", "pods", "other")}
    return {name: 0.5 + of_arm + lead * (name == "pods") for name, of_arm in noise.items()}


def test_an_arm_that_is_ahead_is_better_and_one_that_is_behind_is_worse():
    for lead, says in ((0.1, BETTER), (-0.1, WORSE), (0.0, OPEN)):
        found = {one.arm: one.says for one in verdicts(made_up(lead), "grpo")}
        assert found == {"pods": says, "other": OPEN}


def test_a_difference_below_the_margin_is_none():
    assert verdicts(made_up(0.05), "grpo")[0].says == BETTER
    assert verdicts(made_up(0.05), "grpo", margin=0.2)[0].says == OPEN


def test_equal_arms_are_rarely_called_different():
    """The level is 0.05 for both arms together; of 200 studies 20 would be 4 deviations more."""
    alarms = 0
    for seed in range(200):
        said = verdicts(made_up(0.0, seed, seeds=4), "grpo")
        alarms += any(one.says != OPEN for one in said)
    assert alarms <= 20
