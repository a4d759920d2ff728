"""The formulas for the worth of a step: their groups are those that the rule keeps."""

import pytest

pytest.importorskip("podslab")

import numpy as np

from benchmarks.studies.foretell import Size, expected, formulas, kept_right, main, shares_at_start
from podsrl.selection import Selection, select_groups

GRPO = Size(8, 8, 4)


@pytest.mark.parametrize(("n", "m"), [(8, 8), (16, 4), (32, 8), (9, 4), (4, 2)])
def test_as_many_right_rows_are_kept_as_by_the_rule(n, m):
    rewards = [[1.0] * right + [0.0] * (n - right) for right in range(n + 1)]
    selected = select_groups(Selection(n, m), rewards)
    by_rule = [
        sum(group[place] for place in kept)
        for group, kept in zip(rewards, selected.of_kept, strict=True)
    ]
    assert by_rule == [kept_right(right, Size(n, m, 4)) for right in range(n + 1)]


def test_groups_are_those_of_a_draw():
    shares_P = np.array([0.05, 0.4, 0.9])
    draws_PG = np.random.default_rng(0).binomial(16, shares_P[:, None], size=(3, 20_000))
    size = Size(16, 4, 8)
    q_PG = np.vectorize(lambda right: kept_right(right, size))(draws_PG) / 4

    found = expected(shares_P, size)
    assert found.size == pytest.approx(np.sqrt(q_PG * (1 - q_PG)).mean(), abs=0.01)
    assert found.mixed == pytest.approx(((q_PG > 0) & (q_PG < 1)).mean(), abs=0.01)


def test_the_reference_is_worth_1_and_selection_more_where_right_answers_are_rare():
    rare_P, frequent_P = np.full(3, 0.05), np.full(3, 0.5)
    assert set(formulas(rare_P, GRPO, GRPO).values()) == {1.0}
    rare, frequent = (formulas(shares_P, GRPO, Size(32, 8, 4)) for shares_P in (rare_P, frequent_P))
    assert rare["A"] > rare["B"] == rare["C"] > frequent["A"] > 1


def test_four_times_the_prompts_double_c():
    shares_P = np.array([0.2, 0.6])
    few, many = (formulas(shares_P, GRPO, Size(4, 4, prompts)) for prompts in (4, 16))
    assert many["C"] == pytest.approx(2 * few["C"])
    assert many["B"] == few["B"]


def test_the_command_reads_the_start_of_a_study(capsys):
    main(["sums-83", "8:8:4", "32:8:4"])
    said = capsys.readouterr().out
    assert f"{100 * shares_at_start('sums-83').mean():.1f} % right, of 200 questions" in said
    assert "| 32 → 8, 4 prompts | 1.61 | 1.38 | 1.38 |" in said
