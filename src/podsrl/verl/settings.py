"""What a user sets under `trainer.v1.pods_sync` (or the section of another mode)."""

from collections.abc import Mapping
from typing import Any

from podsrl.errors import UnsupportedError
from podsrl.selection import Selection


def read_selection(config: Mapping[str, Any], mode: str) -> Selection:
    """The selection that verl's whole config asks for in the section of a trainer mode."""
    where = f"trainer.v1.{mode}."
    n = config["actor_rollout_ref"]["rollout"]["n"]
    given = dict(config["trainer"]["v1"].get(mode) or {})
    selection = Selection.from_options(given, n, where, n_name="actor_rollout_ref.rollout.n")
    algorithm = config["algorithm"]
    needs_grpo = "baseline=group" if selection.baseline == "group" else ""
    if selection.across_prompts:
        needs_grpo = f"rule={selection.rule} keeps rows across prompts, which"
    if needs_grpo and algorithm["adv_estimator"] != "grpo":
        raise UnsupportedError(
            f"{where}{needs_grpo} needs algorithm.adv_estimator=grpo; got"
            f" {algorithm['adv_estimator']}. Every estimator works with baseline=kept and a rule"
            " within prompts, such as max_variance"
        )
    if selection.baseline == "group" and algorithm.get("use_kl_in_reward"):
        raise UnsupportedError(
            f"{where}baseline=group can't be used with algorithm.use_kl_in_reward=True: dropped"
            " rollouts have no reference log-probs. Use baseline=kept, or"
            " actor_rollout_ref.actor.use_kl_loss=True in place of KL in the reward"
        )
    return selection
