"""The algorithms of a comparison, as settings of the same trainer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from podsrl.errors import InvalidInputError, PodsError, UnknownNameError, suggestion
from podslab.training.preflight import check_run

if TYPE_CHECKING:
    from podslab.training.spec import Spec

Settings = dict[str, Any]

ARMS = ("grpo", "grpo_ga", "pods")

#: What follows from a comparison's seeds, budget, evaluations and folder.
DECIDED = frozenset(
    {
        *("output_dir", "seed", "arm", "resume", "overwrite", "num_train_epochs"),
        *("max_steps", "max_training_seconds", "max_rollouts", "max_tokens"),
        *("evaluations", "evaluation_steps", "evaluation_seconds"),
    }
)
#: What an arm may not set for itself: that, and what has to be the same for all.
SHARED = DECIDED | {
    *("task", "task_options", "data_path", "train_split", "model_name_or_path", "tiny_options"),
    *("evaluation_split", "evaluation_problems", "evaluation_repeats", "evaluation_path"),
    *("evaluation_temperature", "max_completion_length", "logging_steps", "logging_strategy"),
    *("data_seed", "processes", "training_clock"),
}


def check_arm(base: Mapping[str, Any], name: str, own: Mapping[str, Any]) -> None:
    """Check what can be checked of an arm before torch is imported.

    Raises:
        InvalidInputError: an unknown setting, a value that is not allowed, or one that all arms
            must share.
        UnknownNameError: `like` names no arm.
    """
    kind = own.get("like", "pods")
    if kind not in ARMS:
        raise UnknownNameError(f"arm {name!r}: like: {kind!r} is no arm; {suggestion(kind, ARMS)}")
    shared = sorted(SHARED & set(own))
    if shared:
        raise InvalidInputError(
            f"arm {name!r} sets {', '.join(shared)}, which all arms must share; set it for all"
            " under settings"
        )
    try:
        check_run({**base, **{key: value for key, value in own.items() if key != "like"}})
    except PodsError as error:
        raise InvalidInputError(f"arm {name!r}: {error}") from error


def arm_settings(base: Mapping[str, Any], name: str, own: Mapping[str, Any]) -> Settings:
    """The settings of an arm.

    * `pods`: the base's n = num_rollouts and m = num_generations.
    * `grpo`: n = m, all else equal. Where m is 1 it needs a `num_generations` of its own.
    * `grpo_ga`: as many rollouts per optimiser step as PODS generates, all of them trained: groups
      of n, and n / m times the gradient accumulation at the same micro-batch.

    With n = m, `PODSTrainer` is GRPO bit for bit.

    Args:
        base: settings of `pods train` for the arm `pods`.
        name: of the arm; an arm of another name than those three is a variant of `pods`.
        own: settings that replace those above, and `like`, the arm to start from; from
            `check_arm`.

    Raises:
        InvalidInputError: settings that don't fit together, or a `grpo_ga` that generates another
            number of rollouts per step than PODS.
    """
    from podslab.training.spec import parse

    own = dict(own)
    kind = own.pop("like", name if name in ARMS else "pods")
    base_spec = parse(dict(base))
    pods = base_spec.training
    n, m, accumulation = pods.num_rollouts, pods.num_generations, pods.gradient_accumulation_steps
    derived: Settings = {"fast_generation": pods.fast_generation}  # equally fast, to be fair
    if kind != "pods":  # n = m, in one round
        derived |= dict.fromkeys(("rollouts_per_round", "reward_range", "stop_at"))
    if kind == "grpo":
        size = int(own.pop("num_generations", None) or m or 0)
        if size == 1:
            raise InvalidInputError(
                f"arm {name!r}: plain GRPO compares rollouts of a prompt, and num_generations is 1:"
                " give this arm a number of its own, such as 8, and its own learning_rate"
            )
        derived |= {"num_rollouts": size, "num_generations": size}
    elif kind == "grpo_ga":
        if isinstance(n, str):
            raise InvalidInputError(
                f"arm {name!r} generates as many rollouts per optimiser step as PODS, which"
                f" num_rollouts={n} leaves open; give the settings a number, and {n} to an arm of"
                " its own"
            )
        derived |= _accumulated(name, pods.most_rollouts, int(m or 0), accumulation, own)
    arm = {**base, **derived, **own}
    try:
        spec = parse(dict(arm))
    except InvalidInputError as error:
        raise InvalidInputError(f"arm {name!r}: {error}") from error
    training = spec.training
    _check_sampling(name, spec, base_spec)
    if kind == "grpo_ga" and _per_step(training) != _per_step(pods):
        raise InvalidInputError(
            f"arm {name!r} generates {_per_step(training):g} rollouts per optimiser step and PODS"
            f" {_per_step(pods):g}; grpo_ga must generate as many, and train them all"
        )
    return arm


def _accumulated(name: str, n: int, m: int, accumulation: int, own: Settings) -> Settings:
    if "gradient_accumulation_steps" not in own and accumulation * n % m:
        raise InvalidInputError(
            f"arm {name!r}: {accumulation} accumulation steps times n / m = {n} / {m} is no whole"
            " number; choose an n that is a multiple of m, or set gradient_accumulation_steps"
        )
    return {
        "num_rollouts": n,
        "num_generations": n,
        "gradient_accumulation_steps": accumulation * n // m,
    }


def _check_sampling(name: str, arm: "Spec", base: "Spec") -> None:
    own, others = vars(arm.evaluation_sampling), vars(base.evaluation_sampling)
    if differ := [key for key in own if key != "batch_size" and own[key] != others[key]]:
        raise InvalidInputError(
            f"arm {name!r} would be evaluated with another {' and '.join(differ)} than the others:"
            f" {', '.join(f'{own[key]!r} and {others[key]!r}' for key in differ)}; set"
            " evaluation_temperature under settings, and the rest there for all arms or none"
        )


def _per_step(args: Any) -> float:
    """Rollouts generated per optimiser step, on one process."""
    groups = args.per_device_train_batch_size * args.gradient_accumulation_steps
    return float(groups * args.num_rollouts / args.num_generations / args.num_iterations)
