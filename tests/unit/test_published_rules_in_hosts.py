"""Each batch rule keeps the same rows in slime, verl, `pods select` and by itself."""

import json

import numpy as np
import pytest
from test_slime import arguments, groups
from test_verl_groups import rows, selection

import podsrl
from podsrl.cli import main
from podsrl.slime import select_rollouts
from podsrl.verl.groups import group_rows, kept_keys, select

PROMPTS, N, M = 3, 8, 2
RULES = ["top_advantage", "advantage_variance", "dynamic_sampling"]
RULES += ["variance_top_p", "variance_top_p(p=0.5)", "max_contrast", f"{__file__}:last_prompts"]


@podsrl.rule(scope="batch")
def last_prompts(rewards_P_N, rows, seed):
    """A rule of one's own."""
    places = np.arange(rewards_P_N.size).reshape(rewards_P_N.shape)
    return places >= rewards_P_N.size - rows


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.rpartition("/")[2])
def test_every_host_keeps_what_the_rule_keeps(rule, tmp_path, capsys):
    rewards = np.zeros((PROMPTS, N))
    rewards[0, 5], rewards[1, ::2], rewards[2, :7] = 1.0, 1.0, 1.0
    kept = podsrl.downsample_batch(rewards, PROMPTS * M, rule)
    assert kept.sum() == PROMPTS * M

    data = groups()
    for group, of_group in zip(data, rewards.tolist(), strict=True):
        for sample, reward in zip(group, of_group, strict=True):
            sample.reward = reward
    numbers = [[sample.index for sample in group] for group in data]
    batch = PROMPTS * M
    select_rollouts(arguments({"m": M, "rule": rule}, global_batch_size=batch), data)
    in_slime = [sample.index for group in data for sample in group]
    assert in_slime == [numbers[p][i] for p, i in np.argwhere(kept)]

    of_verl = {f"{'abc'[p]}_{i}_0": rewards[p, i] for p in range(PROMPTS) for i in range(N)}
    in_verl = select(group_rows(rows(of_verl)), selection(N, M, rule=rule), step=1)
    assert kept_keys(in_verl) == {f"{'abc'[p]}_{i}_0" for p, i in np.argwhere(kept)}

    path = tmp_path / "rollouts.jsonl"
    lines = [
        json.dumps({"prompt": f"p{p}", "completion": str(i), "reward": rewards[p, i]})
        for p in range(PROMPTS)
        for i in range(N)
    ]
    path.write_text("\n".join(lines) + "\n")
    assert main(["select", str(path), "--keep", str(M), "--rule", rule]) == 0
    assert capsys.readouterr().out.splitlines() == [lines[i] for i in np.flatnonzero(kept)]
