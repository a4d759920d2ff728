"""The section of a model's card that says how its rollouts were selected."""

from collections.abc import Mapping
from typing import Any

from podsrl import __version__

PAPER = {
    "title": "Not All Rollouts are Useful: Down-Sampling Rollouts in LLM Reinforcement Learning",
    "id": "2504.13818",
    "citation": (
        "@article{xu2025rollouts,\n"
        "    title   = {{Not All Rollouts are Useful: Down-Sampling Rollouts in LLM"
        " Reinforcement Learning}},\n"
        "    author  = {Yixuan Even Xu and Yash Savani and Fei Fang and J. Zico Kolter},\n"
        "    year    = 2025,\n"
        "    eprint  = {arXiv:2504.13818},\n"
        "}"
    ),
}


def selection_section(config: Mapping[str, Any], generated: int, trained: int) -> str:
    """The section, as Markdown.

    Args:
        config: The settings of the run.
        generated: The number of rollouts so far.
        trained: The number of those that the update saw.
    """
    kept = f" ({trained / generated:.0%})" if generated else ""
    return f"""
## Which rollouts it was trained on

Trained with PODS, Policy Optimization with Down-Sampling
([arXiv {PAPER["id"]}](https://arxiv.org/abs/{PAPER["id"]})), by podsrl {__version__}.
For each prompt n = {config["num_rollouts"]} rollouts were generated and scored, and the update saw
m = {config["num_generations"]}, chosen by the rule `{config["downsampling_rule"]}`, with the
baseline `{config["advantage_baseline"]}`. So far {generated:,} rollouts were generated and
{trained:,}{kept} trained on.
"""
