"""What steps cost, and the choice of prompts, n and m by that and the signal."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from podslab.recommend.advice import advise
from podslab.recommend.choice import grid, splits, why
from podslab.recommend.costs import Batch, Costs, Line, Sizes, Timing
from podslab.recommend.populations import (
    BetaRates,
    KnownRates,
    ResampledRewards,
    parse_pass_rates,
)
from podslab.recommend.signal import MEASURED
from podsrl.errors import InvalidInputError


def test_a_cost_is_a_line_that_never_falls():
    line = Line.through([(64, 2.5), (16, 1.0)])
    assert (line(40), line(128), line(8)) == pytest.approx((1.75, 4.5, 0.75))
    # the line would start below 0, or fall
    assert Line.through([(16, 1.0), (32, 3.0)]).fixed == 0.0
    assert Line.through([(16, 1.0), (32, 0.9)]).each == 0.0
    # what was measured more often counts more
    often = Line.through([(16, 1.0), *[(32, 0.9)] * 9])
    assert 0.9 < often(32) < Line.through([(16, 1.0), (32, 0.9)])(32)
    assert Line.through([(16, 0.0), (32, 0.0)]) == Line(0.0, 0.0)
    for bad in ([], [(0, 1.0)], [(4, -1.0)], [(4, float("nan"))]):
        with pytest.raises(InvalidInputError, match=r"a cost needs seconds >= 0"):
            Line.through(bad)


def timing(rollouts: int, generate: float, update: float = 1.0, tokens: float = 10.0) -> Timing:
    return Timing(rollouts, 16, 16, generate, 0.0, update, tokens)


def test_slow_first_calls_count_little_and_length_is_accounted_for():
    costs = Costs.of_timings(
        [
            timing(64, 99.0, 99.0),
            timing(64, 4.0, 4.0, tokens=20.0),
            timing(16, 9.0, 3.0),
            timing(16, 1.0, 1.0),
        ]
    )
    # a rollout has (10 + 20 + 10 + 10) / 4 = 12.5 tokens
    assert costs.generate(64) == pytest.approx(4.0 * 12.5 / 20)
    assert costs.generate(16) == pytest.approx(1.0 * 12.5 / 10)
    # a token's update took 9.9, 0.2, 0.3 and 0.1 s
    assert costs.update(16) == pytest.approx(0.2 * 12.5)
    assert costs.update(8) == pytest.approx(0.1 * 12.5)
    alone = Costs.of_timings([timing(64, 8.0)])
    assert (alone.generate(16), alone.update(16)) == (2.0, 1.0)
    for bad in ([], [timing(4, 0.0, 0.0)]):
        with pytest.raises(InvalidInputError, match=r"no step was measured|took no time"):
            Costs.of_timings(bad)


def test_one_hiccup_among_a_few_timings_decides_nothing():
    few = [timing(n, 1.0 + n / 16) for n in (16, 32, 64, 128) for _ in range(2)]
    few[2:4] = [timing(32, 6.0), timing(32, 6.5)]  # instead of 3
    assert Costs.of_timings(few).generate(32) == pytest.approx(3.0, rel=0.35)
    assert Costs.of_timings(few[:2] + few[4:]).generate(32) == pytest.approx(3.0)


def test_given_costs_are_those_of_a_step():
    costs = Costs.of_rollouts(generate=0.05, update=0.42, score=0.01)
    assert costs.phases(Sizes(2, 64, 16), passed=32) == pytest.approx(
        {"generate": 6.4, "score": 1.28, "update": 13.44}
    )


EXPENSIVE_UPDATE = Costs.of_rollouts(generate=0.05, update=0.42)
EXPENSIVE_GENERATION = Costs.of_rollouts(generate=0.4, update=0.05)
#: The same, and 3 seconds for a step of any size.
LONG_STEPS = Costs(generate=Line(2.0, 0.05), update=Line(1.0, 0.42))
NOW = Sizes(1, 64, 16)


def test_the_ways_to_spend_rows_are_all_that_divide_them():
    ways = splits(12)
    assert {(one.prompts, one.m) for one in ways} == {(1, 12), (2, 6), (3, 4), (6, 2), (12, 1)}
    assert all(one.rows == 12 and one.n / one.m in (1, 2, 4, 8, 16) for one in ways)
    assert min(one.n for one in ways) == 2
    assert [str(one) for one in splits(16, n=[8, 32], m=[4, 16])] == [
        "4 prompts, 4 -> 4",
        "4 prompts, 8 -> 4",
        "4 prompts, 32 -> 4",
        "1 prompt, 16 -> 16",
        "1 prompt, 32 -> 16",
    ]
    with pytest.raises(InvalidInputError, match="m must divide the 16 rows per step; got 5"):
        splits(16, m=[4, 5])


@pytest.mark.parametrize("rows", [16, 128])
@pytest.mark.parametrize("costs", [EXPENSIVE_UPDATE, EXPENSIVE_GENERATION])
@pytest.mark.parametrize("rates", [(0.02, 0.97), (0.5,), (0.1, 0.3, 0.8)])
def test_what_is_recommended_is_the_best_of_the_grid_by_brute_force(rows, costs, rates):
    def learned(prompts, n, m):
        """Per second, written out anew: every number right of every rate."""
        mean = square = differ = 0.0
        for rate in rates:
            for right in range(n + 1):
                chance = stats.binom.pmf(right, n, rate) / len(rates)
                ends = [min(right, most) for most in range(m + 1) if m - most <= n - right]
                kept = max({e for e in ends if m - e <= n - right}, key=lambda j: j * (m - j))
                share = kept / m
                mean += chance * (share * (1 - share)) ** 0.5
                square += chance * share * (1 - share)
                differ += chance * (0 < kept < m)
        noise = 19.0 * square - mean**2 + 23.0 * differ / m
        # groups of equal reward have no pass, but one row has where all are
        passed = prompts * m * differ + (1 - differ) ** prompts
        seconds = costs.generate(1) * prompts * n + costs.update(1) * passed
        return mean**2 / (mean**2 + noise / prompts) / seconds

    assert (MEASURED.between, MEASURED.within) == (18.0, 23.0)
    now = Sizes(rows // 16, 64, 16)
    advice = advise(KnownRates(rates), costs, now, n=[2, 4, 8, 16, 32], m=[2, 4, 8])
    brute = {
        (rows // m, n, m): learned(rows // m, n, m)
        for m in (2, 4, 8, 16)
        for n in (2, 4, 8, 16, 32)
        if n >= m
    }
    assert {tuple(cell.sizes): cell.per_second for cell in advice.cells} == pytest.approx(brute)
    good = [sizes for sizes, value in brute.items() if value >= 0.95 * max(brute.values())]
    assert tuple(advice.choice.sizes) in good
    assert advice.choice.seconds == pytest.approx(
        min(cell.seconds for cell in advice.cells if tuple(cell.sizes) in good)
    )


def test_rows_are_spent_on_many_prompts_and_few_rows_of_each():
    advice = advise(KnownRates((0.2,)), LONG_STEPS, NOW)
    assert str(advice.choice.sizes) == "16 prompts, 4 -> 1 (the best)"
    assert (
        "times as much per second as GRPO with skip_zero_advantage with 1 prompt, 16 -> 16"
        in advice.reason
    )
    batch = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1}
    best = {"downsampling_rule": "max_reward", "advantage_baseline": "group"}
    assert advice.settings() == {"num_rollouts": 4, "num_generations": 1} | best | batch
    # where many prompts are nearly always right, wrong answers tell as much
    advice = advise(BetaRates(0.5, 0.5), LONG_STEPS, NOW)
    assert str(advice.choice.sizes) == "8 prompts, 4 -> 2"
    kept = {"downsampling_rule": "max_variance", "advantage_baseline": "kept"}
    assert advice.settings() == {"num_rollouts": 4, "num_generations": 2} | kept | batch
    # where a step costs nothing by itself, pairs without passes over equal ones are a selection
    advice = advise(BetaRates(0.5, 0.5), EXPENSIVE_UPDATE, NOW)
    spared = {"num_rollouts": 2, "num_generations": 2, "skip_zero_advantage": True}
    assert advice.settings() == spared | batch


def test_the_unit_of_graded_rewards_changes_nothing():
    draw = np.random.default_rng(0)
    rewards = draw.integers(0, 2, (64, 16)) + 0.1 * draw.integers(0, 2, (64, 16))
    chosen = {
        str(advise(ResampledRewards(rewards * k), LONG_STEPS, NOW).choice.sizes)
        for k in (0.01, 1.0, 100.0)
    }
    assert len(chosen) == 1


def test_what_is_compared_does_not_change_what_dropping_gains_over_the_best_grpo():
    every, ones = (advise(KnownRates((0.5,)), EXPENSIVE_UPDATE, NOW, m=m) for m in ([], [1]))
    assert every.pays is not None
    assert ones.pays is not None
    assert ones.pays.drop == pytest.approx(every.pays.drop)


def test_an_odd_number_of_rows_is_not_one_of_each_prompt_which_the_trainer_refuses():
    assert {sizes.m for sizes in splits(15)} == {15}


def test_where_every_row_has_a_pass_pairs_gain_less():
    spared, every = (
        advise(KnownRates((0.1,)), EXPENSIVE_UPDATE, NOW, batch=Batch(16, spares=spares))
        for spares in (True, False)
    )
    seconds = [
        next(c.seconds for c in advice.cells if (c.sizes.n, c.sizes.m) == (2, 2))
        for advice in (spared, every)
    ]
    assert seconds[0] < seconds[1]
    assert "skip_zero_advantage" not in every.settings()


def test_many_rollouts_pay_where_few_are_right():
    advice = advise(KnownRates((0.01,)), LONG_STEPS, Sizes(1, 16, 16))
    assert advice.choice.sizes == Sizes(16, 16, 1)
    assert advice.relative(advice.choice) == pytest.approx(4.33, abs=0.01)
    assert "no larger n than 16 was compared" in advice.table()
    only = advise(KnownRates((0.01,)), EXPENSIVE_UPDATE, Sizes(1, 16, 16), n=[4, 8], m=[2, 4])
    assert "no larger n than 8 was compared" in only.table()
    assert {cell.sizes.n for cell in only.cells if cell.sizes.m < 4} == {2, 4, 8}


def test_one_who_keeps_the_best_is_compared_with_two_rollouts_of_half_the_prompts():
    now = Sizes(16, 4, 1)
    advice = advise(KnownRates((0.2,)), LONG_STEPS, now, m=[2])
    assert str(advice.plain.sizes) == "8 prompts, 2 -> 2"
    assert {cell.sizes.m for cell in advice.cells} == {1, 2}
    assert advice.choice.sizes == now


def test_where_generating_is_expensive_and_groups_differ_anyway_nothing_is_dropped():
    advice = advise(KnownRates((0.4, 0.6)), EXPENSIVE_GENERATION, NOW, m=[2, 4, 8, 16])
    assert advice.choice.sizes.n == advice.choice.sizes.m
    assert "GRPO itself: more rollouts don't pay here" in advice.reason
    only = grid(KnownRates((0.5,)), EXPENSIVE_GENERATION, splits(16, m=[16]))
    assert "plain GRPO as it is" in why(only, only[0], only[0], "plain GRPO")


def test_one_timed_size_is_taken_as_proportional_and_said():
    costs = Costs.of_timings([timing(16, 0.147, 0.09)])
    assert costs.generate(64) == pytest.approx(4 * 0.147)
    assert Costs.of_timings([timing(16, 1.0), timing(64, 2.0)]).timed_at is None
    table = advise(BetaRates(0.5, 0.5), costs, Sizes(1, 16, 16), m=[4, 16]).table()
    assert "timed at one size, 16 rollouts" in table
    assert "`pods recommend --config FILE` times several" in table


def test_without_any_contrast_there_is_nothing_to_choose_by():
    cells = grid(KnownRates((0.0, 1.0)), EXPENSIVE_UPDATE, splits(16, m=[4]))
    assert "nothing to choose by" in why(cells, cells[0], cells[0], "GRPO")


@pytest.mark.parametrize("now", [Sizes(8, 8, 2), Sizes(16, 4, 1)])
def test_where_all_rewards_are_equal_the_present_sizes_stay_and_nothing_is_set(now):
    advice = advise(KnownRates((0.0,)), EXPENSIVE_UPDATE, now, m=[2])
    assert advice.choice.sizes == now
    assert advice.settings() == {}
    table = advice.table()
    assert f"recommended: {now}, nothing else: all rewards of each prompt are equal" in table
    assert table.count("recommended") == 1
    assert table.count("        —\n") == len(advice.cells)
    assert "nan" not in table
    assert "settings" not in table


def test_a_batch_of_other_rows_keeps_the_memory_of_a_device():
    assert Batch(4, 4, 2).of_rows(32) == Batch(4, 4, 2)
    assert Batch(4, 4, 2).of_rows(64) == Batch(4, 8, 2)
    assert Batch(16).of_rows(24) == Batch(12, 2)
    assert Batch(16).of_rows(8) == Batch(8)
    advice = advise(
        KnownRates((0.5,)), EXPENSIVE_UPDATE, Sizes(2, 64, 16), batch=Batch(2, 8, 2), m=[2, 16]
    )
    assert advice.settings()["per_device_train_batch_size"] == 2
    assert advice.settings()["gradient_accumulation_steps"] == 8


@pytest.mark.parametrize(("rows", "accumulation"), [(16, 1), (4, 4), (2, 8), (1, 16)])
def test_passes_are_spared_as_simulated_micro_batches_are(rows, accumulation):
    random, passed = np.random.default_rng(0), []
    for _ in range(4_000):
        taught = 2 * int((random.random(8) < 0.3).sum())
        left = max(1, -(-taught // accumulation)) * accumulation
        teaches = random.permutation(np.arange(left) < taught).reshape(accumulation, -1).any(axis=1)
        teaches[-1] = True  # has a pass in any case
        passed.append(teaches.sum() * left // accumulation)
    batch = Batch(rows, accumulation)
    assert batch.passed(Sizes(8, 2, 2), 0.3) == pytest.approx(np.mean(passed), rel=0.03)
    assert batch._replace(spares=False).passed(Sizes(8, 2, 2), 0.3) == 16


def test_where_no_pass_can_be_spared_none_is_and_the_setting_is_not_printed():
    whole = advise(KnownRates((0.02,)), EXPENSIVE_UPDATE, NOW, batch=Batch(16, spares=False))
    assert {cell.passed for cell in whole.cells} == {16}
    assert "skip_zero_advantage" not in whole.table()
    assert "plain GRPO" in whole.reason
    assert whole.pays.over == "plain GRPO"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: parse_pass_rates("half"), "give numbers in 0..1 such as"),
        (lambda: parse_pass_rates("0.5,1.5"), r"numbers in 0..1; got \(0.5, 1.5\)"),
        (lambda: parse_pass_rates("beta:1"), "or a Beta distribution"),
        (lambda: parse_pass_rates("beta:0,1"), "above 0"),
        (lambda: Costs.of_rollouts(0.0, 0.0), "at least one phase"),
    ],
)
def test_what_is_not_allowed_is_said(call: Any, says):
    with pytest.raises(InvalidInputError, match=says):
        call()


def test_what_dropping_gains_depends_on_the_cost_of_generating():
    pays = advise(BetaRates(0.5, 0.5), LONG_STEPS, NOW).pays
    assert pays.way == "drop rows"
    assert pays.ratio == pytest.approx((2.0 + 16 * 0.05) / (1.0 + 16 * 0.42))
    assert pays.drop == pytest.approx(1.28, abs=0.01)
    assert "the best GRPO with skip_zero_advantage, predicted: drop rows 1.28" in str(pays)

    expensive = replace(LONG_STEPS, generate=Line(2.0, 1.0))
    assert advise(BetaRates(0.5, 0.5), expensive, NOW).pays.drop < pays.drop


def test_2_grpo_without_idle_passes_needs_no_rows_dropped_where_a_step_itself_costs_nothing():
    pays = advise(BetaRates(0.5, 0.5), EXPENSIVE_UPDATE, NOW).pays
    assert (pays.way, pays.drop) == ("train on all rows", 1.0)
