"""Rules: pure functions from rewards to the rollouts that are kept."""

from podsrl.downsampling.across_prompts import downsample_batch
from podsrl.downsampling.registry import RULES, Rule, downsample, register_rule, resolve_rule

__all__ = ["RULES", "Rule", "downsample", "downsample_batch", "register_rule", "resolve_rule"]
