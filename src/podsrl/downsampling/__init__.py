"""Rules: pure functions from rewards to the rollouts that are kept."""

from podsrl.downsampling.across_prompts import downsample_batch
from podsrl.downsampling.registry import RULES, Rule, downsample, register_rule, resolve_rule
from podsrl.downsampling.rounds import can_improve, expected_rollouts

__all__ = [
    "RULES",
    "Rule",
    "can_improve",
    "downsample",
    "downsample_batch",
    "expected_rollouts",
    "register_rule",
    "resolve_rule",
]
