"""PODS for slime: two functions to name on its command line (docs/other-trainers.md has all of it).

--rollout-sample-filter-path podsrl.slime.select_rollouts
--custom-reward-post-process-path podsrl.slime.post_process_rewards
--custom-config-path pods.yaml        # pods: {m: 16}
--global-batch-size P*m/steps         # of P prompts; not --num-steps-per-rollout
"""

import logging
import math
from typing import Any

import numpy as np

from podsrl.advantages import group_advantages
from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.selection import Selection

logger = logging.getLogger(__name__)

_ADVANTAGE = "pods_advantage"  # where `select_rollouts` leaves it in Sample.metadata
_EPS = 1e-6  # of slime's own normalisation
_SCALED = ("grpo", "gspo", "cispo")  # estimators for which slime divides by the deviation
_NORMALISED = (*_SCALED, "reinforce_plus_plus_baseline")  # all that it normalises for
_GIVE = f"give --advantage-estimator {' or '.join(_NORMALISED)}, no --disable-rewards-normalization"


def select_rollouts(args: Any, data: list[list[Any]]) -> None:
    """Leave the kept rollouts of every group, and note their advantages.

    Args:
        args: slime's arguments; `args.pods` holds m, and rule, baseline, seed or selection_weights
            (by key of a sample's reward, where that is a dictionary).
        data: Groups of `slime.utils.types.Sample`, changed in place. A sample without a reward
            (aborted), or with metadata["unscorable"], is one that could not be scored.

    Raises:
        InvalidInputError: Bad options, or a --global-batch-size that doesn't divide the kept rows,
            of which slime would cut off the rest.
        UnsupportedError: A rollout of several samples; or slime would move advantages of a "group".
    """
    given, n = getattr(args, "pods", None), args.n_samples_per_prompt
    if not isinstance(given, dict):
        raise InvalidInputError(
            f"slime's arguments hold no options of podsrl (pods={given!r}); give"
            " --custom-config-path a YAML file with, for example, pods: {m: 16}"
        )
    selection = Selection.from_options(given, n, where="pods.", n_name="--n-samples-per-prompt")
    moved = getattr(args, "normalize_advantages", False) or not _normalises(args)
    if selection.baseline == "group" and moved:  # it would push rows down that teach nothing
        raise UnsupportedError(
            f"pods.baseline=group needs --advantage-estimator {' or '.join(_SCALED)}, without"
            " --disable-rewards-normalization and --normalize-advantages; or give baseline: kept"
        )
    m, size = selection.num_kept, args.global_batch_size
    rows = args.rollout_batch_size * m
    dynamic = getattr(args, "use_dynamic_global_batch_size", False)
    if not dynamic and (not size or rows % size):
        raise InvalidInputError(
            f"--global-batch-size {size} does not divide the {rows} kept rows (--rollout-batch-size"
            f" {args.rollout_batch_size} x m = {m}), and slime would cut off the rest; give"
            f" --global-batch-size {rows} for one step per rollout, or {rows} divided by the number"
            " of steps, and leave out --num-steps-per-rollout, which counts all n"
        )
    rewards = [[_reward(args, sample) for sample in group] for group in data]
    parts = [[one.reward if isinstance(one.reward, dict) else {} for one in of] for of in data]
    scores = [list(map(selection.score, *pair)) for pair in zip(rewards, parts, strict=True)]
    chosen = selection.select(scores, data[0][0].group_index or 0)  # a number of this step's own
    scale = args.advantage_estimator in _SCALED and args.grpo_std_normalization
    key = getattr(args, "reward_key", None)
    for place, (of_group, kept) in enumerate(zip(rewards, chosen, strict=True)):
        group, rewards_N, kept_M = data[place], np.array(of_group), np.array(kept, dtype=int)
        advantages = group_advantages(rewards_N, kept_M, selection.baseline, scale=scale, eps=_EPS)
        data[place] = [group[one] for one in kept]
        for sample, advantage in zip(data[place], advantages.tolist(), strict=True):
            sample.metadata[_ADVANTAGE] = advantage
            given = sample.reward if isinstance(sample.reward, dict) else {key: sample.reward}
            if given.get(key) is None:  # of which slime's own metrics make an error
                sample.metadata["unscorable"] = True
                sample.reward = {**given, key: 0.0} if key else 0.0
    scored = [one for of_group in rewards for one in of_group if not math.isnan(one)]
    mean = np.mean(scored) if scored else math.nan
    logger.info(
        f"selected {selection.in_words} in {len(data)} groups; the update sees"
        f" {sum(map(len, data))} rows; mean reward of all {sum(map(len, rewards))}: {mean:.4f}"
    )


def post_process_rewards(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """Raw rewards, and the advantages that `select_rollouts` noted, in the order of `samples`.

    slime's own normalisation takes all samples for one group once their number is not P * n. Where
    it would not normalise, both are the raw rewards. An unscorable sample has 0.

    Raises:
        InvalidInputError: Samples that did not pass through `select_rollouts`.
        UnsupportedError: An unscorable sample where slime would not normalise.
    """
    rewards = [_reward(args, sample) for sample in samples]
    raw = [0.0 if math.isnan(reward) else reward for reward in rewards]
    if not _normalises(args):
        if any(map(math.isnan, rewards)):
            raise UnsupportedError(
                "a kept rollout could not be scored, and only advantages can leave it out:"
                f" {_GIVE}, or let the reward function return a number"
            )
        return raw, raw
    if any(_ADVANTAGE not in sample.metadata for sample in samples):
        raise InvalidInputError(
            "these samples were not selected by podsrl; add --rollout-sample-filter-path"
            " podsrl.slime.select_rollouts, which only slime's default rollout function calls"
        )
    return raw, [sample.metadata[_ADVANTAGE] for sample in samples]


def _normalises(args: Any) -> bool:
    return bool(args.rewards_normalization and args.advantage_estimator in _NORMALISED)


def _reward(args: Any, sample: Any) -> float:
    if isinstance(sample, list):
        raise UnsupportedError(
            "a custom generate function returned several samples for one rollout; podsrl can't tell"
            " which of their rewards is the rollout's. Return one sample per rollout"
        )
    if sample.reward is None or sample.metadata.get("unscorable"):
        return math.nan
    value = sample.get_reward_value(args)
    return math.nan if value is None else float(value)
