"""PODS for TorchTitan RL: train on the m rollouts of a group whose rewards differ most."""

import math
from dataclasses import dataclass, replace

from torchtitan.experiments.rl.components.training_sample_builder import TrainingSampleBuilder
from torchtitan.experiments.rl.observability import metrics as m
from torchtitan.experiments.rl.rollout import Rollout, RolloutGroup
from torchtitan.experiments.rl.types import TrainingSampleGroup

from podsrl import downsample, group_advantages


class PODSTrainingSampleBuilder(TrainingSampleBuilder):
    """TorchTitan's builder, which gets the kept rollouts of each group only (arXiv 2504.13818)."""

    @dataclass(kw_only=True, slots=True)
    class Config(TrainingSampleBuilder.Config):
        """How many rollouts of a group are kept (m, at least 2), and which."""

        num_kept: int
        rule: str = "max_variance"  # a prompt rule of podsrl, or "file.py:function"
        baseline: str = "kept"  # advantages are relative to these rewards, or to the "group"
        should_std_normalize: bool = False  # as in `AdvantageEstimator.Config`

    def __init__(self, config: Config) -> None:
        if config.num_kept < 2:
            raise ValueError(f"num_kept={config.num_kept}; allowed: at least 2, to compare")
        super().__init__(config)

    def build_from_group(self, *, rollout_group: RolloutGroup) -> TrainingSampleGroup:
        """The training samples of the kept rollouts; a group of at most m is left as it is.

        A rollout without a token of its own can't be trained on, and TorchTitan drops its whole
        group. Here it is kept last, so it alone is dropped while m others are there.
        """
        rollouts = rollout_group.rollouts
        if len(rollouts) <= self.config.num_kept:
            return super().build_from_group(rollout_group=rollout_group)

        rewards_N = [_score(rollout) for rollout in rollouts]
        kept_M = downsample(rewards_N, self.config.num_kept, self.config.rule)

        advantages_M = group_advantages(
            rewards_N,
            kept_M,
            baseline=self.config.baseline,
            scale=self.config.should_std_normalize,
            eps=1e-6,
            correction=0,  # TorchTitan divides by the deviation of a whole population
        )
        kept = []
        for place, advantage in zip(kept_M, advantages_M, strict=True):
            kept.append(replace(rollouts[place], advantage=advantage))

        dropped = m.Metric("pods/num_rollouts_dropped", m.Sum(float(len(rollouts) - len(kept))))
        metrics = [*rollout_group.metrics, dropped]
        kept_group = replace(rollout_group, rollouts=kept, metrics=metrics)
        return super().build_from_group(rollout_group=kept_group)


def _score(rollout: Rollout) -> float:
    """The reward; NaN, which is kept last, where there is none or no token to train on."""
    has_tokens = any(turn.completion_token_ids for turn in rollout.turns)
    if rollout.reward is None or not has_tokens:
        return math.nan
    return float(rollout.reward)
