"""The arms of a comparison: methods by their names, as settings of the same trainer."""

from collections.abc import Mapping
from typing import Any

from podslab.comparison.comparison import Settings
from podslab.training.preflight import checked_spec
from podslab.training.spec import Spec
from podsrl.errors import InvalidInputError, PodsError, UnknownNameError, suggestion
from podsrl.methods import METHODS
from podsrl.trl import PODSConfig

#: GRPO on as many rollouts as PODS generates, by gradient accumulation.
GRPO_GA = "grpo_ga"
#: What an arm may be like: its name, if it is one of these, or its setting `like`.
KINDS = (*METHODS, GRPO_GA)

#: The settings that a method decides. Those of the base are the base's own method, `pods`; an arm
#: of another method takes none of them over.
OF_THE_METHOD = (
    "method",
    "num_rollouts",
    "num_generations",
    "downsampling_rule",
    "advantage_baseline",
    "skip_zero_advantage",
    "rollouts_per_round",
    "prompts_per_round",
    "reward_bounds",
)

#: What follows from a comparison's seeds, budget, evaluations and folder.
DECIDED = frozenset(
    {
        "output_dir",
        "seed",
        "arm",
        "resume",
        "num_train_epochs",
        "max_steps",
        "max_training_seconds",
        "max_rollouts",
        "max_price",
        "rollout_price",
        "row_price",
        "evaluations",
        "evaluation_steps",
    }
)
#: Beginnings of what has to be the same for all arms, or runs could not be compared.
_SAME_FOR_ALL = (
    "task",
    "data_",
    "train_split",
    "model_name_or_path",
    "tiny_options",
    "evaluation_",
    "max_completion_length",
    "logging_s",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "chat_template_kwargs",
    "processes",
    "training_clock",
)
#: Beginnings of what an arm may not set for itself.
SHARED = (*DECIDED, *_SAME_FOR_ALL)


def arm_settings(
    base: Mapping[str, Any], pods: Spec, name: str, own: Mapping[str, Any]
) -> tuple[Settings, Spec]:
    """The settings of an arm, as a mapping and checked.

    * `pods`: the base's settings.
    * `grpo`: n = m = the base's m. Where that is 1 it needs a `num_generations` of its own.
    * `grpo_ga`: as many rollouts per optimiser step as PODS generates, all of them trained: groups
      of n, and n / m times the gradient accumulation at the same micro-batch.
    * any other method: its own sizes, rule and baseline.

    Args:
        base: The settings of `pods train` for the arm `pods`.
        pods: The same, checked.
        name: The arm's; an arm of another name than those of `KINDS` is a variant of `pods`.
        own: The settings that replace those above, and `like`, the kind to start from.

    Raises:
        InvalidInputError: An unknown setting, one that all arms must share, settings that don't fit
            together, or a `grpo_ga` that generates another number of rollouts per step than PODS.
        UnknownNameError: `like` names no kind.
    """
    own = dict(own)
    kind = _kind(name, own.pop("like", None))
    if shared := sorted(setting for setting in own if setting.startswith(SHARED)):
        raise InvalidInputError(
            f"arm {name!r} sets {', '.join(shared)}, which all arms must share; set it for all"
            " under settings"
        )

    try:
        arm = {**_start(kind, base, pods.training, own), **own}
        spec = checked_spec(arm)
    except PodsError as error:
        raise InvalidInputError(f"arm {name!r}: {error}") from error

    if kind == GRPO_GA and _rollouts_per_step(spec.training) != _rollouts_per_step(pods.training):
        raise InvalidInputError(
            f"arm {name!r} generates {_rollouts_per_step(spec.training):g} rollouts per optimiser"
            f" step and PODS {_rollouts_per_step(pods.training):g}; grpo_ga must generate as many,"
            " and train them all"
        )
    return arm, spec


def _kind(name: str, like: str | None) -> str:
    """The kind that an arm starts from: the one it says, or its own name, or the base."""
    if like is None:
        return name if name in KINDS else "pods"
    if like not in KINDS:
        raise UnknownNameError(f"arm {name!r}: like: {like!r} is no arm; {suggestion(like, KINDS)}")
    return like


def _start(
    kind: str, base: Mapping[str, Any], pods: PODSConfig, own: Mapping[str, Any]
) -> Settings:
    """The settings of a kind of arm, before its own."""
    if kind == "pods":
        return dict(base)

    without = {key: value for key, value in base.items() if key not in OF_THE_METHOD}
    if kind == "grpo":
        return {**without, "method": "grpo", **_sizes_of_grpo(pods, own)}
    if kind == GRPO_GA:
        return {**without, "method": "grpo", **_sizes_of_grpo_ga(pods, own)}
    return {**without, "method": kind}


def _sizes_of_grpo(pods: PODSConfig, own: Mapping[str, Any]) -> Settings:
    size = int(own.get("num_generations") or pods.num_generations or 0)
    if size == 1:
        raise InvalidInputError(
            "plain GRPO compares rollouts of a prompt, and num_generations is 1: give this arm"
            " a number of its own, such as 8, and its own learning_rate"
        )
    return {"num_rollouts": size, "num_generations": size}


def _sizes_of_grpo_ga(pods: PODSConfig, own: Mapping[str, Any]) -> Settings:
    n, m = int(pods.num_rollouts or 0), int(pods.num_generations or 0)
    accumulation = pods.gradient_accumulation_steps
    if "gradient_accumulation_steps" not in own and accumulation * n % m:
        raise InvalidInputError(
            f"{accumulation} accumulation steps times n / m = {n} / {m} is no whole number;"
            " choose an n that is a multiple of m, or set gradient_accumulation_steps"
        )
    return {
        "num_rollouts": n,
        "num_generations": n,
        "gradient_accumulation_steps": accumulation * n // m,
    }


def _rollouts_per_step(args: Any) -> float:
    """Rollouts generated per optimiser step, on one process."""
    rows = args.per_device_train_batch_size * args.gradient_accumulation_steps
    return float(rows * args.num_rollouts / args.num_generations / args.num_iterations)
