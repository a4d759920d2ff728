"""What a run may spend: its units, its prices, and where its measurements fall."""

import pytest

from podslab.engine.budget import Budget, Prices, Spent
from podsrl.errors import InvalidInputError


def test_the_first_limit_that_is_reached_ends_a_run():
    budget = Budget(steps=10, training_seconds=100.0, rollouts=1000)
    assert not budget.is_spent(Spent(9, 99.0, 999))
    assert budget.is_spent(Spent(10, 1.0, 1))
    assert budget.is_spent(Spent(1, 100.0, 1))
    assert budget.is_spent(Spent(1, 1.0, 1000))


@pytest.mark.parametrize(
    ("spent", "points"),
    [
        (Spent(0, 0.0), 0),
        (Spent(1, 0.0, 64, 0), 1),
        (Spent(2, 0.0, 64, 32), 2),
        (Spent(9, 9, 999), 4),
    ],
)
def test_points_of_a_price_count_rollouts_and_rows_that_had_a_pass(spent, points):
    # 0.5 a rollout and 1 a row: 64 rollouts are 32 of 128, and 32 rows as much
    assert Budget(price=128.0, prices=Prices(0.5, 1.0)).points(spent, 4) == points


def test_steps_of_epochs_are_a_limit_where_none_was_given():
    assert Budget().with_steps(7).steps == 7
    assert Budget(steps=3).with_steps(7).steps == 3
    assert Budget().with_steps(-1).steps is None


def test_a_budget_without_limits_is_never_spent():
    assert not Budget().is_spent(Spent(10**6, 1e9, 10**9, 10**9))


@pytest.mark.parametrize("prices", [(-1, 1), (0, 0), (float("nan"), 1)])
def test_prices_that_are_none_are_refused(prices):
    with pytest.raises(InvalidInputError, match="must be 0 or more, and not both 0"):
        Prices(*prices)


def test_a_price_without_prices_is_refused():
    with pytest.raises(InvalidInputError, match="needs the prices"):
        Budget(price=5.0)
