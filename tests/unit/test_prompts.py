"""Prompts chosen by their history: the posterior, the rules, and what they are worth."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.prompts import (
    PROMPT_RULES,
    PromptHistory,
    choose,
    resolve_prompt_rule,
)
from podsrl.prompts.choices import skip, thompson

N = 8


def answers(rates_P: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (rng.random((len(rates_P), N)) < rates_P[:, None]).astype(float)


class Drifting:
    """10,000 prompts whose pass rates wander, a third nearly solved and a third hopeless."""

    def __init__(self, seed: int, prompts: int = 10_000, step: float = 0.02) -> None:
        self.rng, self.step = np.random.default_rng(seed), step
        ends = self.rng.choice([-3.5, 0.0, 3.5], prompts)
        self.logits_D = ends + self.rng.normal(0, 0.7, prompts)

    def rates(self) -> np.ndarray:
        return 1 / (1 + np.exp(-self.logits_D))

    def play(self, rule, generations: int, count: int = 500) -> tuple[PromptHistory, list[float]]:
        """Choose and count; the contrast of what was chosen."""
        history, contrast = PromptHistory.of(len(self.logits_D)), []
        for generation in range(generations):
            chosen = (
                self.rng.choice(len(self.logits_D), count, replace=False)
                if rule is None
                else choose(history, count, rule, [1, generation])
            )
            rewards = answers(self.rates()[chosen], self.rng)
            contrast.append(rewards.std(axis=1).mean())
            history.update(chosen, rewards)
            self.logits_D += self.rng.normal(0, self.step, len(self.logits_D))
        return history, contrast


@pytest.fixture(scope="module")
def uniform() -> list[float]:
    return Drifting(0).play(None, 200)[1]


@pytest.mark.parametrize(("rule", "least"), [("thompson", 1.5), ("skip", 1.25)])
def test_chosen_prompts_have_more_contrast_than_uniform_ones(uniform, rule, least):
    chosen = Drifting(0).play(PROMPT_RULES[rule], 200)[1]
    assert np.mean(chosen[100:]) > least * np.mean(uniform[100:])


@pytest.mark.parametrize("rule", PROMPT_RULES)
def test_no_prompt_starves_in_50_visits_of_each(rule):
    history, _ = Drifting(1, prompts=1_000).play(PROMPT_RULES[rule], 500, count=100)
    assert history.visits_D.mean() == 50
    assert history.visits_D.min() >= 4


@pytest.mark.parametrize("rule", PROMPT_RULES)
def test_the_end_of_a_dataset_is_chosen_as_often_as_its_start(rule):
    history, rng = PromptHistory.of(512), np.random.default_rng(0)
    for generation in range(400):
        chosen = choose(history, 16, PROMPT_RULES[rule], [2, generation])
        history.update(chosen, answers(np.full(16, 0.5), rng))
    visits = history.visits_D.reshape(8, -1).sum(axis=1)
    assert visits.min() > 0.85 * visits.mean()


def test_the_posterior_covers_pass_rates_that_drift():
    world = Drifting(2)
    history, _ = world.play(PROMPT_RULES["thompson"], 300)
    seen = np.flatnonzero((history.visits_D > 1) & (history.seen_D > 250))
    a_D, b_D = history.posterior()
    low, high = stats.beta.ppf([[0.05], [0.95]], a_D[seen], b_D[seen])
    rates = world.rates()[seen]
    assert 0.85 < np.mean((low <= rates) & (rates <= high)) < 0.99
    assert abs(history.rates()[seen].mean() - rates.mean()) < 0.05


def test_a_visit_forgets_as_mopps_does():
    history, a, b = PromptHistory.of(1), 1.0, 1.0
    for right in (3, 0, 8, 5):
        history.update([0], [[1.0] * right + [0.0] * (N - right)], forget=0.3)
        a, b = 0.7 * a + 0.3 + right, 0.7 * b + 0.3 + N - right
        assert np.allclose(history.posterior(), [[a], [b]])


scaled = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))


@given(scaled, st.integers(0, 2**32 - 1))
def test_shifted_and_scaled_rewards_choose_the_same_prompts(by, seed):
    rng = np.random.default_rng(seed)
    rewards = rng.choice([0.0, 0.25, 1.0], (12, N))
    rewards[0, :2] = 0.0, 1.0
    one, other = PromptHistory.of(12), PromptHistory.of(12)
    for history, given_ in ((one, rewards), (other, by[0] + by[1] * rewards)):
        history.update(range(12), given_)
    assert np.allclose(one.rates(), other.rates(), atol=1e-4)
    assert np.allclose(one.spread(), other.spread(), atol=1e-3)
    assert one.flat_D.tolist() == other.flat_D.tolist()


def test_graded_rewards_that_are_all_alike_have_little_spread():
    history = PromptHistory.of(3)
    for _ in range(30):
        history.update([0, 1, 2], [[0.5] * N, [0.0, 1.0] * (N // 2), [0.4, 0.6] * (N // 2)])
    assert history.spread()[1] > 0.99
    assert history.spread()[0] < history.spread()[2] < 0.2
    assert thompson(history, 1, np.random.default_rng(0)) == [1]
    assert history.flat_D.tolist() == [30, 0, 0]


def test_what_could_not_be_scored_teaches_nothing_and_counts_as_a_visit():
    history = PromptHistory.of(2)
    history.update([0, 1], [[np.nan] * 3, [1.0, np.nan, 0.0]])
    assert history.visits_D.tolist() == [1, 1]
    assert history.count_D.tolist() == [0, 2]
    assert history.flat_D.tolist() == [0, 0]


@pytest.mark.parametrize("rule", PROMPT_RULES)
def test_one_prompt_all_solved_and_duplicates_work(rule):
    rule = PROMPT_RULES[rule]
    for prompts, rewards in ((1, [[0.0, 1.0]]), (4, [[1.0, 1.0]] * 4), (4, [[0.0, 1.0]] * 4)):
        history = PromptHistory.of(prompts)
        for _ in range(5):
            history.update(range(prompts), rewards)
            chosen = choose(history, prompts, rule, 0)
            assert sorted(chosen.tolist()) == list(range(prompts))


def test_the_same_history_and_seed_choose_the_same_prompts():
    history = Drifting(3, prompts=100).play(PROMPT_RULES["skip"], 20, count=10)[0]
    again = PromptHistory(**copy.deepcopy(vars(history)))
    for rule in PROMPT_RULES.values():
        assert (choose(history, 10, rule, [7, 1]) == choose(again, 10, rule, [7, 1])).all()
        assert (choose(history, 10, rule, [7, 1]) != choose(history, 10, rule, [7, 2])).any()


def test_a_target_rate_takes_the_prompts_nearest_to_it():
    history = PromptHistory.of(11)
    for _ in range(100):
        history.update(range(11), [[1.0] * k + [0.0] * (10 - k) for k in range(11)], forget=0.0)
    assert sorted(thompson(history, 3, np.random.default_rng(0), target=0.8)) == [7, 8, 9]


def test_skip_comes_back_as_rarely_as_it_says():
    history, turns = PromptHistory.of(40), np.zeros(40)
    flat = np.arange(40) < 20
    for generation in range(2_000):
        chosen = choose(history, 4, skip, [0, generation], floor=0.0)
        turns[chosen] += 1
        history.update(chosen, np.where(flat[chosen, None], [[1.0, 1.0]], [[0.0, 1.0]]))
    assert turns[flat].sum() / turns[~flat].sum() < 0.03
    assert turns[flat].min() >= 1


def test_a_rule_of_ones_own_is_checked():
    assert resolve_prompt_rule("thompson(target=0.3)").keywords == {"target": 0.3}
    with pytest.raises(UnknownNameError, match="did you mean 'thompson'"):
        resolve_prompt_rule("tompson")
    with pytest.raises(InvalidInputError, match=r"must take \(history, count, rng\)"):
        resolve_prompt_rule(lambda history: history)
    for wrong in (lambda h, c, r: [0, 0], lambda h, c, r: [9, 1], lambda h, c, r: [0.5, 1]):
        with pytest.raises(InvalidInputError, match=r"2 different integers in 0\.\.3"):
            choose(PromptHistory.of(4), 2, wrong, 0)
