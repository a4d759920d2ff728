"""Signals of the parts of a reward: against simulation through the real rule, and by hand."""

import numpy as np
import pytest

from benchmarks.part_signals import (
    Mixture,
    answer_and_form,
    mixture_signals,
    resampled_signals,
)
from podsrl.advantages import group_advantages
from podsrl.downsampling import downsample
from podsrl.errors import InvalidInputError

WEIGHTS = [1.0, 0.2, 0.0]
BY_ANSWER = [1.0, 0.0, 0.0]


def simulated(mixture, n, m, selection_weights, groups):
    """Mean advantage times part over the kept rollouts, and its standard error."""
    rng = np.random.default_rng(7)
    kind = rng.choice(len(mixture.chances_T), (groups, n), p=mixture.chances_T)
    parts = mixture.parts_T_F[kind]
    rewards = parts @ WEIGHTS
    kept = downsample(parts @ (selection_weights or WEIGHTS), m, seed=1)
    advantages = group_advantages(rewards, kept)
    of_group = (advantages[..., None] * np.take_along_axis(parts, kept[..., None], 1)).mean(axis=1)
    return of_group.mean(axis=0), of_group.std(axis=0) / np.sqrt(groups)


@pytest.mark.parametrize(
    ("right", "paid", "n", "m", "selection_weights"),
    [
        (0.5, "every", 64, 16, None),
        (0.5, "every", 16, 16, None),
        (0.5, "wrong", 64, 16, None),
        (0.5, "wrong", 16, 16, None),
        (0.02, "every", 64, 16, None),
        (0.1, "every", 32, 8, BY_ANSWER),
        (0.1, "wrong", 24, 4, BY_ANSWER),
    ],
)
def test_the_sum_agrees_with_simulation_through_the_rule(right, paid, n, m, selection_weights):
    mixture = answer_and_form(right, 0.3, paid)
    exact = mixture_signals(mixture, n, m, WEIGHTS, selection_weights).signal_F
    found, error = simulated(mixture, n, m, selection_weights, 3_000_000 // (n + 5 * m))
    for expected, mean, deviation in zip(exact, found, error, strict=True):
        # within 1 %, or where the simulation itself is not that sure, within four of its errors
        assert mean == pytest.approx(expected, rel=0.01, abs=max(4 * deviation, 1e-4))


def test_a_small_part_is_amplified_six_times_when_half_are_right_and_30_percent_well_formed():
    mixture = answer_and_form(0.5, 0.3)
    pods = mixture_signals(mixture, 64, 16, WEIGHTS).signal_F[1]
    grpo = mixture_signals(mixture, 16, 16, WEIGHTS).signal_F[1]
    assert pods == pytest.approx(0.47, abs=0.005)
    assert grpo == pytest.approx(0.073, abs=0.001)
    by_answer = mixture_signals(mixture, 64, 16, WEIGHTS, BY_ANSWER).signal_F[1]
    assert by_answer == pytest.approx(grpo, rel=0.05)
    # almost whatever it weighs: most groups have 8 right and well formed, and 8 that are neither
    tiny = mixture_signals(mixture, 64, 16, [1.0, 0.01, 0.0]).signal_F[1]
    assert tiny == pytest.approx(np.sqrt(15 / 16) / 2, rel=0.07)


def test_form_that_is_paid_for_wrong_answers_only_is_amplified_less_and_its_pay_is_not_pushed():
    mixture = answer_and_form(0.5, 0.3, "wrong")
    pods = mixture_signals(mixture, 64, 16, WEIGHTS).signal_F
    grpo = mixture_signals(mixture, 16, 16, WEIGHTS).signal_F
    # kept: 8 right, 30 % of them well formed, and 8 wrong that are not: 0.97 * 0.5 * 0.3
    assert pods[2] == pytest.approx(np.sqrt(15 / 16) * 0.15, rel=0.005)
    assert 3 < pods[2] / grpo[2] < 4
    assert abs(pods[1]) < 1e-3 < 0.09 < -grpo[1]


def test_a_group_without_contrast_of_the_outcome_is_trained_on_shaping_alone():
    mixture = answer_and_form(0.0, 0.3)
    found = mixture_signals(mixture, 64, 16, WEIGHTS)
    assert found.without_outcome == pytest.approx(1.0, abs=1e-6)
    assert found.signal_F[0] == 0
    np.testing.assert_allclose(found.signal_without_outcome_F, found.signal_F, rtol=1e-9)
    hard = [mixture_signals(answer_and_form(0.02, 0.3), n, 16, WEIGHTS) for n in (16, 64)]
    for n, signals in zip((16, 64), hard, strict=True):
        assert signals.without_outcome == pytest.approx(0.98**n, abs=0.005)


def test_measured_groups_that_are_resampled_give_what_the_sum_gives():
    mixture = answer_and_form(0.4, 0.3)
    rng = np.random.default_rng(0)
    kinds = rng.choice(4, (400, 48), p=mixture.chances_T)
    groups = [mixture.parts_T_F[kind] for kind in kinds]
    for selection_weights in (None, BY_ANSWER):
        exact = mixture_signals(mixture, 24, 8, WEIGHTS, selection_weights)
        found = resampled_signals(groups, 24, 8, WEIGHTS, selection_weights, draws=32)
        np.testing.assert_allclose(found.signal_F, exact.signal_F, atol=0.012)
        assert found.without_outcome == pytest.approx(exact.without_outcome, abs=0.005)


def test_random_selection_is_grpo_with_m():
    mixture = answer_and_form(0.5, 0.3)
    random = mixture_signals(mixture, 64, 16, WEIGHTS, rule="random").signal_F
    np.testing.assert_array_equal(random, mixture_signals(mixture, 16, 16, WEIGHTS).signal_F)


def test_bad_input_says_what_is_allowed():
    with pytest.raises(InvalidInputError, match="allowed: every, wrong"):
        answer_and_form(0.5, 0.3, "right")
    with pytest.raises(InvalidInputError, match="sum to 1"):
        Mixture(np.zeros((2, 1)), np.array([0.5, 0.6]))
    with pytest.raises(InvalidInputError, match="must agree"):
        Mixture(np.zeros((2, 1)), np.array([1.0]))
    many = Mixture(np.arange(12.0)[:, None], np.full(12, 1 / 12))
    with pytest.raises(InvalidInputError, match="use resampled_signals"):
        mixture_signals(many, 64, 16, [1.0])
    with pytest.raises(InvalidInputError, match="n <= 8"):
        resampled_signals([np.zeros((8, 1))], 16, 4, [1.0])
