"""Rollouts with known rewards, as a trainer logs them."""


def rollouts(groups=2, n=4, m=2, text="{group}.{rollout}", prompt="prompt {group}"):
    """Rollouts whose reward falls with their number; the m at the two ends are kept."""
    columns = {
        "group": [],
        "rollout": [],
        "prompt": [],
        "completion": [],
        "reward": [],
        "kept": [],
        "advantage": [],
        "tokens": [],
        "rewards/correctness": [],
    }
    lowest_kept = n - (m - m // 2)
    for group in range(groups):
        for rollout in range(n):
            reward = 1.0 - rollout / max(n - 1, 1)
            is_kept = rollout < m // 2 or rollout >= lowest_kept
            completion = text.replace("{group}", str(group)).replace("{rollout}", str(rollout))
            columns["group"].append(group)
            columns["rollout"].append(rollout)
            columns["prompt"].append(prompt.replace("{group}", str(group)))
            columns["completion"].append(completion)
            columns["reward"].append(reward)
            columns["kept"].append(is_kept)
            columns["advantage"].append(reward - 0.5 if is_kept else None)
            columns["tokens"].append(10 + rollout)
            columns["rewards/correctness"].append(reward)
    return columns
