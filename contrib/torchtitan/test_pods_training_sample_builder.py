"""`PODSTrainingSampleBuilder` on stand-ins for TorchTitan's types, with the fields it reads."""

import runpy
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest


@dataclass(kw_only=True, slots=True)
class Rollout:
    turns: list
    reward: float | None
    advantage: float | None = None


@dataclass(kw_only=True, slots=True)
class RolloutGroup:
    rollouts: list
    metrics: list = field(default_factory=list)


class TrainingSampleBuilder:
    @dataclass(kw_only=True, slots=True)
    class Config:
        pass

    def __init__(self, config):
        self.config = config

    def build_from_group(self, *, rollout_group):
        return rollout_group


@pytest.fixture
def pods(monkeypatch):
    metrics = SimpleNamespace(Metric=lambda name, value: (name, value), Sum=float)
    for name, values in {
        "components.training_sample_builder": {"TrainingSampleBuilder": TrainingSampleBuilder},
        "observability": {"metrics": metrics},
        "rollout": {"Rollout": Rollout, "RolloutGroup": RolloutGroup},
        "types": {"TrainingSampleGroup": object},
    }.items():
        module = SimpleNamespace(**values)
        monkeypatch.setitem(sys.modules, f"torchtitan.experiments.rl.{name}", module)
    return runpy.run_path(__file__.replace("test_pods", "pods"))["PODSTrainingSampleBuilder"]


def build(pods, rewards, silent=(), **options):
    """What TorchTitan's builder gets of a group: rewards, advantages and metrics."""
    rollouts = []
    for place, reward in enumerate(rewards):
        tokens = [] if place in silent else [7]
        turn = SimpleNamespace(completion_token_ids=tokens)
        rollouts.append(Rollout(turns=[turn], reward=reward, advantage=9.0))

    built = pods(pods.Config(**options)).build_from_group(
        rollout_group=RolloutGroup(rollouts=rollouts)
    )
    kept_rewards = tuple(rollout.reward for rollout in built.rollouts)
    kept_advantages = tuple(rollout.advantage for rollout in built.rollouts)
    return kept_rewards, kept_advantages, built.metrics


def test_the_rollouts_of_the_largest_variance_are_trained_on_with_advantages_of_their_own(pods):
    rewards, advantages, metrics = build(pods, [0.0, 0.0, 1.0, 0.5, 0.0, 1.0], num_kept=4)
    assert rewards == (0.0, 0.0, 1.0, 1.0)
    assert advantages == (-0.5, -0.5, 0.5, 0.5)
    assert metrics == [("pods/num_rollouts_dropped", 2.0)]


def test_advantages_may_be_scaled_and_relative_to_the_whole_group(pods):
    scaled = build(pods, [0.0, 0.0, 1.0], num_kept=2, should_std_normalize=True)[1]
    assert scaled == pytest.approx([-1, 1], abs=1e-5)
    of_group = build(pods, [0.0, 0.0, 1.0], num_kept=2, baseline="group")[1]
    assert of_group == pytest.approx([-1 / 3, 2 / 3])


def test_a_rollout_that_wrote_nothing_is_kept_last_and_a_small_group_is_left_as_it_is(pods):
    assert build(pods, [5.0, 0.0, 1.0], silent=[0], num_kept=2)[0] == (0.0, 1.0)
    assert build(pods, [0.0, 1.0], num_kept=2) == ((0.0, 1.0), (9.0, 9.0), [])
    with pytest.raises(ValueError, match="num_kept=1; allowed: at least 2"):
        build(pods, [0.0, 1.0], num_kept=1)
