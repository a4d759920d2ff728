"""The max_variance rule group by group in plain Python, to measure `downsample` against."""

from collections.abc import Sequence

import numpy as np
import torch


def scan(rewards_P_N: Sequence[Sequence[float]], m: int) -> list[list[int]]:
    """Algorithm 2 of arXiv 2504.13818 as it stands there: sort, then scan m + 1 candidates.

    Prefix sums of rewards and of their squares give each candidate's variance in constant time.
    """
    return [_scan_group(rewards_N, m) for rewards_N in rewards_P_N]


def _scan_group(rewards_N: Sequence[float], m: int) -> list[int]:
    n = len(rewards_N)
    order = sorted(range(n), key=rewards_N.__getitem__)
    total, squares = [0.0], [0.0]
    for i in order:
        total.append(total[-1] + rewards_N[i])
        squares.append(squares[-1] + rewards_N[i] ** 2)
    best, best_high = -1.0, 0
    for high in range(m + 1):
        low = m - high
        mean = (total[low] + total[n] - total[n - high]) / m
        variance = (squares[low] + squares[n] - squares[n - high]) / m - mean * mean
        if variance > best:
            best, best_high = variance, high
    return order[: m - best_high] + order[n - best_high :]


def per_group(rewards_P_N: np.ndarray, m: int) -> list[np.ndarray]:
    """Each group by itself, each candidate's variance computed again with numpy."""
    return [_best_of_group(rewards_N, m) for rewards_N in rewards_P_N]


def _best_of_group(rewards_N: np.ndarray, m: int) -> np.ndarray:
    n, order = len(rewards_N), np.argsort(rewards_N)
    kept = [np.concatenate([order[: m - high], order[n - high :]]) for high in range(m + 1)]
    return max(kept, key=lambda indices: float(np.var(rewards_N[indices])))


def per_group_torch(rewards_P_N: torch.Tensor, m: int) -> list[torch.Tensor]:
    """`per_group` with torch's functions."""
    return [_best_of_group_torch(rewards_N, m) for rewards_N in rewards_P_N]


def _best_of_group_torch(rewards_N: torch.Tensor, m: int) -> torch.Tensor:
    n, order = len(rewards_N), torch.argsort(rewards_N)
    kept = [torch.cat([order[: m - high], order[n - high :]]) for high in range(m + 1)]
    return max(kept, key=lambda indices: float(torch.var(rewards_N[indices], correction=0)))
