"""What docs/theory.md derives of one group, against the real rule and by simulation."""

import numpy as np
import pytest

from podsrl import downsample
from podsrl.advantages import group_advantages

SIZES = [(n, m) for n in range(1, 13) for m in range(1, n + 1)]


def deviations(n, m):
    """The standard deviation of the 0/1 rewards that are kept, by how many of n are right."""
    rewards_K_N = (np.arange(n) < np.arange(n + 1)[:, None]).astype(float)
    return np.take_along_axis(rewards_K_N, downsample(rewards_K_N, m), axis=-1).std(axis=-1)


@pytest.mark.parametrize(("n", "m"), [*SIZES, (64, 16), (64, 15), (16, 16), (128, 2)])
def test_half_of_the_kept_are_right_where_there_are_as_many_right_and_wrong(n, m):
    right = np.arange(n + 1)
    share = np.maximum(m - (n - right), np.minimum(m // 2, right)) / m
    assert deviations(n, m) == pytest.approx(np.sqrt(share * (1 - share)))


@pytest.mark.parametrize(
    ("n", "m", "contrasts"),
    [
        (2, 2, (0.010, 0.090, 0.250)),
        (16, 16, (0.037, 0.256, 0.484)),
        (8, 2, (0.039, 0.285, 0.496)),
        (64, 16, (0.129, 0.468, 0.500)),
    ],
)
def test_the_contrasts_of_the_table_are_those_of_the_formula(n, m, contrasts):
    from math import comb

    for rate, contrast in zip((0.01, 0.1, 0.5), contrasts, strict=True):
        chance_K = [comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]
        assert float(np.dot(chance_K, deviations(n, m))) == pytest.approx(contrast, abs=5e-4)


def test_the_expected_gradient_is_the_contrast_times_the_difference_of_mean_scores():
    """A softmax over four answers, two of them right: every term of the derivation is computed."""
    from math import comb

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
    random = np.random.default_rng(1)
    answers = random.choice(4, size=(200_000, n), p=chances)
    rewards = reward[answers]
    kept = downsample(rewards, m)
    advantages = group_advantages(rewards, kept, eps=0.0)
    kept_scores = scores[np.take_along_axis(answers, kept, -1)]
    gradient = (advantages[..., None] * kept_scores).mean(axis=(0, 1))

    chance_K = [comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]
    # advantages use the unbiased deviation, sqrt(m / (m - 1)) larger than the kept rewards' own
    contrast = float(np.dot(chance_K, deviations(n, m))) * np.sqrt((m - 1) / m)
    np.testing.assert_allclose(gradient, contrast * difference, atol=0.01 * contrast)
