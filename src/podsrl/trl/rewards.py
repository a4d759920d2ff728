"""Rewards checked at the door."""

from collections.abc import Sequence

import torch

from podsrl.errors import RewardError


def check_rewards(rewards_P_N_F: torch.Tensor, names_F: Sequence[str]) -> None:
    """Refuse infinite rewards, naming the function that gave one.

    Raises:
        RewardError: with the function's name.
    """
    infinite = torch.isinf(rewards_P_N_F).flatten(0, -2).any(dim=0)
    if infinite.any():
        names = ", ".join(n for n, bad in zip(names_F, infinite.tolist(), strict=True) if bad)
        raise RewardError(
            f"reward function {names} returned an infinite reward; allowed are finite numbers, and"
            " None or NaN for a completion that could not be scored"
        )
