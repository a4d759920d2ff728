"""A rule may weigh what it keeps: the weights multiply advantages, or the host refuses them."""

import pickle

import numpy as np
import pytest
from test_slime import PROMPTS, M, N, arguments, flat, groups, rewards_of
from test_verl_groups import rows, selection
from test_verl_settings import config

import podsrl
from podsrl.advantages import group_advantages
from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.selection import Selection, select_groups
from podsrl.slime import post_process_rewards, select_rollouts
from podsrl.verl.groups import group_rows, read_selection, select

DRAWN = f"{__file__}:best_and_some"


def is_best(rewards_P_N):
    """True for the first highest reward of each prompt."""
    best_P = np.nan_to_num(rewards_P_N, nan=-np.inf).argmax(-1)
    return np.arange(rewards_P_N.shape[-1]) == best_P[:, None]


def inverse_chances(rewards_P_N, kept_P_N):
    """m/n over the chance of being kept: 1 for the best one, (m - 1)/(n - 1) for each other one."""
    n = rewards_P_N.shape[-1]
    m_P_1 = kept_P_N.sum(-1, keepdims=True)
    return m_P_1 / n * np.where(is_best(rewards_P_N), 1, (n - 1) / np.maximum(m_P_1 - 1, 1))


@podsrl.rule(least_kept=2, weights=inverse_chances)
def best_and_some(rewards_P_N, m, seed):
    """Keeps the best rollout, and m - 1 of the others at random."""
    drawn_P_N = np.random.default_rng(seed).random(rewards_P_N.shape)
    return np.where(is_best(rewards_P_N), -1, drawn_P_N).argsort(-1)[:, :m]


def of_weights(weights, scope="prompt"):
    """A rule that keeps the first rollouts, with these weights."""

    @podsrl.rule(scope=scope, weights=weights)
    def first(rewards_P_N, count, seed):
        if scope == "prompt":
            return np.broadcast_to(np.arange(count), (len(rewards_P_N), count))
        return np.arange(rewards_P_N.size).reshape(rewards_P_N.shape) < count

    return first


# ---- what they do


def test_the_weights_multiply_the_advantages_and_nothing_else():
    rewards = [[0.0, 1.0, 0.0, 5.0], [2.0, 0.0, 1.0, 1.0]]
    by_place = of_weights(lambda rewards_P_N, kept_P_N: np.arange(8).reshape(2, 4))
    for baseline in ("kept", "group"):
        weighed = select_groups(Selection(4, 2, by_place, baseline=baseline), rewards, scale=False)
        plain = select_groups(
            Selection(4, 2, of_weights(None), baseline=baseline), rewards, scale=False
        )
        assert weighed.kept == plain.kept == [[0, 1], [0, 1]]
        expected = np.arange(8).reshape(2, 4) * plain.advantages_P_N
        assert weighed.advantages_P_N == pytest.approx(expected)
        assert list(weighed.with_gradient[0]) == [1]  # of weight 0 the first one teaches nothing


def test_inverse_chances_make_the_mean_over_all_choices_that_of_all_rollouts():
    """With m/n over the chance the sum over m rows is, on average, m/n of the sum over all n."""
    rewards_N = [0.0, 0.3, 1.0, 0.1, 0.7, 0.0]
    choices = 40_000  # prompts with these rewards; each has a choice of its own
    drawn = Selection(6, 3, DRAWN, baseline="group", seed=0)
    chosen = select_groups(drawn, [rewards_N] * choices, scale=False)

    of_all_N = group_advantages(np.array(rewards_N), np.arange(6), scale=False)
    mean_N = chosen.advantages_P_N.mean(axis=0)
    error_N = chosen.advantages_P_N.std(axis=0) / np.sqrt(choices)
    assert np.abs(mean_N - 3 / 6 * of_all_N).max() < 4 * error_N.max()

    # Without weights the best one, which is always kept, counts twice as much as it should.
    unweighed = chosen.kept_P_N.mean(axis=0) * of_all_N
    assert np.abs(unweighed - 3 / 6 * of_all_N).max() > 0.1


def test_where_nothing_is_dropped_no_weights_are_asked_for():
    asked = of_weights(lambda rewards_P_N, kept_P_N: 1 / 0)
    selected = select_groups(Selection(4, 4, asked), [[0.0, 1.0, 0.5, 0.5]])
    plain = select_groups(Selection(4, 4), [[0.0, 1.0, 0.5, 0.5]])
    assert selected.advantages == plain.advantages


def test_the_weights_see_what_the_rule_saw_and_its_arguments(tmp_path):
    seen = []

    def by_power(rewards_P_N, kept_P_N, power=1):
        seen.append((rewards_P_N.tolist(), kept_P_N.tolist(), power))
        return np.full(kept_P_N.shape, 2.0**power)

    @podsrl.rule(weights=by_power)
    def first(rewards_P_N, m, seed, power=1):
        return np.broadcast_to(np.arange(m), (len(rewards_P_N), m))

    podsrl.register_rule("first_by_power", first)
    try:
        parts = [[{"acc": 0.0}, {"acc": 1.0}, {"acc": 0.0}]]
        by_acc = Selection(3, 2, "first_by_power(power=3)", selection_weights={"acc": 1.0})
        selected = select_groups(by_acc, [[5.0, 7.0, 6.0]], parts, scale=False)
        assert selected.advantages == [[-8.0, 8.0]]  # 5 and 7, away from 6, by 2^3
        assert seen == [([[0.0, 1.0, 0.0]], [[True, True, False]], 3)]
    finally:
        del podsrl.RULES["first_by_power"]


def test_a_rule_with_weights_is_sent_to_a_process_by_its_name():
    assert pickle.loads(pickle.dumps(best_and_some)) is best_and_some
    made = podsrl.rules.Rule(np.argsort, weights=inverse_chances)
    assert pickle.loads(pickle.dumps(made)).weights is inverse_chances


# ---- what is refused


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda r, k: [1.0], r"must be numbers of shape \(1, 3\); got shape \(1,\)"),
        (lambda r, k: k, r"must be numbers of shape \(1, 3\); got shape \(1, 3\) of bool"),
        (lambda r, k: -1.0 * k, r"of at least 0 where one is kept; got -1"),
        (lambda r, k: k / 0.0, r"of at least 0 where one is kept; got (inf|nan)"),
        (lambda r, k: 1 / 0, r"the weights of rule .* failed: ZeroDivisionError"),
        (lambda r: r, r"the weights of rule .* failed: TypeError"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_weights_that_are_none_are_refused(given, says):
    selected = select_groups(Selection(3, 2, of_weights(given)), [[0.0, 1.0, 2.0]])
    with pytest.raises(InvalidInputError, match=says):
        selected.advantages_P_N  # noqa: B018


def test_a_weight_of_what_is_dropped_may_be_anything():
    ignored = of_weights(lambda rewards_P_N, kept_P_N: np.where(kept_P_N, 1.0, np.nan))
    selected = select_groups(Selection(3, 2, ignored), [[0.0, 1.0, 2.0]], scale=False)
    assert selected.advantages == [[-0.5, 0.5]]


# ---- hosts


def test_slime_gets_the_weighed_advantages():
    data = groups()
    before = rewards_of(data)
    select_rollouts(arguments({"m": M, "rule": DRAWN, "baseline": "kept", "seed": 3}), data)
    _, processed = post_process_rewards(arguments({"m": M}), flat(data))

    expected = []
    for prompt, group in enumerate(data):
        kept = [sample.index - prompt * N for sample in group]
        rewards_1_N = np.array([before[prompt]])
        kept_1_N = np.isin(np.arange(N), kept)[None]
        advantages = group_advantages(before[prompt], kept, eps=1e-6)
        expected += list(advantages * inverse_chances(rewards_1_N, kept_1_N)[0, kept])
    assert processed == pytest.approx(expected)


def test_slime_refuses_weights_where_it_would_move_advantages_or_take_none():
    given = {"m": M, "rule": DRAWN}
    for changed in (
        {"normalize_advantages": True},
        {"advantage_estimator": "ppo"},
        {"rewards_normalization": False},
    ):
        with pytest.raises(
            UnsupportedError, match="best_and_some', which weighs rows, needs --adv"
        ):
            select_rollouts(arguments(given, **changed), groups())


def test_verl_gets_the_weighed_advantages_of_every_group():
    rewards = {f"{'abc'[p]}_{i}_0": float((p + i) % 3 == 0) for p in range(3) for i in range(8)}
    options = {"rule": DRAWN, "baseline": "group", "seed": 1}
    chosen = select(group_rows(rows(rewards)), selection(8, 4, **options), step=1, scale=False)
    rewards_P_N = np.array(list(rewards.values())).reshape(3, 8)
    weights_P_N = inverse_chances(rewards_P_N, chosen.selected.kept_P_N)
    for key, advantage in chosen.advantages_of_rows().items():
        place = "abc".index(key[0]), int(key.split("_")[1])
        away = rewards[key] - rewards_P_N[place[0]].mean()
        assert advantage == pytest.approx(away * weights_P_N[place])


def test_verl_refuses_weights_where_its_own_estimator_makes_the_advantages():
    given = {"m": 16, "rule": DRAWN}
    for changed in ({"adv_estimator": "rloo"}, {"use_kl_in_reward": True}):
        with pytest.raises(UnsupportedError, match="best_and_some', which weighs rows,"):
            read_selection(config(given, changed), "pods_sync")
    assert not read_selection(config(given), "pods_sync").advantages_sum_to_zero


def test_a_batch_rules_weights_reach_slime(tmp_path):
    rows_kept = PROMPTS * M
    twice = of_weights(lambda rewards_P_N, kept_P_N: np.full(kept_P_N.shape, 2.0), scope="batch")
    podsrl.register_rule("twice", twice)
    podsrl.register_rule("once", of_weights(None, scope="batch"))
    try:
        advantages = {}
        for name in ("twice", "once"):
            data = groups()
            args = arguments({"m": M, "rule": name}, global_batch_size=rows_kept)
            select_rollouts(args, data)
            advantages[name] = np.array(post_process_rewards(args, flat(data))[1])
        assert advantages["twice"] == pytest.approx(2 * advantages["once"])
        assert advantages["once"].any()
    finally:
        del podsrl.RULES["twice"], podsrl.RULES["once"]
