"""Seeds in several looks: which are trained, when it ends, and what level each look has."""

import pytest

from podslab.engine.looks import Looks, train_in_looks

LOOKS = Looks((2, 4, 8), level=0.05)


def trained(is_decided, has_time, looks=LOOKS):
    seeds = []
    looked = train_in_looks(looks, seeds.extend, is_decided, has_time)
    assert seeds == list(range(looked.seeds))
    return looked


def never(seeds, level):
    return False


def test_all_seeds_are_trained_where_nothing_is_decided():
    looked = trained(never, has_time=lambda seeds: True)
    assert looked.seeds == 8
    # 2/14 and 4/14 of the level were spent before
    assert looked.level == pytest.approx(0.05 * 8 / 14)


def test_a_decision_ends_it_at_the_level_of_its_look():
    looked = trained(lambda seeds, level: seeds == 4, has_time=lambda seeds: True)
    assert (looked.seeds, looked.level) == (4, pytest.approx(0.05 * 4 / 14))


def test_the_last_look_has_all_of_the_level_that_is_left():
    spent = []

    def is_decided(seeds, level):
        spent.append(level)
        return False

    # After two seeds there is time for one more, and then for none.
    times = iter([False, True, False])
    looked = trained(is_decided, has_time=lambda seeds: next(times))
    assert looked.seeds == 3
    assert looked.level + sum(spent) == pytest.approx(0.05)


def test_seeds_that_took_less_time_than_was_planned_leave_room_for_others():
    looked = trained(never, has_time=lambda seeds: len(seeds) <= 1)
    assert looked.seeds == 8


def test_time_is_asked_for_with_the_seeds_that_it_is_for():
    # As after a kill: seeds 2 and 3 were trained before, and there is no time for others.
    looked = trained(never, has_time=lambda seeds: set(seeds) <= {2, 3})
    assert (looked.seeds, looked.level) == (4, pytest.approx(0.05 * 12 / 14))


def test_the_first_look_is_had_even_without_time():
    looked = trained(never, has_time=lambda seeds: False)
    assert (looked.seeds, looked.level) == (2, pytest.approx(0.05))


@pytest.mark.parametrize("seeds", [(3,), (2, 4, 8), (2, 3, 4, 5, 6)])
def test_the_levels_of_all_looks_together_are_the_level_of_the_comparison(seeds):
    looks = Looks(seeds, level=0.1)
    levels = [looks.level_at(number, is_last=number == seeds[-1]) for number in seeds]
    assert sum(levels) == pytest.approx(0.1)
    assert levels == sorted(levels)  # few seeds can decide little, so they spend little
