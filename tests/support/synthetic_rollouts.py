"""Rollouts with known rewards, as a trainer logs them."""


def rollouts(groups=2, n=4, m=2, text="{group}.{rollout}", prompt="prompt {group}"):
    """Rollouts whose reward falls with their number; the m at the two ends are kept."""
    lowest_kept = n - (m - m // 2)

    rows = []
    for group in range(groups):
        for rollout in range(n):
            reward = 1.0 - rollout / max(n - 1, 1)
            is_kept = rollout < m // 2 or rollout >= lowest_kept
            completion = text.replace("{group}", str(group)).replace("{rollout}", str(rollout))
            rows.append(
                {
                    "group": group,
                    "rollout": rollout,
                    "prompt": prompt.replace("{group}", str(group)),
                    "completion": completion,
                    "reward": reward,
                    "kept": is_kept,
                    "advantage": reward - 0.5 if is_kept else None,
                    "tokens": 10 + rollout,
                    "rewards/correctness": reward,
                }
            )

    return {name: [row[name] for row in rows] for name in rows[0]}
