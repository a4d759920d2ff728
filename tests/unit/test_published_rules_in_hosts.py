"""Each batch rule keeps the same rows in slime, verl, `pods select` and by itself."""

import json

import numpy as np
import pytest
from test_slime import arguments, groups
from test_verl_groups import rows, selection

import podsrl
from podsrl.cli import main
from podsrl.rules import RULES
from podsrl.slime import select_rollouts
from podsrl.verl.groups import group_rows, select

PROMPTS, N, M = 3, 8, 2
ROWS = PROMPTS * M
#: Every batch rule that there is, one with an argument, and one of a user's own.
BATCH_RULES = [name for name, rule in RULES.items() if rule.across_prompts]
ASKED_FOR = [*BATCH_RULES, "variance_top_p(p=0.5)", f"{__file__}:last_prompts"]


@podsrl.rule(scope="batch")
def last_prompts(rewards_P_N, rows, seed):
    """A rule of one's own."""
    places = np.arange(rewards_P_N.size).reshape(rewards_P_N.shape)
    return places >= rewards_P_N.size - rows


@pytest.fixture
def rewards():
    """One right answer, half of them, and all except one."""
    rewards_P_N = np.zeros((PROMPTS, N))
    rewards_P_N[0, 5] = 1.0
    rewards_P_N[1, ::2] = 1.0
    rewards_P_N[2, :7] = 1.0
    return rewards_P_N


def kept_in_slime(rewards, rule):
    """The places of the samples that are left, in the order of prompts and rollouts."""
    data = groups()
    for prompt, group in enumerate(data):
        for rollout, sample in enumerate(group):
            sample.reward = float(rewards[prompt, rollout])
            sample.index = prompt * N + rollout
    select_rollouts(arguments({"m": M, "rule": rule}, global_batch_size=ROWS), data)
    return [sample.index for group in data for sample in group]


def kept_in_verl(rewards, rule):
    place_of_key = {}
    reward_of_key = {}
    for place, reward in enumerate(rewards.ravel()):
        key = f"{'abc'[place // N]}_{place % N}_0"
        place_of_key[key] = place
        reward_of_key[key] = reward
    selected = select(group_rows(rows(reward_of_key)), selection(N, M, rule=rule), step=1)
    return sorted(place_of_key[key] for key in selected.kept_keys())


def kept_by_pods_select(rewards, rule, file, capsys):
    lines = []
    for place, reward in enumerate(rewards.ravel()):
        rollout = {"prompt": f"p{place // N}", "completion": str(place % N), "reward": reward}
        lines.append(json.dumps(rollout))
    file.write_text("\n".join(lines) + "\n")
    assert main(["select", str(file), "--keep", str(M), "--rule", rule]) == 0
    return [lines.index(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("rule", ASKED_FOR, ids=lambda rule: rule.rpartition("/")[2])
def test_every_host_keeps_what_the_rule_keeps(rule, rewards, tmp_path, capsys):
    kept = np.flatnonzero(podsrl.downsample_batch(rewards, ROWS, rule)).tolist()
    assert len(kept) == ROWS
    assert kept_in_slime(rewards, rule) == kept
    assert kept_in_verl(rewards, rule) == kept
    assert kept_by_pods_select(rewards, rule, tmp_path / "rollouts.jsonl", capsys) == kept
