"""Rollouts with known rewards, as a trainer logs them."""


def rollouts(groups=2, n=4, m=2, text="{group}.{rollout}", prompt="prompt {group}"):
    """Rollouts whose reward falls with their number; the m at the two ends are kept."""
    pairs = [(g, r) for g in range(groups) for r in range(n)]
    kept = [r < m // 2 or r >= n - (m - m // 2) for _, r in pairs]
    rewards = [1.0 - r / max(n - 1, 1) for _, r in pairs]
    return {
        "group": [g for g, _ in pairs],
        "rollout": [r for _, r in pairs],
        "prompt": [prompt.replace("{group}", str(g)) for g, _ in pairs],
        "completion": [
            text.replace("{group}", str(g)).replace("{rollout}", str(r)) for g, r in pairs
        ],
        "reward": rewards,
        "kept": kept,
        "advantage": [x - 0.5 if k else None for x, k in zip(rewards, kept, strict=True)],
        "tokens": [10 + r for _, r in pairs],
        "rewards/correctness": rewards,
    }
