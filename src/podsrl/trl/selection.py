"""One generation's rewards and what was kept of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from trl.trainer.utils import nanstd

from podsrl.downsampling import Rule, downsample
from podsrl.errors import RewardError
from podsrl.trl.ranks import Columns, balance


@dataclass
class Selection:
    """P groups of N scored rollouts, of which M are kept; the same on every rank.

    A rollout's place is its index in the flattened P x N batch.

    Attributes:
        rewards_P_N_F: by reward function; NaN where a function gave none.
        rewards_P_N: weighted sums; NaN where no function gave one.
        kept_P_M: indices of the kept rollouts, ascending.
        rollouts: all rollouts' columns in order of place.
        by_rank: for each rank the kept rollouts that it trains on, as indices into `kept_places`.
        tokens: prompt and completion tokens of every rollout.
    """

    rewards_P_N_F: torch.Tensor
    rewards_P_N: torch.Tensor
    kept_P_M: torch.Tensor
    rollouts: Columns
    by_rank: list[list[int]]
    kept_places: list[int] = field(init=False)
    tokens: list[int] = field(init=False)

    def __post_init__(self) -> None:
        groups, n = self.rewards_P_N.shape
        first_place = n * torch.arange(groups, device=self.kept_P_M.device)[:, None]
        self.kept_places = (first_place + self.kept_P_M).flatten().tolist()
        ids, prompt_ids = self.rollouts["completion_ids"] or (), self.rollouts["prompt_ids"] or ()
        self.tokens = [len(c) + len(p) for c, p in zip(ids, prompt_ids, strict=True)]

    @classmethod
    def choose(
        cls,
        rewards_P_N_F: torch.Tensor,
        weights_F: torch.Tensor,
        rollouts: Columns,
        m: int,
        rule: Rule,
        seed: list[int],
        ranks: int,
    ) -> "Selection":
        """Sum the weighted rewards as TRL does, and let the rule keep m of each group."""
        weighted = rewards_P_N_F * weights_F.to(rewards_P_N_F.device)
        unscorable = torch.isnan(rewards_P_N_F).all(dim=-1)
        rewards_P_N = weighted.nansum(dim=-1).masked_fill(unscorable, torch.nan)
        kept_P_M = downsample(rewards_P_N, m, rule, seed)
        self = cls(rewards_P_N_F, rewards_P_N, kept_P_M, rollouts, [])
        self.by_rank = balance([self.tokens[place] for place in self.kept_places], ranks)
        return self

    @property
    def kept_rewards(self) -> torch.Tensor:
        """Weighted rewards of the kept rollouts, shape (P, M)."""
        return self.rewards_P_N.gather(1, self.kept_P_M)

    @property
    def kept_rewards_per_func(self) -> torch.Tensor:
        """Rewards of the kept rollouts by function, shape (P * M, F), groups contiguous."""
        flat = self.rewards_P_N_F.flatten(0, 1)
        return flat[torch.tensor(self.kept_places, device=flat.device)]

    @property
    def any_scorable(self) -> bool:
        """Did any rollout get a reward?"""
        return not bool(torch.isnan(self.rewards_P_N).all())

    def metrics(self, names_F: Sequence[str]) -> dict[str, float]:
        """TRL's reward metrics over all n rollouts, and what the update saw under `pods/`."""
        flat = self.rewards_P_N_F.flatten(0, 1)
        kept = self.kept_rewards
        tokens = self.tokens
        kept_tokens = sum(tokens[place] for place in self.kept_places)
        found = {
            "reward": _mean(self.rewards_P_N),
            "reward_std": nanstd(self.rewards_P_N.flatten()).item(),
            "frac_reward_zero_std": _constant(self.rewards_P_N).float().mean().item(),
            "pods/num_rollouts": float(self.rewards_P_N.shape[1]),
            "pods/kept_reward": _mean(kept),
            "pods/dropped_reward": self._dropped_mean(),
            "pods/kept_reward_std": nanstd(kept.flatten()).item(),
            "pods/kept_tokens": float(kept_tokens),
            "pods/dropped_tokens": float(sum(tokens) - kept_tokens),
            "pods/zero_variance_groups": _constant(kept).float().sum().item(),
            "pods/unscorable": torch.isnan(self.rewards_P_N).float().sum().item(),
        }
        for i, name in enumerate(names_F):
            found[f"rewards/{name}/mean"] = _mean(flat[:, i])
            found[f"rewards/{name}/std"] = nanstd(flat[:, i]).item()
        return found

    def _dropped_mean(self) -> float:
        dropped = torch.ones_like(self.rewards_P_N, dtype=torch.bool)
        return _mean(self.rewards_P_N[dropped.scatter(1, self.kept_P_M, False)])

    def log_columns(
        self, prompts_P: Sequence[str], names_F: Sequence[str], advantages_P_M: torch.Tensor
    ) -> dict[str, list[Any]]:
        """All rollouts as columns of the rollout log."""
        groups, n = self.rewards_P_N.shape
        advantages: list[float | None] = [None] * (groups * n)
        for place, advantage in zip(
            self.kept_places, advantages_P_M.flatten().tolist(), strict=True
        ):
            advantages[place] = advantage
        by_func = self.rewards_P_N_F.flatten(0, 1).T.tolist()
        return {
            "group": [g for g in range(groups) for _ in range(n)],
            "rollout": [i for _ in range(groups) for i in range(n)],
            "prompt": [prompt for prompt in prompts_P for _ in range(n)],
            "completion": [_text(c) for c in self.rollouts["completion"] or ()],
            "reward": _or_none(self.rewards_P_N.flatten().tolist()),
            "kept": [a is not None for a in advantages],
            "advantage": advantages,
            "tokens": [len(ids) for ids in self.rollouts["completion_ids"] or ()],
            **{f"rewards/{f}": _or_none(r) for f, r in zip(names_F, by_func, strict=True)},
        }


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


def _text(completion: Any) -> str:
    """A completion is text, or a conversation whose last message is the model's."""
    return completion if isinstance(completion, str) else str(completion[-1].get("content") or "")


def _mean(x: torch.Tensor) -> float:
    return torch.nanmean(x).item()


def _constant(rewards: torch.Tensor) -> torch.Tensor:
    """Which groups have no spread, and so no signal? Unscorable rollouts don't count."""
    deviation = nanstd(rewards, dim=-1)
    return torch.isnan(deviation) | torch.isclose(deviation, torch.zeros_like(deviation))


def _or_none(values: Sequence[float]) -> list[float | None]:
    return [None if v != v else v for v in values]
