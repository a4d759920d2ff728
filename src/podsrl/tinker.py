"""PODS for tinker-cookbook: one function between its rollouts and its training data.

Training is billed there by the tokens of rows, so a row that is dropped is not paid for. Needs
`tinker_cookbook` 0.6 (and the `torch` that it brings).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from podsrl.selection import Selection, select_groups

if TYPE_CHECKING:
    from tinker_cookbook.rl.types import TrajectoryGroup
else:
    TrajectoryGroup = Any


class TrainingGroups(NamedTuple):
    """The arguments of `assemble_training_data`, and the metrics to log.

    Attributes:
        trajectory_groups_P: The groups with the trajectories that are trained on; groups of which
            none is left are left out.
        advantages_P: The advantages of these, of each group a tensor of shape (G,).
        metrics: Of all rollouts and of the kept ones, under `pods/`.
    """

    trajectory_groups_P: list[TrajectoryGroup]
    advantages_P: list[torch.Tensor]
    metrics: dict[str, float]


def select_trajectories(
    trajectory_groups_P: Sequence[TrajectoryGroup],
    selection: Selection,
    *,
    step: int = 0,
    scale: bool = False,
    skip_zero_advantage: bool = True,
) -> TrainingGroups:
    """Keep the trajectories that teach most, in the place of `compute_advantages`.

    Args:
        trajectory_groups_P: Groups of `do_group_rollout`; they are not changed. A total reward of
            NaN is one that could not be scored.
        selection: How; its selection_weights name metrics of a trajectory, from
            `compute_group_rewards`.
        step: The number of the step; with a seed each step draws anew.
        scale: Whether to divide by the standard deviation of a group, with 1e-6 added. False: the
            mean is subtracted and no more, as tinker-cookbook does.
        skip_zero_advantage: Whether kept trajectories of advantage 0 are left out, too. tinker's
            losses are sums over tokens, to which they add nothing.

    Returns:
        Groups and advantages for `assemble_training_data`. Both are empty where no trajectory has
        an advantage: leave out the training step then.

    Raises:
        InvalidInputError: An infinite reward, or a metric that is missing.
    """
    selected = select_groups(
        selection,
        [group.get_total_rewards() for group in trajectory_groups_P],
        parts=[group.metrics_G for group in trajectory_groups_P],
        step=step,
        scale=scale,
        eps=1e-6,
    )
    trained = selected.with_gradient if skip_zero_advantage else selected.of_kept

    groups: list[TrajectoryGroup] = []
    advantages: list[torch.Tensor] = []
    for group, advantage_of in zip(trajectory_groups_P, trained, strict=True):
        if not advantage_of:
            continue
        places = list(advantage_of)
        groups.append(
            replace(
                group,
                trajectories_G=[group.trajectories_G[place] for place in places],
                final_rewards_G=[group.final_rewards_G[place] for place in places],
                metrics_G=[group.metrics_G[place] for place in places],
            )
        )
        advantages.append(torch.tensor(list(advantage_of.values())))
    tokens = [_tokens_of(group) for group in trajectory_groups_P]
    return TrainingGroups(groups, advantages, selected.metrics(tokens))


def _tokens_of(group: TrajectoryGroup) -> list[int]:
    """The tokens of each trajectory: the last prompt with all before it, and its answer."""
    tokens = []
    for trajectory in group.trajectories_G:
        if not trajectory.transitions:
            tokens.append(0)
            continue
        last = trajectory.transitions[-1]
        tokens.append(last.ob.length + len(last.ac.tokens))
    return tokens
