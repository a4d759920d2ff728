"""What a user sets under `trainer.v1.pods_sync` (or the section of another mode)."""

from collections.abc import Mapping
from typing import Any

from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.selection import Selection


def read_selection(config: Mapping[str, Any], mode: str) -> Selection:
    """The selection that a verl config asks for.

    Args:
        config: verl's whole config.
        mode: The trainer mode, which is also the name of the section: "pods_sync", ...

    Raises:
        InvalidInputError: m is missing, an option is unknown or out of range, or mini-batches of
            kept rows can't be shared among the ranks.
        UnknownNameError: There is no such rule.
        UnsupportedError: A combination with other settings of verl that would train wrongly.
    """
    where = f"trainer.v1.{mode}."
    n = config["actor_rollout_ref"]["rollout"]["n"]
    given = dict(config["trainer"]["v1"].get(mode) or {})
    selection = Selection.from_options(given, n, where, n_name="actor_rollout_ref.rollout.n")
    _check_mini_batch(config, selection.num_kept, where)
    algorithm = config["algorithm"]
    if algorithm["adv_estimator"] != "grpo":
        needs = f"needs algorithm.adv_estimator=grpo; got {algorithm['adv_estimator']}."
        if selection.baseline == "group":
            raise UnsupportedError(
                f"{where}baseline=group {needs} Use baseline=kept, which works with every estimator"
            )
        if selection.across_prompts:
            raise UnsupportedError(
                f"{where}rule={selection.rule} keeps rows across prompts, which {needs} A rule"
                " within prompts, such as max_variance, works with every estimator"
            )
    if selection.baseline == "group" and algorithm.get("use_kl_in_reward"):
        raise UnsupportedError(
            f"{where}baseline=group can't be used with algorithm.use_kl_in_reward=True: dropped"
            " rollouts have no reference log-probs, so no reward of this kind. Use baseline=kept,"
            " or actor_rollout_ref.actor.use_kl_loss=True in place of KL in the reward"
        )
    return selection


def _check_mini_batch(config: Mapping[str, Any], m: int, where: str) -> None:
    """verl's workers require this too, but only once the first step is generated."""
    actor = config["actor_rollout_ref"]["actor"]
    if not str(actor["strategy"]).startswith("fsdp"):
        return  # how many ranks share the data is not ours to know
    trainer = config["trainer"]
    ranks = trainer["nnodes"] * trainer["n_gpus_per_node"]
    ranks //= actor.get("ulysses_sequence_parallel_size") or 1
    prompts = actor["ppo_mini_batch_size"]
    if ranks < 2 or prompts * m % ranks == 0:
        return
    step = next(step for step in range(1, ranks + 1) if step * m % ranks == 0)
    below, above = prompts - prompts % step, prompts - prompts % step + step
    nearest = f"{below} or {above}" if below else f"{above}"
    raise InvalidInputError(
        f"actor_rollout_ref.actor.ppo_mini_batch_size={prompts} prompts of {where}m={m} kept"
        f" rollouts are {prompts * m} rows, which {ranks} data-parallel ranks can't share equally;"
        f" the nearest ppo_mini_batch_size is {nearest}"
    )
