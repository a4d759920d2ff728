"""What a model's or a data set's card says of a run: its settings, without folders and secrets."""

from collections.abc import Mapping
from pathlib import PurePath
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
#: Settings that make an arm what it is, in the order in which they are told.
SETTINGS = (
    *("task", "task_options", "model_name_or_path", "num_rollouts", "max_num_rollouts"),
    *("rollouts_per_round", "num_generations", "downsampling_rule", "selection_scope"),
    *("selection_weights", "advantage_baseline", "reward_functions", "reward_weights"),
    *("scale_rewards", "loss_type", "beta", "num_iterations", "learning_rate"),
    *("lr_scheduler_type", "per_device_train_batch_size", "gradient_accumulation_steps"),
    *("max_completion_length", "temperature", "top_p", "max_steps", "seed"),
)


def told(config: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a run that a card tells, those that were given a value."""
    found = {name: str(config[name]) for name in SETTINGS if config.get(name) is not None}
    return {name: " | ".join(map(_named, text.split(" | "))) for name, text in found.items()}


def _named(value: str) -> str:
    """Without a folder of the author's machine."""
    return PurePath(value).name if PurePath(value).is_absolute() else value


def table(*columns: tuple[str, list[str]]) -> str:
    """A Markdown table of columns with their heads."""
    heads, values = zip(*columns, strict=True)
    rows = [heads, ["---"] * len(heads), *zip(*values, strict=True)]
    return "\n".join(f"| {' | '.join(_cell(text) for text in row)} |" for row in rows)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def selection_of_model(config: Mapping[str, Any], generated: int, trained: int) -> str:
    """The section of a model's card on how its rollouts were selected.

    Args:
        config: of the run.
        generated: rollouts so far.
        trained: those that the update saw.
    """
    settings = told(config)
    kept = f" ({trained / generated:.0%})" if generated else ""
    across = " per prompt on average" if config["selection_scope"] == "batch" else ""
    return f"""
## Which rollouts it was trained on

Trained with PODS, Policy Optimization with Down-Sampling
([arXiv {PAPER["id"]}](https://arxiv.org/abs/{PAPER["id"]})),
by podsrl {__version__}; arm `{config["arm"]}`.
For each prompt n = {config["num_rollouts"]} rollouts were generated and scored, and the update saw
m = {config["num_generations"]}{across}. So far {generated:,} rollouts were generated and
{trained:,}{kept} trained on.

{table(("setting", [f"`{name}`" for name in settings]), ("value", list(settings.values())))}
"""
