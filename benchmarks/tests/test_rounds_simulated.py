"""The savings of rounds, by simulation, beside the exact probabilities."""

from math import comb, exp, lgamma

import pytest

from benchmarks.speed.rounds import PASS_RATES, SIZES, share_generated

_ERRORS = 4.0


def probability(right: int, of: int, pass_rate: float | tuple[float, float]) -> float:
    """The probability of so many right rollouts: binomial, or beta-binomial."""
    if not isinstance(pass_rate, tuple):
        return comb(of, right) * pass_rate**right * (1 - pass_rate) ** (of - right)
    a, b = pass_rate
    beta = lgamma(right + a) + lgamma(of - right + b) - lgamma(of + a + b)
    return comb(of, right) * exp(beta - lgamma(a) - lgamma(b) + lgamma(a + b))


def exact_share(n: int, m: int, pass_rate: float | tuple[float, float]) -> float:
    """The first round, and each other one if m/2 right and m/2 wrong ones are not there before."""
    share = 0.0
    for before in range(0, n, m):
        enough = range(m // 2, before - m // 2 + 1)
        decided = sum(probability(right, before, pass_rate) for right in enough)
        share += (1 - decided) * m / n
    return share


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", PASS_RATES)
def test_shares_are_those_of_the_exact_probabilities(size: tuple[int, int], name: str) -> None:
    share, error = share_generated(*size, PASS_RATES[name], groups=5_000, seed=1)
    assert abs(share - exact_share(*size, PASS_RATES[name])) <= _ERRORS * error + 1e-9


def test_a_prompt_that_is_always_right_is_generated_whole() -> None:
    assert share_generated(32, 8, 1.0, groups=10) == (1.0, 0.0)
