"""The published rules against references of their own on 2,000 batches each, and by laws."""

from itertools import combinations

import numpy as np
import pytest

import podsrl

ROWS_ALONE = ["top_advantage", "advantage_variance"]
WHOLE = ["dynamic_sampling", "variance_top_p", "variance_top_p(p=0.5)"]


def batches(number, prompts=4, n=4, seed=0):
    """Binary, graded, repeated, equal and unscorable rewards, and how many rows to keep."""
    rng = np.random.default_rng(seed)
    for turn in range(number):
        shape = (int(rng.integers(1, prompts + 1)), int(rng.integers(2, n + 1)))
        rewards = [
            rng.integers(0, 2, shape) * 1.0,
            rng.normal(size=shape),
            rng.integers(0, 4, shape) / 4 + 1e3,
            np.where(rng.random((shape[0], 1)) < 0.5, 1.0, rng.integers(0, 2, shape)),
        ][turn % 4]
        if turn % 3 == 0:
            rewards[rng.random(shape) < 0.2] = np.nan
        yield rewards, int(rng.integers(0, rewards.size + 1))


def scorable(group):
    return group[~np.isnan(group)]


def advantages(rewards):
    """Relative to the group of all n, in unbiased standard deviations, one rollout at a time."""
    found = np.full(rewards.shape, np.nan)
    for g, i in np.argwhere(~np.isnan(rewards)):
        group = scorable(rewards[g])
        spread = group.std(ddof=1) if len(set(group)) > 1 else 0.0
        found[g, i] = (rewards[g, i] - group.mean()) / spread if spread else 0.0
    return found


@pytest.mark.parametrize("rule", ROWS_ALONE)
def test_no_other_rows_have_more_of_what_the_rule_maximises(rule):
    for rewards, rows in batches(500, prompts=3, n=3):
        kept = podsrl.downsample_batch(rewards, rows, rule)
        assert kept.sum() == rows
        all_of_them = advantages(rewards)
        known = scorable(all_of_them.ravel())
        assert (~np.isnan(rewards[kept])).sum() == min(rows, len(known))
        if 0 < rows <= len(known):
            worth = {"top_advantage": lambda a: np.abs(a).sum(axis=1)}.get(rule, _variances)
            every = np.array(list(combinations(known, rows)))
            mine = worth(all_of_them[kept][None])[0]
            assert mine == pytest.approx(worth(every).max(), abs=1e-7)


def _variances(a):
    return a.var(axis=1)


def in_order(rule, rewards):
    """The groups, in the order in which a rule takes them whole."""
    known = [scorable(group) for group in rewards]
    lowest, highest = np.nanmin(rewards), np.nanmax(rewards)
    unit = [(group - lowest) / ((highest - lowest) or 1.0) for group in known]
    variance = [round(group.var(), 9) if len(group) else 0.0 for group in unit]
    places = range(len(rewards))
    if rule.startswith("variance"):
        share = 0.5 if "0.5" in rule else 0.9
        places = sorted(places, key=lambda g: -variance[g])
        so_far = [sum(variance[h] for h in places[:i]) for i in range(len(places))]
        total = sum(variance)
        chosen = {
            g for g, before in zip(places, so_far, strict=True) if before < share * total - 1e-9
        }
    else:
        chosen = set(places)
    flat = {g for g in places if len(set(known[g])) < 2}
    return sorted(places, key=lambda g: 1 if g in flat else 0 if g in chosen else 2)


@pytest.mark.slow
@pytest.mark.parametrize("rule", WHOLE)
def test_groups_are_kept_whole_and_the_last_one_is_cut_to_its_largest_variance(rule):
    for rewards, rows in batches(400, prompts=6, n=6):
        kept = podsrl.downsample_batch(rewards, rows, rule)
        assert kept.sum() == rows
        left = min(rows, int((~np.isnan(rewards)).sum()))
        if left == 0 or left == (~np.isnan(rewards)).sum():
            continue
        for g in in_order(rule, rewards):
            share = min(left, len(scorable(rewards[g])))
            left -= share
            assert kept[g].sum() == share, (rule, rewards, rows)
            if 0 < share < len(scorable(rewards[g])):
                expected = podsrl.downsample(rewards[g], share)
                assert np.flatnonzero(kept[g]).tolist() == expected.tolist()


def test_balanced_keeps_half_right_ones_and_fills_from_the_other_side():
    rng = np.random.default_rng(1)
    for _ in range(2000):
        n = int(rng.integers(2, 12))
        m = int(rng.integers(1, n + 1))
        rewards = (rng.random(n) < rng.random()) * 1.0
        right = int(rewards.sum())
        kept = rewards[podsrl.downsample(rewards, m, "balanced")]
        most_wrong = min(m - m // 2, n - right)
        expected = min(right, max(m // 2, m - most_wrong))
        assert (len(kept), kept.sum()) == (m, expected)


@pytest.mark.parametrize("rule", ROWS_ALONE + WHOLE)
def test_shift_and_scale_change_nothing(rule):
    for rewards, rows in batches(60, prompts=6, n=6, seed=2):
        same = podsrl.downsample_batch(rewards, rows, rule)
        for changed in (rewards * 4 - 8, rewards * 2.0**-300, rewards * 2.0**300):
            np.testing.assert_array_equal(podsrl.downsample_batch(changed, rows, rule), same)


@pytest.mark.parametrize("rule", ROWS_ALONE + WHOLE)
def test_the_order_of_prompts_and_rollouts_decides_only_between_equal_ones(rule):
    rng = np.random.default_rng(3)
    for _ in range(60):
        rewards = rng.normal(size=(6, 5))  # none is equal to another
        rows = 10
        if rule == "dynamic_sampling":  # the groups inside are taken in their order: ask for all
            whole = [len(rewards[g]) for g in in_order(rule, rewards)]
            rows = sum(whole)
        by_prompt, by_rollout = rng.permutation(6), rng.permutation(5)
        moved = podsrl.downsample_batch(rewards[by_prompt][:, by_rollout], rows, rule)
        kept = podsrl.downsample_batch(rewards, rows, rule)
        np.testing.assert_array_equal(moved, kept[by_prompt][:, by_rollout])


@pytest.mark.parametrize("rule", ROWS_ALONE + WHOLE)
def test_a_seed_decides_between_equal_prompts(rule):
    rewards = np.tile([0.0, 0.0, 1.0, 1.0], (8, 1))
    masks = np.array([podsrl.downsample_batch(rewards, 8, rule, seed=s) for s in range(400)])
    assert (masks.sum(axis=(1, 2)) == 8).all()
    # each of 32 rows is kept in a quarter of the draws: 100 of 400, within 5 deviations of 8.7
    assert abs(masks.sum(axis=0) - 100).max() < 5 * 8.7


def test_lopsided_groups_come_first_by_advantage_and_pairs_by_contrast():
    one_of_8 = [1.0] + [0.0] * 7
    half = [1.0] * 4 + [0.0] * 4
    rewards = [one_of_8, one_of_8, half, half]
    shares = {
        rule: np.sum(podsrl.downsample_batch(rewards, 8, rule), axis=1).tolist()
        for rule in ("top_advantage", "advantage_variance", "max_contrast")
    }
    # 2.5 for the one right answer of 8, 0.94 for each of a half, -0.35 for the seven wrong ones
    assert shares["top_advantage"] == [1, 1, 6, 0]
    assert shares["advantage_variance"] == [1, 1, 4, 2]
    assert shares["max_contrast"] == [2, 2, 2, 2]
