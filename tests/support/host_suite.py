"""What every host adapter is asked (`podsrl.hosts`). Each has a subclass in its own tests."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import podsrl
from podsrl.errors import PodsError
from podsrl.hosts import HostStep

N = 8
#: Of four prompts: some of each kind, one right answer, all alike, and many kinds.
REWARDS = [
    [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0],
    [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
    [0.1, 0.9, 0.3, 0.8, 0.2, 0.6, 0.4, 1.0],
]


@dataclass(frozen=True)
class SeenStep:
    """A `HostStep` that a test has seen."""

    rows_out: Sequence[Mapping[int, float]]
    passes: int
    logged: Mapping[str, float] | str


class HostSuite:
    """The four questions, put to a host. A subclass says how the host makes a step.

    Attributes:
        spares_passes: Whether kept rows of advantage 0 have no pass.
        least_passes: The fewest rows that a step has passes over.
        scale: Whether the host divides advantages by the standard deviation.
        eps: What it adds to it.
    """

    spares_passes: ClassVar[bool]
    least_passes: ClassVar[int] = 0
    scale: ClassVar[bool] = True
    eps: ClassVar[float] = 1e-6

    def step(self, rewards: Sequence[Sequence[float]], **options: Any) -> HostStep:
        """A step on rollouts with these rewards, and options m, rule and baseline."""
        raise NotImplementedError

    @pytest.mark.parametrize(
        "options",
        [
            {"m": 4},
            {"m": 4, "baseline": "group"},
            {"m": 2, "rule": "max_contrast", "baseline": "group"},
            {"m": 1, "rule": "max_reward", "baseline": "group"},
            {"m": N},
        ],
        ids=["pods", "all", "max_contrast", "best", "everything"],
    )
    def test_the_update_sees_what_the_rule_keeps_with_its_advantages(self, options):
        step = self.step(REWARDS, **options)
        m = options["m"]
        rule = options.get("rule", "max_variance")
        if rule == "max_contrast":
            kept_P_N = podsrl.downsample_batch(REWARDS, m * len(REWARDS), rule)
        else:
            kept_P_N = np.zeros((len(REWARDS), N), dtype=bool)
            for kept_N, places in zip(kept_P_N, podsrl.downsample(REWARDS, m, rule), strict=True):
                kept_N[places] = True

        # Equal rewards are as good as each other, and with a seed they are drawn.
        found_P_N = np.zeros_like(kept_P_N)
        for found_N, kept_N, of_group, rewards_N in zip(
            found_P_N, kept_P_N, step.rows_out, np.array(REWARDS), strict=True
        ):
            found_N[list(of_group)] = True
            assert sorted(rewards_N[found_N]) == sorted(rewards_N[kept_N])

        baseline = options.get("baseline", "kept")
        advantages_P_N = podsrl.group_advantages(
            np.array(REWARDS), found_P_N, baseline, self.scale, self.eps
        )
        for of_group, advantages_N in zip(step.rows_out, advantages_P_N, strict=True):
            expected = {place: advantages_N[place] for place in of_group}
            assert of_group == pytest.approx(expected, abs=2e-4)

    @pytest.mark.parametrize("alike", [False, True])
    def test_passes_are_made_over_kept_rows_and_spared_where_the_host_can(self, alike):
        rewards = [[0.5] * N for _ in REWARDS] if alike else REWARDS
        step = self.step(rewards, m=4)
        of_rows = [advantage for group in step.rows_out for advantage in group.values()]
        assert len(of_rows) == 4 * len(REWARDS)
        teach = sum(advantage != 0 for advantage in of_rows)
        expected = max(teach, self.least_passes) if self.spares_passes else len(of_rows)
        assert step.passes == expected

    def test_it_is_logged(self):
        logged = self.step(REWARDS, m=4).logged
        if isinstance(logged, str):
            said = "method pods: selected 4 of 8 in 4 groups; the update sees 16 rows"
            assert logged.count(said) == 1
            return
        assert logged["pods/rollouts"] == 32
        assert logged["pods/kept_rollouts"] == 16
        assert logged["pods/zero_variance_groups"] == 1
        assert logged["pods/dropped_reward"] == pytest.approx(
            (sum(map(sum, REWARDS)) - 16 * logged["pods/kept_reward"]) / 16, abs=1e-6
        )

    def test_a_rollout_that_could_not_be_scored_is_kept_last_and_teaches_nothing(self):
        rewards = [list(group) for group in REWARDS]
        rewards[0] = [math.nan] * 5 + [0.0, 1.0, 1.0]  # three are left, fewer than m
        rewards[3][7] = math.nan
        step = self.step(rewards, m=4)
        unscored, *scored = sorted(step.rows_out[0])
        assert scored == [5, 6, 7]
        assert step.rows_out[0][unscored] == 0.0
        assert 7 not in step.rows_out[3]
        assert not any(math.isnan(a) for group in step.rows_out for a in group.values())

    def test_an_infinite_reward_is_an_error(self):
        rewards = [list(group) for group in REWARDS]
        rewards[1][2] = math.inf
        with pytest.raises(PodsError, match="infinite"):
            self.step(rewards, m=4)
