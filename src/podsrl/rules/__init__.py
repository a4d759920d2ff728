"""Rules: pure functions from rewards to the rollouts that are kept.

A prompt rule (`prompt_rules.py`) keeps m of each prompt. A batch rule (`batch_rules.py`) keeps rows
across prompts. A new one is a function in one of these files, and its name in the list below.
"""

from podsrl.rules import batch_rules, prompt_rules
from podsrl.rules.api import downsample, downsample_batch
from podsrl.rules.decided import is_decided, is_decided_batch
from podsrl.rules.registry import RULES, Rule, RuleName, register_rule, resolve_rule, rule

for _rule in (
    prompt_rules.max_variance,
    prompt_rules.max_reward,
    prompt_rules.random,
    prompt_rules.percentile,
    prompt_rules.balanced,
    batch_rules.max_contrast,
    batch_rules.top_advantage,
    batch_rules.advantage_variance,
    batch_rules.dynamic_sampling,
    batch_rules.variance_top_p,
):
    register_rule(_rule.name, _rule)

__all__ = [
    "RULES",
    "Rule",
    "RuleName",
    "downsample",
    "downsample_batch",
    "is_decided",
    "is_decided_batch",
    "register_rule",
    "resolve_rule",
    "rule",
]
