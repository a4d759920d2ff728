"""The algorithms of a comparison, as settings of the same trainer."""

from collections.abc import Mapping
from typing import Any

from podslab.comparison.comparison import Settings
from podslab.training.preflight import checked_spec
from podslab.training.spec import Spec
from podsrl.errors import InvalidInputError, PodsError, UnknownNameError, suggestion
from podsrl.trl import PODSConfig

ARMS = ("grpo", "grpo_ga", "pods")

_DECIDED = """
    output_dir seed arm resume num_train_epochs max_steps max_training_seconds evaluations
    evaluation_steps
"""
#: What follows from a comparison's seeds, budget, evaluations and folder.
DECIDED = frozenset(_DECIDED.split())
_SAME_FOR_ALL = """
    task data_ train_split model_name_or_path tiny_options evaluation_ max_completion_length
    logging_s temperature top_p top_k min_p repetition_penalty chat_template_kwargs processes
    training_clock
"""
#: Beginnings of what an arm may not set for itself: that, and what has to be the same for all.
SHARED = (*DECIDED, *_SAME_FOR_ALL.split())


def arm_settings(
    base: Mapping[str, Any], pods: Spec, name: str, own: Mapping[str, Any]
) -> tuple[Settings, Spec]:
    """The settings of an arm, as a mapping and checked.

    * `pods`: the base's n = num_rollouts and m = num_generations.
    * `grpo`: n = m, all else equal. Where m is 1 it needs a `num_generations` of its own.
    * `grpo_ga`: as many rollouts per optimiser step as PODS generates, all of them trained: groups
      of n, and n / m times the gradient accumulation at the same micro-batch.

    Args:
        base: the settings of `pods train` for the arm `pods`.
        pods: the same, checked.
        name: the arm's; an arm of another name than those three is a variant of `pods`.
        own: the settings that replace those above, and `like`, the arm to start from.

    Raises:
        InvalidInputError: an unknown setting, one that all arms must share, settings that don't fit
            together, or a `grpo_ga` that generates another number of rollouts per step than PODS.
        UnknownNameError: `like` names no arm.
    """
    own = dict(own)
    kind = own.pop("like", name if name in ARMS else "pods")
    if kind not in ARMS:
        raise UnknownNameError(f"arm {name!r}: like: {kind!r} is no arm; {suggestion(kind, ARMS)}")
    if shared := sorted(name for name in own if name.startswith(SHARED)):
        raise InvalidInputError(
            f"arm {name!r} sets {', '.join(shared)}, which all arms must share; set it for all"
            " under settings"
        )
    try:
        arm = {**base, **_derived(kind, pods.training, own), **own}
        spec = checked_spec(arm)
    except PodsError as error:
        raise InvalidInputError(f"arm {name!r}: {error}") from error
    if kind == "grpo_ga" and _per_step(spec.training) != _per_step(pods.training):
        raise InvalidInputError(
            f"arm {name!r} generates {_per_step(spec.training):g} rollouts per optimiser step and"
            f" PODS {_per_step(pods.training):g}; grpo_ga must generate as many, and train them all"
        )
    return arm, spec


def _derived(kind: str, pods: PODSConfig, own: Settings) -> Settings:
    """What follows for an arm of a kind from the settings of `pods`."""
    n, m = int(pods.num_rollouts or 0), int(pods.num_generations or 0)
    if kind == "grpo":
        size = int(own.get("num_generations") or m)
        if size == 1:
            raise InvalidInputError(
                "plain GRPO compares rollouts of a prompt, and num_generations is 1: give this arm"
                " a number of its own, such as 8, and its own learning_rate"
            )
        return {"num_rollouts": size, "num_generations": size}
    if kind == "grpo_ga":
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
    return {}


def _per_step(args: Any) -> float:
    """Rollouts generated per optimiser step, on one process."""
    groups = args.per_device_train_batch_size * args.gradient_accumulation_steps
    return float(groups * args.num_rollouts / args.num_generations / args.num_iterations)
