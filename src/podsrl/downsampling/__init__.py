"""Rules: pure functions from rewards to the rollouts that are kept."""

from podsrl.downsampling.across_prompts import downsample_batch
from podsrl.downsampling.registry import RULES, Rule, downsample, register_rule, resolve_rule
from podsrl.downsampling.stopping import can_improve, refuse_outside

__all__ = [
    "RULES",
    "Rule",
    "can_improve",
    "downsample",
    "downsample_batch",
    "refuse_outside",
    "register_rule",
    "resolve_rule",
]
