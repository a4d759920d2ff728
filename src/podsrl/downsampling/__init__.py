"""Rules: pure functions from rewards to the rollouts that are kept.

A group rule (`group_rules.py`) keeps m of each prompt. A batch rule (`batch_rules.py`) keeps rows
across prompts. A new one is a function in one of these files, and its name in the list below.
"""

from podsrl.downsampling import batch_rules, group_rules
from podsrl.downsampling.doors import downsample, downsample_batch
from podsrl.downsampling.registry import (
    RULES,
    Rule,
    batch_rule,
    is_batch_rule,
    register_rule,
    resolve_rule,
)

for _rule in (
    group_rules.max_variance,
    group_rules.max_reward,
    group_rules.random,
    group_rules.percentile,
    group_rules.balanced,
    batch_rules.max_contrast,
    batch_rules.top_advantage,
    batch_rules.advantage_variance,
    batch_rules.pass_band,
    batch_rules.variance_top_p,
):
    register_rule(_rule.__name__, _rule)

__all__ = [
    "RULES",
    "Rule",
    "batch_rule",
    "downsample",
    "downsample_batch",
    "is_batch_rule",
    "register_rule",
    "resolve_rule",
]
