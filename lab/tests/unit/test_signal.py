"""The model of the signal against the real rule, simulation and exact sums."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from podslab.recommend.costs import Sizes
from podslab.recommend.populations import (
    BetaRates,
    KnownRates,
    MeasuredRates,
    ResampledRewards,
    measured,
)
from podslab.recommend.signal import Variances, contrasts
from podsrl import downsample
from podsrl.advantages import group_advantages
from podsrl.errors import InvalidInputError

SIZES = [(n, m) for n in range(1, 13) for m in range(1, n + 1)]
RATES = (0.03, 0.2, 0.5, 0.9)


@pytest.mark.parametrize(("n", "m"), [*SIZES, (64, 16), (64, 15), (16, 16), (128, 2)])
def test_half_of_the_kept_are_right_where_there_are_as_many_right_and_wrong(n, m):
    right = np.arange(n + 1)
    share = np.maximum(m - (n - right), np.minimum(m // 2, right)) / m
    assert contrasts(n, m) == pytest.approx(np.sqrt(share * (1 - share)))


@pytest.mark.parametrize(("n", "m"), [(16, 16), (64, 16), (32, 5)])
@pytest.mark.parametrize("rate", RATES)
def test_the_formula_is_within_1_percent_of_simulation_through_downsample(n, m, rate):
    signal = KnownRates((rate,)).signal(n, m)
    # with so many groups 1 % of the contrast is at least four standard errors of the simulated one
    exact = contrasts(n, m)
    pmf = stats.binom.pmf(np.arange(n + 1), n, rate)
    spread = np.sqrt(pmf @ (exact - pmf @ exact) ** 2)
    groups = max(2000, int(16 * (spread / (0.01 * signal.contrast)) ** 2) + 1)
    random = np.random.default_rng(0)
    total, square, differ = 0.0, 0.0, 0
    for start in range(0, groups, 8192):
        size = min(8192, groups - start)
        rewards = (random.random((size, n)) < rate).astype(float)
        kept = np.take_along_axis(rewards, downsample(rewards, m), -1)
        total += kept.std(-1).sum()
        square += kept.var(-1).sum()
        differ += int((kept.std(-1) > 0).sum())
    assert signal.contrast == pytest.approx(total / groups, rel=0.01)
    assert signal.square == pytest.approx(square / groups, rel=0.03)
    assert signal.chance == pytest.approx(differ / groups, abs=0.02)


def test_the_expected_gradient_is_the_contrast_times_the_difference_of_mean_scores():
    """A softmax over four answers, two of them right: every term of the derivation is computed."""
    logits = np.array([0.3, -0.4, 0.9, -1.0])
    chances = np.exp(logits) / np.exp(logits).sum()
    reward = np.array([1.0, 0.0, 1.0, 0.0])
    scores = np.eye(4) - chances  # grad log pi of each answer
    rate = float(chances @ reward)
    right = chances * reward / rate
    wrong = chances * (1 - reward) / (1 - rate)
    difference = right @ scores - wrong @ scores
    # and the gradient of the pass rate is p (1 - p) times that: the direction is not biased
    np.testing.assert_allclose(
        (chances * reward) @ scores, rate * (1 - rate) * difference, atol=1e-12
    )

    n, m = 12, 4
    groups = 200_000
    random = np.random.default_rng(1)
    answers = random.choice(4, size=(groups, n), p=chances)
    rewards = reward[answers]
    kept = downsample(rewards, m)
    advantages = group_advantages(rewards, kept, eps=0.0)
    kept_scores = scores[np.take_along_axis(answers, kept, -1)]
    gradient = (advantages[..., None] * kept_scores).mean(axis=(0, 1))
    # advantages use the unbiased deviation, sqrt(m / (m - 1)) larger than the kept rewards' own
    contrast = KnownRates((rate,)).signal(n, m).contrast * np.sqrt((m - 1) / m)
    np.testing.assert_allclose(gradient, contrast * difference, atol=0.01 * contrast)


@pytest.mark.parametrize(
    ("sizes", "groups", "within"),
    [
        (Sizes(1, 8, 8), 400_000, 0.01),
        (Sizes(4, 8, 2), 400_000, 0.01),
        (Sizes(16, 6, 2), 400_000, 0.01),
        (Sizes(16, 4, 1), 400_000, 0.03),  # the best one, where the mean of n stands for the rate
        (Sizes(4, 8, 1), 400_000, 0.03),
    ],
    ids=str,
)
def test_what_a_step_is_worth_is_that_of_simulated_gradients(sizes, groups, within):
    """A softmax policy whose prompts push in partly different directions, all terms computed."""
    random = np.random.default_rng(7)
    rates = (0.2, 0.6)
    pushes = 5  # every rate has every push
    answers = 8  # the first four are right
    difference_D = 0.3 * random.normal(size=(pushes, 6)) + np.eye(6)[0]
    own = 0.7 * random.normal(size=(4, 6))
    own -= own.mean(axis=0)  # right and wrong answers differ among themselves alike

    features = np.zeros((len(rates) * pushes, answers, 6))
    chances = np.zeros((len(rates) * pushes, answers))
    for i, (rate, difference) in enumerate(itertools.product(rates, difference_D)):
        features[i, :4] = difference + own
        features[i, 4:] = own
        chances[i, :4] = rate / 4
        chances[i, 4:] = (1 - rate) / 4

    # at weights 0 the score of an answer is its features less their mean
    scores = features - np.einsum("ia,iad->id", chances, features)[:, None]
    shared = difference_D.mean(axis=0)
    variances = Variances(
        between=float((difference_D**2).sum(axis=1).mean() / (shared @ shared) - 1),
        within=float((own**2).sum(axis=1).mean() / (shared @ shared)),
    )

    # Groups of rollouts, drawn from the policy.
    prompts, n, m = sizes
    prompt_G = random.integers(len(chances), size=groups // prompts * prompts)
    drawn = random.random((len(prompt_G), n, 1)) > chances.cumsum(axis=1)[prompt_G][:, None]
    answer_G_N = drawn.sum(axis=2).clip(max=answers - 1)
    rewards = (answer_G_N < 4).astype(float)

    # What is kept of them, with its advantages.
    mask = np.zeros(rewards.shape, dtype=bool)
    rule = "max_reward" if m == 1 else "max_variance"
    np.put_along_axis(mask, downsample(rewards, m, rule, seed=0), True, axis=1)
    everyone = np.broadcast_to(np.arange(n), rewards.shape)
    baseline = rewards if m == 1 else np.where(mask, rewards, np.nan)
    advantages = group_advantages(baseline, everyone, eps=1e-12)

    # The gradients of steps, and the share of their squares that is that of their mean.
    of_rollouts = scores[prompt_G[:, None], answer_G_N]
    group_G_D = np.einsum("gn,gnd->gd", np.where(mask, advantages, 0.0), of_rollouts) / m
    step_S_D = group_G_D.reshape(-1, prompts, 6).mean(axis=1)
    share = (step_S_D.mean(axis=0) ** 2).sum() / (step_S_D**2).sum(axis=1).mean()
    worth = KnownRates(rates).signal(n, m).worth(prompts, variances)
    assert worth == pytest.approx(share, rel=within)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_rewards_that_are_only_seen_give_the_signal_of_the_best_that_rates_give(n):
    drawn = np.random.default_rng(0).random((512, 16)) < np.repeat(RATES, 128)[:, None]
    seen = ResampledRewards(drawn.astype(float).tolist(), "max_reward").signal(n, 1)
    known = MeasuredRates(tuple(drawn.sum(axis=1).tolist()), (16,) * 512).signal(n, 1)
    for name in ("contrast", "chance", "square"):
        assert getattr(seen, name) == pytest.approx(getattr(known, name), rel=0.05), name


def test_more_prompts_are_worth_more_and_in_the_end_all_alike():
    signal = KnownRates((0.1, 0.5)).signal(8, 2)
    worths = [signal.worth(prompts) for prompts in (1, 2, 8, 64, 10**9)]
    assert worths == sorted(worths)
    assert worths[-1] == pytest.approx(1.0, rel=1e-6)
    # little of what a prompt pushes is shared, so at first a second prompt is worth as much
    assert worths[1] == pytest.approx(2 * worths[0], rel=0.02)
    # without noise and between prompts that all push alike, one prompt tells all
    even = KnownRates((0.5,)).signal(1500, 16)
    assert even.worth(1, Variances(0.0, 0.0)) == pytest.approx(1.0)
    assert KnownRates((0.0, 1.0)).signal(8, 2).worth(8) == 0.0


@given(rate=st.floats(0, 1), n=st.integers(2, 80), data=st.data())
def test_laws_of_the_contrast(rate, n, data):
    m = data.draw(st.integers(2, n))
    signal = KnownRates((rate,)).signal(n, m)
    assert -1e-12 <= signal.contrast <= 0.5 + 1e-12
    assert signal.contrast <= 0.5 * signal.chance + 1e-9
    assert signal.contrast**2 <= signal.square + 1e-9  # Cauchy-Schwarz
    # right and wrong may change places
    mirrored = KnownRates((1 - rate,)).signal(n, m)
    assert mirrored.contrast == pytest.approx(signal.contrast, abs=1e-9)
    # more to choose from never lowers it
    more = KnownRates((rate,)).signal(n + 1, m)
    assert more.contrast >= signal.contrast - 1e-9
    # what an even number of kept can show is at least what all show
    if m % 2:
        return
    assert signal.contrast >= KnownRates((rate,)).signal(n, n).contrast - 1e-9


def test_with_all_kept_and_many_rollouts_the_contrast_is_that_of_the_rewards():
    # K / n -> p, so sqrt(q (1 - q)) -> sqrt(0.1 x 0.9) = 0.3
    assert KnownRates((0.1,)).signal(1500, 1500).contrast == pytest.approx(0.3, rel=1e-3)
    # and with few kept of many it is the largest there is
    assert KnownRates((0.1,)).signal(4000, 16).contrast == pytest.approx(0.5, rel=1e-6)


def test_a_population_is_the_mean_over_its_prompts():
    of_each = [KnownRates((rate,)).signal(32, 8).contrast for rate in RATES]
    assert KnownRates(RATES).signal(32, 8).contrast == pytest.approx(np.mean(of_each))
    # Beta(1, 1) is all rates alike
    even = KnownRates(tuple((np.arange(2000) + 0.5) / 2000)).signal(32, 8)
    uniform = BetaRates(1, 1).signal(32, 8)
    assert uniform.contrast == pytest.approx(even.contrast, rel=1e-4)


def test_subsampling_measured_groups_is_unbiased():
    """Averaged over every way that 8 rollouts can fall, it is the truth for each n <= 8."""
    rate, n0 = 0.3, 8
    weights = stats.binom.pmf(np.arange(n0 + 1), n0, rate)
    for n, m in [(8, 4), (5, 3), (4, 4), (2, 2)]:
        estimates = [MeasuredRates((k,), (n0,)).signal(n, m).contrast for k in range(n0 + 1)]
        assert weights @ estimates == pytest.approx(KnownRates((rate,)).signal(n, m).contrast)


def test_groups_are_extended_by_what_a_fitted_beta_predicts():
    random = np.random.default_rng(3)
    rates = random.beta(0.6, 1.4, 20_000)
    right = tuple(random.binomial(16, rates).tolist())
    population = MeasuredRates(right, (16,) * len(right))
    assert population.fitted.a == pytest.approx(0.6, rel=0.05)
    assert population.fitted.b == pytest.approx(1.4, rel=0.05)
    for n, m in [(64, 16), (128, 16), (64, 64)]:
        truth = BetaRates(0.6, 1.4).signal(n, m).contrast
        assert population.signal(n, m).contrast == pytest.approx(truth, rel=0.02)


def test_a_few_groups_all_wrong_are_extended_within_reason():
    hopeless = MeasuredRates((0, 0, 0), (16, 16, 16))
    assert 0.02 < hopeless.signal(64, 16).contrast < 0.3
    assert hopeless.signal(16, 16).contrast == pytest.approx(0.0, abs=1e-12)
    # at the measured size the groups are as they were: nothing seems to jump beyond it
    mixed = MeasuredRates((3, 9, 16), (16, 16, 16))
    assert mixed.signal(17, 8).contrast == pytest.approx(mixed.signal(16, 8).contrast, abs=0.05)


def test_counts_are_probabilities_with_the_right_mean():
    population = MeasuredRates((0, 5, 16, 3), (16, 16, 16, 8))
    for n in (1, 8, 12, 16, 40):
        assert population.counts(n).sum() == pytest.approx(1.0)
    assert population.counts(8) @ np.arange(9) == pytest.approx((0 + 2.5 + 8 + 3) / 4)


def test_resampling_gives_what_the_formula_gives_for_binary_rewards():
    random = np.random.default_rng(5)
    rates = random.beta(1.0, 2.0, 200)
    groups = [(random.random(64) < rate).astype(float).tolist() for rate in rates]
    exact, simulated = measured(groups), ResampledRewards(groups)
    assert isinstance(exact, MeasuredRates)
    for n, m in [(64, 16), (32, 8), (16, 16)]:
        assert simulated.signal(n, m).contrast == pytest.approx(
            exact.signal(n, m).contrast, rel=0.02
        )
        assert simulated.signal(n, m).chance == pytest.approx(exact.signal(n, m).chance, abs=0.02)


def test_rewards_of_any_kind_and_other_rules_are_resampled():
    random = np.random.default_rng(6)
    graded = [random.normal(size=64).tolist() for _ in range(50)]
    population = measured(graded)
    assert isinstance(population, ResampledRewards)
    # 16 of 16 normal rewards deviate by about 1, the two ends of 64 by more; in units of the range
    range_ = np.ptp(graded)
    assert range_ * population.signal(16, 16).contrast == pytest.approx(0.96, abs=0.06)
    assert range_ * population.signal(64, 16).contrast > 1.4
    binary = [(random.random(64) < 0.5).astype(float).tolist() for _ in range(50)]
    by_chance = measured(binary, rule="random")
    assert isinstance(by_chance, ResampledRewards)
    # keeping at random, more rollouts add nothing
    few, many = by_chance.signal(16, 16).contrast, by_chance.signal(64, 16).contrast
    assert many == pytest.approx(few, rel=0.02)


def test_unscorable_rollouts_are_no_evidence():
    nan = float("nan")
    population = measured([[1.0, nan, 0.0, nan], [nan, nan, nan, nan], [1.0, 1.0, 0.0, 0.0]])
    assert isinstance(population, MeasuredRates)
    assert (population.right_G, population.rollouts_G) == ((1, 2), (2, 4))
    with pytest.raises(InvalidInputError, match="no rollout has a reward"):
        measured([[nan, nan]])


def test_the_order_of_groups_and_the_unit_of_the_reward_change_nothing():
    groups = np.array([[0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    reversed_groups = groups[::-1].tolist()
    scaled = (2.5 * groups - 7.0).tolist()
    for n, m in [(4, 2), (8, 4)]:
        expected = measured(groups.tolist()).signal(n, m)
        for same in (reversed_groups, scaled):
            assert measured(same).signal(n, m).contrast == pytest.approx(expected.contrast)
