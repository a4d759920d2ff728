"""PODS for slime: two functions to name on its command line (docs/slime.md has the whole of it).

    --rollout-sample-filter-path podsrl.slime.select_rollouts
    --custom-reward-post-process-path podsrl.slime.post_process_rewards
    --custom-config-path pods.yaml        # pods: {m: 16}
    --global-batch-size P*m/steps         # of P prompts; not --num-steps-per-rollout

Nothing here imports slime; its `args` and `Sample` objects are used as they come.
"""

import logging
import math
from typing import Any

import numpy as np

from podsrl.advantages import group_advantages
from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.selection import Options, check_options, kept_in_words

__all__ = ["post_process_rewards", "select_rollouts"]

logger = logging.getLogger(__name__)

_ADVANTAGE = "pods_advantage"  # where `select_rollouts` leaves it in Sample.metadata
_EPS = 1e-6  # of slime's own normalisation
# the estimators slime normalises for
_NORMALISED = ("grpo", "gspo", "reinforce_plus_plus_baseline")
_SCALED = ("grpo", "gspo")


def select_rollouts(args: Any, data: list[list[Any]]) -> None:
    """Delete the dropped rollouts of every group, and note the advantage of those that are kept.

    Args:
        args: slime's arguments; `args.pods` holds m, and rule, baseline, seed, scope or
            selection_weights (by key of a sample's reward, where that is a dictionary).
        data: groups of `slime.utils.types.Sample`, changed in place. A sample without a reward
            (aborted), or with metadata["unscorable"], is one that could not be scored.

    Raises:
        InvalidInputError: bad options, or a --global-batch-size that doesn't divide the kept rows,
            of which slime would cut off the rest.
        UnsupportedError: a rollout of several samples.
    """
    options = _read_options(args)
    _check_global_batch_size(args, options.m)
    rewards = [np.array([_reward(args, sample) for sample in group]) for group in data]
    parts = [map(_parts, group) for group in data]
    kept = options.select([zip(*both, strict=True) for both in zip(rewards, parts, strict=True)])
    for group, rewards_N, ks in zip(data, rewards, kept, strict=True):
        advantages = group_advantages(
            rewards_N,
            np.array(ks, dtype=int),
            baseline=options.baseline,
            scale=args.advantage_estimator in _SCALED and args.grpo_std_normalization,
            eps=_EPS,
        )
        group[:] = [group[i] for i in ks]
        for sample, advantage in zip(group, advantages.tolist(), strict=True):
            sample.metadata[_ADVANTAGE] = advantage
    generated = np.concatenate(rewards)
    scored = generated[~np.isnan(generated)]
    logger.info(
        "selected %s in %d groups; the update sees %d rows; mean reward of all %d: %.4f",
        kept_in_words(options.m, args.n_samples_per_prompt, options.scope),
        *(len(data), sum(map(len, data))),
        *(len(generated), scored.mean() if len(scored) else math.nan),
    )


def post_process_rewards(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """Raw rewards, and the advantages that `select_rollouts` noted.

    slime's own normalisation takes all samples for one group once their number is not P * n.

    Args:
        args: slime's arguments.
        samples: the kept samples, flat.

    Returns:
        Both in the order of `samples`. The second are the raw rewards if slime would not normalise
        (--disable-rewards-normalization, or another estimator). An unscorable sample has 0.

    Raises:
        InvalidInputError: samples that did not pass through `select_rollouts`.
        UnsupportedError: an unscorable sample where slime would not normalise.
    """
    rewards = [_reward(args, sample) for sample in samples]
    raw = [0.0 if math.isnan(reward) else reward for reward in rewards]
    if not (args.rewards_normalization and args.advantage_estimator in _NORMALISED):
        if any(map(math.isnan, rewards)):
            raise UnsupportedError(
                "a kept rollout could not be scored, and only advantages can leave it out: give"
                f" --advantage-estimator {' or '.join(_NORMALISED)} without"
                " --disable-rewards-normalization, or let the reward function return a number"
            )
        return raw, raw
    if any(_ADVANTAGE not in sample.metadata for sample in samples):
        raise InvalidInputError(
            "these samples were not selected by podsrl; add"
            " --rollout-sample-filter-path podsrl.slime.select_rollouts"
        )
    return raw, [sample.metadata[_ADVANTAGE] for sample in samples]


def _read_options(args: Any) -> Options:
    given = getattr(args, "pods", None)
    if not isinstance(given, dict):
        raise InvalidInputError(
            f"slime's arguments hold no options of podsrl (pods={given!r}); give"
            " --custom-config-path a YAML file with, for example, pods: {m: 16}"
        )
    options = check_options(given, args.n_samples_per_prompt, "pods.", "--n-samples-per-prompt")
    if options.rollouts_per_round is not None:
        raise UnsupportedError(
            "pods.rollouts_per_round: slime calls the filter once all samples of a prompt are"
            " there, so none can be saved; leave it out"
        )
    return options


def _check_global_batch_size(args: Any, m: int) -> None:
    rows, size = args.rollout_batch_size * m, args.global_batch_size
    if getattr(args, "use_dynamic_global_batch_size", False) or (size and rows % size == 0):
        return
    raise InvalidInputError(
        f"--global-batch-size {size} does not divide the {rows} kept rows (--rollout-batch-size"
        f" {args.rollout_batch_size} x m = {m}), and slime would cut off the rest; give"
        f" --global-batch-size {rows} for one step per rollout, or {rows} divided by the number of"
        " steps, and leave out --num-steps-per-rollout, which counts all n"
    )


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


def _parts(sample: Any) -> dict[str, Any]:
    return dict(sample.reward) if isinstance(sample.reward, dict) else {}
