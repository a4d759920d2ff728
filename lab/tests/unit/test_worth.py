"""What a step is worth and costs, found again in curves of which it is known."""

import numpy as np
import pytest

from podslab.statistics.curves import ArmCurves
from podslab.statistics.worth import MOST, Ratio, StepValue, step_value, worth_by_level


def rising(steps):
    """From 20 % to nearly 80 %, as learning curves rise."""
    return 0.2 + 0.6 * (1 - np.exp(-np.asarray(steps, dtype=float) / 60))


def falling_at_the_end(steps):
    """The same, that loses 15 points from step 200 on to step 400."""
    return rising(steps) - 0.15 * np.clip(np.asarray(steps, dtype=float) - 200, 0, 200) / 200


def arm(curve, *, stretch=1.0, steps=240, seconds=1.0, runs=8, points=13, noise=0.0, seed=0):
    """Runs of an arm of which one step is worth `stretch` steps of `curve`, and takes `seconds`.

    With noise each run learns at a speed of its own, and each measurement is off by a tenth of it.
    """
    draw = np.random.default_rng(seed)
    steps_T = np.linspace(0, steps, points)
    accuracy = []
    for _ in range(runs):
        speed = stretch * np.exp(noise * draw.normal())
        accuracy.append(curve(speed * steps_T) + 0.1 * noise * draw.normal(size=points))
    steps_S_T = np.tile(steps_T, (runs, 1))
    unknown = np.full((runs, points), np.nan)
    return ArmCurves(
        arm="pods" if stretch != 1 else "grpo",
        seeds=tuple(range(runs)),
        steps=steps_S_T,
        seconds=seconds * steps_S_T,
        generated=unknown,
        trained=unknown,
        accuracy=np.array(accuracy),
        length=unknown,
        answers=np.full((runs, points), 1000.0),
    )


@pytest.mark.parametrize("curve", [rising, falling_at_the_end])
@pytest.mark.parametrize("stretch", [0.5, 1.3, 2.0, 5.0])
def test_a_curve_that_is_stretched_is_worth_its_stretch(curve, stretch):
    found = step_value(arm(curve, points=200), arm(curve, stretch=stretch, points=200, steps=150))
    assert found.worth.value == pytest.approx(stretch, rel=0.01)


def test_cost_is_the_ratio_of_seconds_and_a_method_pays_where_worth_is_above_it():
    # 2 steps' worth for 1.25 times the seconds: a gain of 1.6
    reference = arm(rising, points=200)
    found = step_value(reference, arm(rising, stretch=2.0, seconds=1.25, points=200))
    assert (found.cost.value, found.cost.low, found.cost.high) == pytest.approx((1.25,) * 3)
    assert found.gain.value == pytest.approx(1.6, rel=0.01)
    assert found.pays

    expensive = step_value(reference, arm(rising, stretch=2.0, seconds=2.5, points=200))
    assert expensive.worth == found.worth
    assert expensive.pays is False


def test_areas_are_compared_up_to_the_largest_budget_that_both_reach():
    # 100 steps that are worth 2 each are 200 of the reference's 240.
    found = step_value(arm(rising, points=200), arm(rising, stretch=2.0, steps=100, points=200))
    assert found.budget == pytest.approx(200, rel=0.01)
    half = step_value(
        arm(rising, points=200), arm(rising, stretch=2.0, steps=100, points=200), until=0.5
    )
    assert half.budget == pytest.approx(120)
    assert half.worth.value == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("curve", [rising, falling_at_the_end])
@pytest.mark.parametrize("runs", [2, 3, 8])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(curve, runs):
    held = 0
    for seed in range(100):
        reference = arm(curve, noise=0.1, runs=runs, seed=seed)
        found = step_value(
            reference, arm(curve, stretch=2.0, steps=150, noise=0.1, runs=runs, seed=seed + 1000)
        )
        held += found.worth.low <= 2.0 <= found.worth.high
    # 95 of 100 are promised; with 0.9 for the truth, fewer than 83 are rarer than 1 in 100.
    assert held >= 83


def test_two_runs_say_less_than_eight():
    def width(runs):
        found = step_value(
            arm(rising, noise=0.1, runs=runs),
            arm(rising, stretch=2.0, noise=0.1, runs=runs, seed=1),
        )
        return np.log(found.worth.high / found.worth.low)

    assert width(2) > 2 * width(8)


def test_a_single_run_has_a_worth_and_no_interval():
    found = step_value(arm(rising, runs=1), arm(rising, stretch=2.0, seconds=1.5, runs=1))
    assert found.worth.value == pytest.approx(2.0, rel=0.05)
    assert (found.worth.low, found.worth.high, found.pays) == (None, None, None)
    assert str(Ratio(2.0)) == "2.00"


def test_runs_of_different_lengths_are_read_at_the_steps_that_all_reach():
    reference = arm(rising, points=200, runs=4)
    uneven = arm(rising, stretch=2.0, points=200, runs=4)
    steps = uneven.steps * np.array([[0.5], [0.8], [1.0], [1.0]])
    uneven = ArmCurves(**{**vars(uneven), "steps": steps, "accuracy": rising(2 * steps)})
    found = step_value(reference, uneven)
    assert found.worth.value == pytest.approx(2.0, rel=0.01)


def test_a_point_that_was_not_measured_is_left_out():
    whole = arm(rising, stretch=2.0, points=25)
    accuracy = whole.accuracy.copy()
    accuracy[:, 3] = np.nan
    accuracy[0, -2:] = np.nan  # a run that ended early
    found = step_value(arm(rising, points=25), ArmCurves(**{**vars(whole), "accuracy": accuracy}))
    assert found.worth.value == pytest.approx(2.0, rel=0.03)


def test_it_is_not_defined_where_the_reference_learned_nothing():
    def flat(steps):
        return np.full(np.shape(steps), 0.5)

    found = step_value(arm(flat, noise=0.1), arm(rising, stretch=2.0))
    assert found.worth is None
    assert found.undefined == "grpo learned no more than noise"
    assert found.cost.value == pytest.approx(1.0)  # which is known all the same


def test_it_is_not_defined_where_the_arm_never_gets_there():
    def lower(steps):
        return 0.2 - 0.1 * (1 - np.exp(-np.asarray(steps) / 60))

    found = step_value(arm(rising), arm(lower, stretch=0.9))
    assert found.worth is None
    assert found.undefined == "below 0.062: it never gets as far as grpo"


def test_it_is_not_defined_where_the_reference_never_gets_there():
    def at_once(steps):
        return 0.2 + 0.79 * (np.asarray(steps) > 0)

    found = step_value(arm(rising, points=241), arm(at_once, stretch=2, points=241))
    assert found.worth is None
    assert found.undefined == f"above {MOST:g}: grpo never gets so far"


def test_it_is_not_defined_where_a_curve_falls_so_that_several_worths_fit():
    def up_and_down(steps):
        steps = np.asarray(steps, dtype=float)
        return 0.2 + 0.5 * np.clip(steps, 0, 40) / 40 - 0.5 * np.clip(steps - 40, 0, 40) / 40

    def slow(steps):
        return 0.2 + 0.1 * np.clip(np.asarray(steps, dtype=float), 0, 20) / 20

    found = step_value(arm(up_and_down, points=241), arm(slow, stretch=3, points=241))
    assert found.worth is None
    assert found.undefined.startswith("a curve falls, so that several worths fit: ")


def test_it_is_not_defined_where_steps_are_not_known():
    reference = arm(rising)
    unknown = ArmCurves(**{**vars(reference), "steps": np.full_like(reference.steps, np.nan)})
    assert step_value(reference, unknown) == StepValue(
        None, None, None, "the steps of grpo are not known"
    )


def test_the_worth_by_a_level_is_that_of_reaching_99_percent_in_fewer_steps():
    # The best is 0.8 - 0.6 exp(-4) = 0.789, and 0.99 of it is there after 60 ln(0.6 / 0.019) = 207.
    found = worth_by_level(
        arm(rising, points=241, runs=2), arm(rising, stretch=2.0, points=241, runs=2)
    )
    assert (found.reference_seconds, found.seconds) == (208, 104)
    assert found.ratio == 2.0


def test_an_interval_is_written_with_its_ends():
    assert str(Ratio(2.0, 1.5, 2.667)) == "2.00 (1.50 to 2.67)"
    assert str(Ratio(9.0, 3.0, float("inf"))) == "9.00 (3.00 or more)"
