"""PODS for slime and miles: two functions to name on the command line of either.

docs/other-trainers.md has all of it. miles began as a copy of slime and calls both functions with
the same arguments, also where it generates asynchronously; what differs is said at each place.

--rollout-sample-filter-path podsrl.slime.select_rollouts
--custom-reward-post-process-path podsrl.slime.post_process_rewards
--custom-config-path pods.yaml        # pods: {method: pods, m: 16}
--global-batch-size P*m/steps         # of P prompts; not --num-steps-per-rollout
"""

import logging
import math
from collections.abc import Sequence
from typing import Any

from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.hosts import first_line
from podsrl.methods import selection_from_options
from podsrl.selection import Selection, select_groups

logger = logging.getLogger(__name__)

_ADVANTAGE = "pods_advantage"  # where `select_rollouts` leaves it in Sample.metadata
_EPS = 1e-6  # of slime's own normalisation
#: Estimators for which slime divides by the deviation, and all that it normalises for.
_SCALED = ("grpo", "gspo", "cispo")
_NORMALISED = (*_SCALED, "reinforce_plus_plus_baseline")


def select_rollouts(args: Any, data: list[list[Any]]) -> None:
    """Leave the kept rollouts of every group, and note their advantages.

    Args:
        args: slime's or miles's arguments; `args.pods` holds method or m, rule, baseline, seed and
            selection_weights (by key of a sample's reward, where that is a dictionary).
        data: Groups of `slime.utils.types.Sample` or `miles.utils.types.Sample`, changed in place.
            A sample without a reward (aborted), or with metadata["unscorable"], is one that could
            not be scored. One with `remove_sample`, which the loss leaves out, is kept last.

    Raises:
        InvalidInputError: Bad options, or a --global-batch-size that doesn't divide the kept rows,
            of which slime would cut off the rest.
        UnsupportedError: A rollout of several samples; several adapters in one batch of miles; or
            the host would move advantages of a "group".
    """
    selection = _read_selection(args)
    _check_batch_size(args, selection)

    rewards = [[_reward(args, sample) for sample in group] for group in data]
    selected = select_groups(
        selection,
        rewards,
        parts=[[_parts(sample) for sample in group] for group in data],
        masked=[[_is_removed(sample) for sample in group] for group in data],
        step=_number_of_step(data),
        scale=args.advantage_estimator in _SCALED and args.grpo_std_normalization,
        eps=_EPS,
    )

    for place, advantage_of in enumerate(selected.of_kept):
        data[place] = [data[place][rollout] for rollout in advantage_of]
        _note(args, data[place], list(advantage_of.values()))
    logger.info(
        f"{first_line(selection, len(data), sum(map(len, data)))}; mean reward of all"
        f" {sum(map(len, rewards))}: {selected.rewards.mean:.4f}"
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
                "a kept rollout could not be scored, and only advantages can leave it out: give"
                f" --advantage-estimator {' or '.join(_NORMALISED)}, no"
                " --disable-rewards-normalization, or let the reward function return a number"
            )
        return raw, raw

    if any(_ADVANTAGE not in sample.metadata for sample in samples):
        raise InvalidInputError(
            "these samples were not selected by podsrl; add --rollout-sample-filter-path"
            " podsrl.slime.select_rollouts, which your own rollout function must call, too"
        )
    return raw, [sample.metadata[_ADVANTAGE] for sample in samples]


def _read_selection(args: Any) -> Selection:
    """The selection that slime's arguments ask for."""
    options = getattr(args, "pods", None)
    if not isinstance(options, dict):
        raise InvalidInputError(
            f"slime's arguments hold no options of podsrl (pods={options!r}); give"
            " --custom-config-path a YAML file with, for example, pods: {m: 16}"
        )
    selection = selection_from_options(
        options, args.n_samples_per_prompt, where="pods.", n_name="--n-samples-per-prompt"
    )

    # miles sizes each adapter's steps by the samples that were generated for it.
    if getattr(args, "multi_lora", False):
        raise UnsupportedError(
            "podsrl can't drop rows where miles trains several adapters at once (--multi-lora):"
            " train one"
        )

    # slime would subtract the mean of the kept advantages, which is not 0 with this baseline, and
    # push rows down that teach nothing.
    moves_advantages = getattr(args, "normalize_advantages", False) or not _normalises(args)
    if not selection.advantages_sum_to_zero and moves_advantages:
        raise UnsupportedError(
            f"pods.{selection.unbalanced_by} needs --advantage-estimator"
            f" {' or '.join(_SCALED)}, without"
            " --disable-rewards-normalization and --normalize-advantages; or give baseline: kept"
            " and a rule without weights"
        )
    return selection


def _check_batch_size(args: Any, selection: Selection) -> None:
    """Refuse a global batch that does not divide the kept rows."""
    if getattr(args, "use_dynamic_global_batch_size", False):
        return
    m = selection.num_kept
    size = args.global_batch_size
    rows = args.rollout_batch_size * m
    if not size or rows % size:
        raise InvalidInputError(
            f"--global-batch-size {size} does not divide the {rows} kept rows (--rollout-batch-size"
            f" {args.rollout_batch_size} x m = {m}), and slime would cut off the rest; give"
            f" --global-batch-size {rows} for one step per rollout, or {rows} divided by the number"
            " of steps, and leave out --num-steps-per-rollout, which counts all n"
        )


def _number_of_step(data: Sequence[Sequence[Any]]) -> int:
    """A number of this step's own: slime numbers groups through, over all steps."""
    first = next((sample for group in data for sample in group), None)
    return 0 if first is None else first.group_index or 0


def _note(args: Any, samples: Sequence[Any], advantages: Sequence[float]) -> None:
    """Note the advantages of kept samples, and give a reward to those that have none."""
    key = getattr(args, "reward_key", None)
    for sample, advantage in zip(samples, advantages, strict=True):
        sample.metadata[_ADVANTAGE] = advantage
        reward = sample.reward if isinstance(sample.reward, dict) else {key: sample.reward}
        if reward.get(key) is None:  # of which slime's own metrics make an error
            sample.metadata["unscorable"] = True
            sample.reward = {**reward, key: 0.0} if key else 0.0


def _normalises(args: Any) -> bool:
    return bool(args.rewards_normalization and args.advantage_estimator in _NORMALISED)


def _parts(sample: Any) -> dict[str, Any]:
    return sample.reward if isinstance(sample.reward, dict) else {}


def _is_removed(sample: Any) -> bool:
    """Whether the host's loss leaves a sample out, by `remove_sample`."""
    return bool(getattr(sample, "remove_sample", False))


def _reward(args: Any, sample: Any) -> float:
    """The reward of a sample; NaN if it could not be scored."""
    if isinstance(sample, list):
        raise UnsupportedError(
            "a custom generate function returned several samples for one rollout; podsrl can't tell"
            " which of their rewards is the rollout's. Return one sample per rollout"
        )
    if sample.reward is None or sample.metadata.get("unscorable"):
        return math.nan
    value = sample.get_reward_value(args)
    return math.nan if value is None else float(value)
