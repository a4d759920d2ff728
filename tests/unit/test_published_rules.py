"""Batch rules against references of their own on many batches, and by laws that hold for all."""

from itertools import combinations

import numpy as np
import pytest

import podsrl
from podsrl.rules import RULES


def batches(number, prompts=4, n=4, seed=0):
    """Binary, graded, repeated, equal and unscorable rewards, and how many rows to keep."""
    rng = np.random.default_rng(seed)
    for turn in range(number):
        shape = (int(rng.integers(1, prompts + 1)), int(rng.integers(2, n + 1)))
        binary = rng.integers(0, 2, shape) * 1.0
        graded = rng.normal(size=shape)
        repeated = rng.integers(0, 4, shape) / 4 + 1e3
        is_solved = rng.random((shape[0], 1)) < 0.5
        often_equal = np.where(is_solved, 1.0, rng.integers(0, 2, shape))

        rewards = [binary, graded, repeated, often_equal][turn % 4]
        if turn % 3 == 0:
            rewards[rng.random(shape) < 0.2] = np.nan
        yield rewards, int(rng.integers(0, rewards.size + 1))


def scorable(group):
    return group[~np.isnan(group)]


# ---- rules that choose row by row: no other rows have more of what they maximise ----------------


def sums_of_absolutes(advantages_S_K):
    return np.abs(advantages_S_K).sum(axis=1)


def variances(advantages_S_K):
    return advantages_S_K.var(axis=1)


#: What a rule maximises over all sets of rows, by their advantages.
MAXIMISED = {"top_advantage": sums_of_absolutes, "advantage_variance": variances}


def advantages(rewards):
    """Relative to the group of all n, in unbiased standard deviations, one rollout at a time."""
    found = np.full(rewards.shape, np.nan)
    for prompt, rollout in np.argwhere(~np.isnan(rewards)):
        group = scorable(rewards[prompt])
        spread = group.std(ddof=1) if len(set(group)) > 1 else 0.0
        if spread:
            found[prompt, rollout] = (rewards[prompt, rollout] - group.mean()) / spread
        else:
            found[prompt, rollout] = 0.0
    return found


@pytest.mark.parametrize("rule", MAXIMISED)
def test_no_other_rows_have_more_of_what_the_rule_maximises(rule):
    for rewards, rows in batches(500, prompts=3, n=3):
        kept = podsrl.downsample_batch(rewards, rows, rule)
        assert kept.sum() == rows

        every_advantage = advantages(rewards)
        known = scorable(every_advantage.ravel())
        assert (~np.isnan(rewards[kept])).sum() == min(rows, len(known))

        if 0 < rows <= len(known):
            every_set = np.array(list(combinations(known, rows)))
            highest = MAXIMISED[rule](every_set).max()
            ours = MAXIMISED[rule](every_advantage[kept][None])[0]
            assert ours == pytest.approx(highest, abs=1e-7)


# ---- rules that keep groups whole: groups in the order of a reference, the last one cut ---------


def groups_with_spread_in_their_order(groups):
    """DAPO: groups whose rewards differ, then those whose rewards are equal."""
    flat = [group for group in groups if is_flat(groups[group])]
    return [group for group in groups if group not in flat] + flat


def groups_of_the_largest_variance(groups, share):
    """RAGEN-2: by variance, until they hold this share of the total; then flat ones, then the rest.

    Variances are of rewards from 0 to 1.
    """
    every_reward = np.concatenate(list(groups.values()))
    unit = (every_reward.max() - every_reward.min()) or 1.0
    variance = {}
    for group, rewards in groups.items():
        variance[group] = round((rewards / unit).var(), 9) if len(rewards) else 0.0

    chosen = []
    others = []
    flat = []
    so_far = 0.0
    for group in sorted(groups, key=lambda group: -variance[group]):
        is_within_the_share = so_far < share * sum(variance.values()) - 1e-9
        so_far += variance[group]
        if is_flat(groups[group]):
            flat.append(group)
        elif is_within_the_share:
            chosen.append(group)
        else:
            others.append(group)

    return chosen + flat + others


def is_flat(rewards):
    return len(set(rewards)) < 2


#: The order in which a rule takes groups, given the scorable rewards of each by its number.
ORDER_OF_GROUPS = {
    "dynamic_sampling": groups_with_spread_in_their_order,
    "variance_top_p": lambda groups: groups_of_the_largest_variance(groups, 0.9),
    "variance_top_p(p=0.5)": lambda groups: groups_of_the_largest_variance(groups, 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", ORDER_OF_GROUPS)
def test_groups_are_kept_whole_and_the_last_one_is_cut_to_its_largest_variance(rule):
    for rewards, rows in batches(400, prompts=6, n=6):
        kept = podsrl.downsample_batch(rewards, rows, rule)
        assert kept.sum() == rows

        groups = {place: scorable(group) for place, group in enumerate(rewards)}
        number_scorable = sum(map(len, groups.values()))
        if rows == 0 or rows >= number_scorable:
            continue  # there is nothing to choose

        left = rows
        for place in ORDER_OF_GROUPS[rule](groups):
            share = min(left, len(groups[place]))
            left -= share
            assert kept[place].sum() == share, (rule, rewards, rows)
            if 0 < share < len(groups[place]):
                expected = podsrl.downsample(rewards[place], share)
                assert np.flatnonzero(kept[place]).tolist() == expected.tolist()


# ---- laws of all batch rules --------------------------------------------------------------------

#: Every batch rule that there is, and the ones with arguments that have a reference above.
BATCH_RULES = {name for name, rule in RULES.items() if rule.across_prompts} | set(ORDER_OF_GROUPS)


@pytest.mark.parametrize("rule", sorted(BATCH_RULES))
def test_shift_and_scale_change_nothing(rule):
    for rewards, rows in batches(60, prompts=6, n=6, seed=2):
        same = podsrl.downsample_batch(rewards, rows, rule)
        for changed in (rewards * 4 - 8, rewards * 2.0**-300, rewards * 2.0**300):
            np.testing.assert_array_equal(podsrl.downsample_batch(changed, rows, rule), same)


def has_ties(rewards, rows, rule):
    """Whether a seed decides: then some rows are equal in the eyes of the rule."""
    kept = podsrl.downsample_batch(rewards, rows, rule)
    drawn = [podsrl.downsample_batch(rewards, rows, rule, seed=seed) for seed in range(10)]
    return any((mask != kept).any() for mask in drawn)


@pytest.mark.parametrize("rule", sorted(BATCH_RULES))
def test_the_order_of_prompts_and_rollouts_decides_only_between_equal_ones(rule):
    rng = np.random.default_rng(3)
    without_ties = 0
    for turn in range(60):
        rewards = rng.normal(size=(6, 5))
        rows = 10
        if turn % 2:
            # Half of the prompts teach nothing: a rule that only asks which do has no ties, either.
            rewards[3:] = 1.0
            rows = 15

        if has_ties(rewards, rows, rule):
            continue
        without_ties += 1
        by_prompt = rng.permutation(6)
        by_rollout = rng.permutation(5)
        moved = podsrl.downsample_batch(rewards[by_prompt][:, by_rollout], rows, rule)
        kept = podsrl.downsample_batch(rewards, rows, rule)
        np.testing.assert_array_equal(moved, kept[by_prompt][:, by_rollout])
    assert without_ties >= 20


@pytest.mark.parametrize("rule", sorted(BATCH_RULES))
def test_a_seed_decides_between_equal_prompts(rule):
    rewards = np.tile([0.0, 0.0, 1.0, 1.0], (8, 1))
    masks = np.array([podsrl.downsample_batch(rewards, 8, rule, seed=s) for s in range(400)])
    assert (masks.sum(axis=(1, 2)) == 8).all()
    # each of 32 rows is kept in a quarter of the draws: 100 of 400, within 5 deviations of 8.7
    assert abs(masks.sum(axis=0) - 100).max() < 5 * 8.7


# ---- what single rules are for ------------------------------------------------------------------


def test_balanced_keeps_half_right_ones_and_fills_from_the_other_side():
    rng = np.random.default_rng(1)
    for _ in range(2000):
        n = int(rng.integers(2, 12))
        m = int(rng.integers(1, n + 1))
        rewards = (rng.random(n) < rng.random()) * 1.0
        kept = rewards[podsrl.downsample(rewards, m, "balanced")]

        right = int(rewards.sum())
        most_wrong = min(m - m // 2, n - right)
        expected = min(right, max(m // 2, m - most_wrong))
        assert len(kept) == m
        assert kept.sum() == expected


def test_lopsided_groups_come_first_by_advantage_and_pairs_by_contrast():
    one_of_8 = [1.0] + [0.0] * 7
    half = [1.0] * 4 + [0.0] * 4
    rewards = [one_of_8, one_of_8, half, half]

    def rows_of_each(rule):
        return np.sum(podsrl.downsample_batch(rewards, 8, rule), axis=1).tolist()

    # 2.5 for the one right answer of 8, 0.94 for each of a half, -0.35 for the seven wrong ones
    assert rows_of_each("top_advantage") == [1, 1, 6, 0]
    assert rows_of_each("advantage_variance") == [1, 1, 4, 2]
    assert rows_of_each("max_contrast") == [2, 2, 2, 2]
