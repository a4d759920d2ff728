"""Batch rules against every subset, against `downsample` for one group, and by laws."""

import pickle

import numpy as np
import pytest
import torch

import podsrl
from podsrl.errors import InvalidInputError
from podsrl.rules import resolve_rule
from podsrl.rules.allocation import allocate_rows
from podsrl.rules.batch_rules import contrast_of_best_sets
from podsrl.rules.ordering import sort_groups

SHAPES = [(1, 6), (1, 9), (2, 3), (2, 4), (3, 2), (3, 3), (4, 2), (2, 5)]


def random_batches(each: int):
    """Batches of each shape: binary, graded, repeated, shifted, of two widths, NaN; any `rows`."""
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        size = (each // 5, *shape)
        rewards = np.concatenate(
            [
                rng.integers(0, 2, size).astype(float),
                rng.normal(size=size),
                1e6 + rng.integers(0, 4, size) / 3,
                rng.integers(0, 2, size) * rng.choice([0.0, 0.2, 1.0], (each // 5, shape[0], 1)),
                rng.integers(0, 2, size) + 0.2 * rng.integers(0, 2, size),
            ]
        )
        rewards[::3][rng.random(rewards[::3].shape) < 0.2] = np.nan
        yield rewards, rng.integers(0, shape[0] * shape[1] + 1, len(rewards))


def kept_sums(values_P_N, masks_K_P_N):
    """The sum over the kept cells of each group, for each mask: shape (K, P)."""
    return np.einsum("pn,kpn->kp", values_P_N, masks_K_P_N.astype(float))


def contrast_of_masks(rewards_P_N, masks_K_P_N):
    """sqrt of the kept sum of squares about the mean, over all groups, for each mask: shape (K,).

    The rewards are scaled so that the widest group goes from 0 to 2.
    """
    known = ~np.isnan(rewards_P_N)
    lowest_P = np.nanmin(rewards_P_N, axis=1)
    widest = np.nan_to_num(np.nanmax(rewards_P_N, axis=1) - lowest_P).max()
    scaled = np.nan_to_num(rewards_P_N - lowest_P[:, None])
    scaled /= (widest or 1.0) / 2

    sums = kept_sums(scaled, masks_K_P_N)
    means = sums / np.maximum(kept_sums(known, masks_K_P_N), 1)
    squares_about_mean = kept_sums(scaled**2, masks_K_P_N) - means * sums
    return np.sqrt(np.maximum(squares_about_mean, 0)).sum(axis=1)


def ranks_of_masks(rewards_P_N, masks_K_P_N):
    """What counts, in this order, and the lower the better: shape (K, 4).

    The objective, unscorable rows, scorable rows of groups without contrast, how even their spread
    is.
    """
    known = ~np.isnan(rewards_P_N)
    is_flat_P = ~(np.nanmax(rewards_P_N, axis=1) > np.nanmin(rewards_P_N, axis=1))

    contrast = contrast_of_masks(rewards_P_N, masks_K_P_N)
    unscorable = kept_sums(~known, masks_K_P_N).sum(axis=1)
    scorable_K_P = kept_sums(known, masks_K_P_N)
    fillers = scorable_K_P @ is_flat_P
    unevenness = (scorable_K_P**2).sum(axis=1)
    return np.stack([-np.round(contrast, 7), unscorable, fillers, unevenness], axis=1)


def every_mask(shape):
    """All subsets of the cells of a batch: shape (2^cells, P, N)."""
    cells = shape[0] * shape[1]
    bits = (np.arange(2**cells)[:, None] >> np.arange(cells)) & 1
    return bits.reshape(-1, *shape).astype(bool)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_the_mask_is_the_best_of_all_subsets_on_1000_random_batches():
    judged = 0
    for batches, rows_of_batches in random_batches(128):
        masks = every_mask(batches.shape[1:])
        sizes = masks.sum(axis=(1, 2))
        for rewards, rows in zip(batches, rows_of_batches, strict=True):
            chosen = podsrl.downsample_batch(rewards, int(rows))
            assert chosen.sum() == rows

            candidates = masks[sizes == rows]
            ranks = ranks_of_masks(rewards, candidates)
            best = min(map(tuple, ranks))
            (rank_of_chosen,) = ranks_of_masks(rewards, chosen[None])
            assert tuple(rank_of_chosen) == pytest.approx(best, abs=2e-7)
            judged += 1
    assert judged >= 1000


def groups_of_each_kind(n):
    rng = np.random.default_rng(n)
    binary = rng.integers(0, 2, n) * 1.0
    return [
        rng.normal(size=n),
        binary,
        rng.integers(0, 5, n) / 4,
        np.where(rng.random(n) < 0.3, np.nan, binary),
    ]


@pytest.mark.parametrize("seed", [None, 5, [1, 2]])
@pytest.mark.parametrize("n", [5, 16, 64])
def test_one_group_is_down_sampled_as_by_downsample(n, seed):
    for rewards in groups_of_each_kind(n):
        scorable = ~np.isnan(rewards)
        for m in range(2, n + 1):
            (mask,) = podsrl.downsample_batch(rewards[None], m, seed=seed)
            kept = podsrl.downsample(rewards, m, seed=seed)
            expected = np.isin(np.arange(n), kept)
            assert mask.sum() == m
            assert (mask == expected)[scorable].all()  # of the others neither has an advantage


def test_no_rows_and_no_prompts():
    assert podsrl.downsample_batch(np.ones((3, 4)), 0).sum() == 0
    assert podsrl.downsample_batch(np.zeros((0, 4)), 0).shape == (0, 4)


def test_rows_go_two_to_each_prompt_with_contrast_and_none_to_the_others():
    rewards = np.zeros((6, 8))
    rewards[[0, 2, 3, 5], 4:] = 1
    assert podsrl.downsample_batch(rewards, 8).sum(axis=1).tolist() == [2, 0, 2, 2, 0, 2]
    # 14 rows: 3.5 of each on average, and an odd number of binary rewards is worth less than a half
    shares = podsrl.downsample_batch(rewards, 14, seed=0).sum(axis=1)
    assert sorted(shares.tolist()) == [0, 0, 2, 4, 4, 4]
    for mask in (podsrl.downsample_batch(rewards, 8), podsrl.downsample_batch(rewards, 16)):
        assert rewards[mask].mean() == 0.5


def test_a_batch_with_too_little_contrast_is_filled_evenly_and_with_unscorable_rows_last():
    rewards = [[0.0, 1.0, None, None], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, None]]
    assert [sum(row) for row in podsrl.downsample_batch(rewards, 6)] == [2, 2, 2]
    masks = podsrl.downsample_batch(rewards, 9)
    assert masks == [[True, True, False, False], [True] * 4, [True, True, True, False]]


def test_a_seed_chooses_at_random_between_equal_prompts_and_equal_rollouts():
    rewards = np.tile([0.0, 0.0, 1.0, 1.0], (8, 1))
    masks = np.array([podsrl.downsample_batch(rewards, 4, seed=s) for s in range(800)])
    assert (masks.sum(axis=(1, 2)) == 4).all()
    np.testing.assert_array_equal(masks[7], podsrl.downsample_batch(rewards, 4, seed=7))
    # 4 of 32 equally likely: 100 of 800 each, standard deviation 9.4
    assert abs(masks.sum(axis=0) - 100).max() < 5 * 9.4


def test_shift_and_scale_change_nothing_and_wider_groups_come_first():
    rewards = np.random.default_rng(2).normal(size=(5, 8))
    mask = podsrl.downsample_batch(rewards, 13)
    for changed in (rewards + 1e3, rewards * 1e-6, rewards * 1e250, rewards * 1e-250):
        np.testing.assert_array_equal(podsrl.downsample_batch(changed, 13), mask)
    two = np.array([[0.0, 1.0], [0.0, 3.0]])
    assert podsrl.downsample_batch(two, 2).sum(axis=1).tolist() == [0, 2]


def test_the_kind_of_array_is_kept_and_all_agree():
    rewards = np.random.default_rng(3).integers(0, 3, (6, 8)) / 2
    mask = podsrl.downsample_batch(rewards, 15, seed=3)
    as_torch = podsrl.downsample_batch(torch.tensor(rewards, dtype=torch.bfloat16), 15, seed=3)
    assert mask.dtype == bool
    assert as_torch.dtype == torch.bool
    np.testing.assert_array_equal(as_torch.numpy(), mask)
    assert podsrl.downsample_batch(rewards.tolist(), 15, seed=3) == mask.tolist()


@pytest.mark.parametrize("count", [1024, 1025, 4001])
@pytest.mark.parametrize("values", [2, 5, 1000])
def test_large_batches_reach_the_bound_that_prices_give(values, count):
    # for any price c: sum of worths <= sum over groups of max_j(worth(j) - c j) + c rows
    rng = np.random.default_rng(values)
    rewards = np.floor(rng.random((256, 32)) ** rng.uniform(0.2, 5, (256, 1)) * values)
    worth = contrast_of_best_sets(sort_groups(rewards, None))
    shares = allocate_rows(worth, count)
    assert shares.sum() == count
    reached = worth[np.arange(256), shares].sum()
    j = np.arange(33)
    prices = np.linspace(0.0, 0.4, 401)
    bound = min(((worth - c * j).max(axis=1)).sum() + c * count for c in prices)
    assert reached <= bound + 1e-9
    # at most one pair of rows is lost to whole numbers
    assert reached >= bound - 0.5


# ---- how rows are shared out ---------------------------------------------------------------------

REWARDS = {
    "binary": lambda rng, shape: (rng.random(shape) < rng.random((shape[0], 1))).astype(float),
    "continuous": lambda rng, shape: rng.normal(size=shape),
    "heavy tails": lambda rng, shape: rng.exponential(size=shape) ** 4,
    "four values": lambda rng, shape: rng.integers(0, 4, shape) / 3,
    "three widths": lambda rng, shape: (
        rng.integers(0, 2, shape) * rng.choice([0.0, 0.2, 1.0], (shape[0], 1))
    ),
    "two parts": lambda rng, shape: rng.integers(0, 2, shape) + 0.2 * rng.integers(0, 2, shape),
    "partly scored": lambda rng, shape: np.where(
        rng.random(shape) < 0.3, np.nan, rng.integers(0, 2, shape) * 1.0
    ),
    "all groups alike": lambda rng, shape: np.tile(
        (rng.random(shape[1]) < 0.5).astype(float), (shape[0], 1)
    ),
    "without contrast": lambda rng, shape: np.tile(rng.normal(size=(shape[0], 1)), (1, shape[1])),
}


def best_sum(worth_P_J, rows):
    """The largest sum of worths, by dynamic programming over groups, row by row."""
    best = np.full(rows + 1, -np.inf)
    best[0] = 0.0
    for worth_J in worth_P_J:
        longer = np.full(rows + 1, -np.inf)
        for j, worth in enumerate(worth_J[: rows + 1]):
            longer[j:] = np.maximum(longer[j:], best[: rows + 1 - j] + worth)
        best = longer
    return best[rows]


def sum_of(worth_P_J, share_P):
    return worth_P_J[np.arange(len(share_P)), share_P].sum()


@pytest.mark.slow
@pytest.mark.parametrize("kind", REWARDS)
def test_shares_reach_the_sum_of_dynamic_programming(kind):
    rng = np.random.default_rng(len(kind))
    for _ in range(1200):  # more than 10,000 batches of all kinds
        shape = (int(rng.integers(1, 17)), int(rng.integers(2, 13)))
        rewards = REWARDS[kind](rng, shape)
        rows = int(rng.integers(0, (~np.isnan(rewards)).sum() + 1))
        worth = contrast_of_best_sets(sort_groups(rewards, None))
        shares = allocate_rows(worth, rows)
        assert shares.sum() == rows
        assert sum_of(worth, shares) == pytest.approx(best_sum(worth, rows), abs=1e-11)


@pytest.mark.parametrize("rounded", [False, True])
def test_shares_are_the_best_for_any_worths_at_all(rounded):
    # Worths that rise and fall, so that hardly any share is best at a price, and many must change.
    rng = np.random.default_rng(0)
    for _ in range(300):
        groups = int(rng.integers(1, 12))
        n = int(rng.integers(1, 9))
        worth = rng.normal(size=(groups, n + 1))
        worth = worth.round() if rounded else worth
        rows = int(rng.integers(0, groups * n + 1))
        shares = allocate_rows(worth, rows)
        assert shares.sum() == rows
        assert sum_of(worth, shares) == pytest.approx(best_sum(worth, rows), abs=1e-9)


def test_shares_are_the_best_where_very_many_changes_lose_almost_nothing():
    # Each group is worth its rows, less a little for all shares but 0, 13 and 16. 16s and 13s do
    # not add up to what is missing but in odd combinations, and every change is nearly free.
    rng = np.random.default_rng(1)
    worth = np.arange(17.0) - 1e-6 * rng.random((200, 17))
    worth[:, [0, 13, 16]] = [0.0, 13.0, 16.0]
    for rows in (1, 10, 1601, 1607, 3199):
        shares = allocate_rows(worth, rows)
        assert shares.sum() == rows
        assert sum_of(worth, shares) == pytest.approx(best_sum(worth, rows), abs=1e-11)


def test_a_batch_of_60000_prompts_needs_no_more_than_a_few_times_its_own_memory():
    import tracemalloc

    rewards = np.random.default_rng(0).integers(0, 2, (60_000, 16)).astype(float)
    tracemalloc.start()
    kept = podsrl.downsample_batch(rewards, 4 * 60_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept.sum() == 240_000
    assert peak < 20 * rewards.nbytes


def test_a_residue_of_rounding_is_no_contrast():
    # .1 + .2 is .3 and a bit: no reason to keep that prompt's rows, nor to keep them first.
    residue = [0.1 + 0.2, 0.3]
    equal = [0.3, 0.3]
    real = [0.0, 1.0]
    for groups in ([equal, residue], [residue, equal]):
        assert [sum(kept) for kept in podsrl.downsample_batch(groups, 2)] == [1, 1]  # evenly
    assert podsrl.downsample_batch([residue, real], 2) == [[False, False], [True, True]]
    tiny = [1e-300, 2e-300]  # small, and no residue
    assert podsrl.downsample_batch([[0.0, 0.0], tiny], 2) == [[False, False], [True, True]]


@pytest.mark.parametrize(
    ("rewards", "rows", "says"),
    [
        ([[0.0, 1.0]], 3, "rows = 3 can't be kept of 1 x 2"),
        ([[0.0, 1.0]], -1, "0 <= rows <= 2"),
        ([[0.0, 1.0]], 1.5, "rows must be an integer"),
        ([0.0, 1.0], 1, r"shape \(P, n\); got \(2,\)"),
        ([[0.0, np.inf]], 1, "infinite"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(rewards, rows, says):
    with pytest.raises(InvalidInputError, match=says):
        podsrl.downsample_batch(rewards, rows)


@podsrl.rule(scope="batch")
def first_rows(rewards_P_N, rows, seed):
    """A rule of one's own: the first scorable rows of the batch."""
    places = np.flatnonzero(~np.isnan(rewards_P_N))[:rows]
    return np.isin(np.arange(rewards_P_N.size), places).reshape(rewards_P_N.shape)


def test_a_batch_rule_of_ones_own_goes_by_name_callable_and_file(tmp_path):
    rewards = [[None, 1.0], [0.0, 1.0]]
    expected = [[False, True], [True, False]]
    assert podsrl.downsample_batch(rewards, 2, rule=first_rows) == expected
    podsrl.register_rule("first_rows", first_rows)
    assert podsrl.downsample_batch(rewards, 2, rule="first_rows") == expected
    del podsrl.RULES["first_rows"]
    file = tmp_path / "rules.py"
    file.write_text(
        "import numpy as np\nfrom podsrl import rule\n"
        "@rule(scope='batch')\ndef last(rewards_P_N, rows, seed=None, skip=0):\n"
        "    places = np.flatnonzero(~np.isnan(rewards_P_N))[::-1][skip:rows + skip]\n"
        "    return np.isin(np.arange(rewards_P_N.size), places).reshape(rewards_P_N.shape)\n"
    )
    assert podsrl.downsample_batch(rewards, 1, rule=f"{file}:last") == [[False] * 2, [False, True]]
    skipping = podsrl.downsample_batch(rewards, 1, rule=f"{file}:last(skip=1)")
    assert skipping == [[False, False], [True, False]]
    # an unscorable rollout is added where no other is left, whatever the rule does
    assert podsrl.downsample_batch(rewards, 4, rule=f"{file}:last") == [[True] * 2] * 2


@podsrl.rule(scope="batch", source="this file")
def from_row(rewards_P_N, rows, seed, first=0):
    """A rule of one's own: as many rows from one on."""
    places = np.arange(rewards_P_N.size)
    return ((places >= first) & (places < first + rows)).reshape(rewards_P_N.shape)


@pytest.mark.parametrize("given", ["variance_top_p(p=0.2)", f"{__name__}:from_row(first=2)"])
def test_a_rule_with_arguments_is_sent_to_another_process(given):
    rewards = np.random.default_rng(0).random((4, 4))
    rewards[2] = 0.5  # a group without contrast comes before those beyond p
    made = resolve_rule(given)
    sent = pickle.loads(pickle.dumps(made))

    assert (sent.name, sent.scope, sent.source) == (made.name, made.scope, made.source)
    assert sent.name == given.partition("(")[0].rpartition(":")[2]
    kept = podsrl.downsample_batch(rewards, 6, rule=sent)
    np.testing.assert_array_equal(kept, podsrl.downsample_batch(rewards, 6, rule=given))
    # the argument is still there
    without = podsrl.downsample_batch(rewards, 6, rule=given.partition("(")[0])
    assert (kept != without).any()


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (lambda r: np.ones(r.shape, dtype=bool), r"with 2 true.*got 3"),
        (lambda r: np.zeros((2, 2)), "booleans of shape .*got shape .* of float64"),
        (lambda r: np.isnan(r) | (np.arange(4).reshape(2, 2) == 3), "could not be scored"),
    ],
)
def test_a_batch_rule_that_returns_nonsense_is_named(returned, says):
    @podsrl.rule(scope="batch")
    def nonsense(rewards_P_N, rows, seed):
        return returned(rewards_P_N)

    rewards = [[None, 1.0], [0.0, 1.0]]
    if "got 3" in says:
        rewards[0][0] = 0.5
        says = says.replace("got 3", "got 4")
    with pytest.raises(InvalidInputError, match=f"nonsense.*{says}"):
        podsrl.downsample_batch(rewards, 2, rule=nonsense)


def test_each_kind_of_rule_is_refused_at_the_other_door_and_bad_arguments_are_named():
    with pytest.raises(InvalidInputError, match="'max_contrast' keeps rows across prompts"):
        podsrl.downsample([0.0, 1.0], 1, rule="max_contrast")
    with pytest.raises(InvalidInputError, match="'max_variance' keeps m of each prompt"):
        podsrl.downsample_batch([[0.0, 1.0]], 1, rule="max_variance")
    for rule in ("max_contrast(low=1)", "max_contrast(1)", "max_contrast(low="):
        with pytest.raises(InvalidInputError, match="max_contrast"):
            podsrl.downsample_batch([[0.0, 1.0]], 1, rule=rule)
