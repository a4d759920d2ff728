"""Which prompts to generate for, by what their earlier rollouts were worth.

A new way of choosing is a function in `choices.py`, and its name in the list below.
"""

from podsrl.prompts.choices import PromptRule, choose, skip, thompson
from podsrl.prompts.history import PromptHistory
from podsrl.rules.registry import resolve

PROMPT_RULES: dict[str, PromptRule] = {rule.__name__: rule for rule in (thompson, skip)}

__all__ = ["PROMPT_RULES", "PromptHistory", "choose", "resolve_prompt_rule"]


def resolve_prompt_rule(rule: str | PromptRule) -> PromptRule:
    """The rule for a name in `PROMPT_RULES`, or for what `podsrl.RULES` take beside names."""
    return resolve(rule, PROMPT_RULES, lambda found: ["history", "count", "rng"])
