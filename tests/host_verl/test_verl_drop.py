"""Dropping rows on a real TransferQueue, with verl's own balancing and advantages around it."""

import json
import math
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")

from tensordict import TensorDict
from verl.trainer.ppo.v1 import PPOTrainer

import podsrl
from podsrl import group_advantages
from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.inspector.answers import group_of, step_of
from podsrl.verl.groups import parse_key
from support.brute_force import highest_variance
from support.inspected import age, index_of

# every kept row has a pass; test_verl_spare.py has the rest
MODE = ("trainer.v1.trainer_mode=pods_sync", "+trainer.v1.pods_sync.skip_zero_advantage=false")
SYNC = (*MODE, "+trainer.v1.pods_sync.m=4")
PROMPTS, N, M = 4, 8, 4


def random_rewards(seed=0, prompts=PROMPTS, n=N):
    """Four prompts of eight rollouts with one row each, in the order in which they finish."""
    draw = np.random.default_rng(seed)
    keys = [f"uid{p}_{session}_0" for p in range(prompts) for session in range(n)]
    draw.shuffle(keys)
    return {key: float(draw.integers(0, 11)) / 10 for key in keys}


def by_prompt(rewards):
    """Rewards of each prompt in the order of their sessions, last row only."""
    groups = {}
    for key in sorted(rewards, key=parse_key):
        uid, session, _ = parse_key(key)
        groups.setdefault(uid, {})[session] = rewards[key]  # of a later row in place of an earlier
    return groups


def test_the_kept_rows_have_the_largest_variance_of_all_subsets_and_the_others_are_gone(
    make_trainer, put, keys_left
):
    rewards = random_rewards()
    batch = make_trainer(*SYNC)._balance_batch(put(rewards), metrics := {})

    assert keys_left() == set(batch.keys)
    assert len(batch) == PROMPTS * M
    for uid, group in by_prompt(rewards).items():
        kept = [rewards[key] for key in batch.keys if key.startswith(f"{uid}_")]
        assert len(kept) == M
        best = highest_variance(list(group.values()), M)
        assert np.var(kept) == pytest.approx(best, abs=1e-6)
    assert metrics["pods/padding_rows"] == 0


def test_the_kept_rows_keep_their_tags_and_what_verl_noted_of_the_batch(make_trainer, put):
    sampled = put(random_rewards())
    tag_of = dict(zip(sampled.keys, sampled.tags, strict=True))
    batch = make_trainer(*SYNC)._balance_batch(sampled, {})
    assert [tag_of[key] for key in batch.keys] == batch.tags
    assert batch.extra_info == {"temperature": 1.0}


def test_columns_are_read_as_often_for_many_rows_as_for_few(make_trainer, put, monkeypatch):
    """A column that is no tensor becomes a list of all rows each time that one looks it up."""
    lookups = Counter()
    look_up = TensorDict.__getitem__

    def counted(data, name):
        lookups[rows] += 1
        return look_up(data, name)

    trainer = make_trainer(*SYNC)
    monkeypatch.setattr(TensorDict, "__getitem__", counted)
    for prompts in (PROMPTS, 4 * PROMPTS):
        rows = prompts * N
        trainer._pods_select(put(random_rewards(prompts=prompts)))

    few, many = lookups.values()
    assert few == many > 0


def announced(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "podsrl.verl.trainer" and record.levelname == "INFO"
    ]


def test_m_equal_to_n_keeps_every_row(make_trainer, put, keys_left):
    rewards = random_rewards()
    trainer = make_trainer(*MODE, "+trainer.v1.pods_sync.m=8")
    batch = trainer._balance_batch(put(rewards), {})
    assert set(batch.keys) == set(rewards) == keys_left()


def test_left_at_n_rollouts_per_prompt_verl_pads_the_batch_back_to_its_old_size(make_trainer, put):
    """Why rollout.n is m while verl sizes the update: its own balancing of the kept rows alone."""
    trainer = make_trainer(*SYNC)
    kept = trainer._balance_batch(put(random_rewards()), {})
    assert len(kept) == PROMPTS * M
    batch = PPOTrainer._balance_batch(trainer, kept, {})
    assert len(batch) == PROMPTS * N
    assert sum(tag.get("is_padding", False) for tag in batch.tags) == PROMPTS * (N - M)


def rows_of(batch):
    """The keys of a balanced batch without verl's padding."""
    return {
        key
        for key, tag in zip(batch.keys, batch.tags, strict=True)
        if not tag.get("is_padding", False)
    }


def test_a_rollout_of_several_rows_is_kept_or_dropped_whole_by_its_last_row(
    make_trainer, put, keys_left
):
    # Sessions 1 and 2 have three rows each; what counts are their last rewards, 1 and 0.5.
    rewards = {f"uid_{session}_0": 0.0 for session in range(8)}
    rewards |= {"uid_1_0": 0.5, "uid_1_1": 0.5, "uid_1_2": 1.0}
    rewards |= {"uid_2_0": 1.0, "uid_2_1": 1.0, "uid_2_2": 0.5}
    trainer = make_trainer(*MODE, "+trainer.v1.pods_sync.m=2", "data.train_batch_size=1")
    batch = trainer._balance_batch(put(rewards), metrics := {})
    assert rows_of(batch) == {"uid_0_0", "uid_1_0", "uid_1_1", "uid_1_2"}
    assert rows_of(batch) == keys_left() & set(rewards)
    assert metrics["pods/rollouts"] == 8
    assert metrics["pods/kept_rollouts"] == 2


def test_the_metrics_of_a_step_are_those_worked_out_by_hand(make_trainer, put):
    # Kept of 0 0 0 1: two of 0 and 1. Kept of 0.5 0.5 0.5 and NaN: two of 0.5, which teach nothing.
    rewards = {"a_0_0": 0.0, "a_1_0": 0.0, "a_2_0": 0.0, "a_3_0": 1.0}
    rewards |= {"b_0_0": 0.5, "b_1_0": 0.5, "b_2_0": 0.5, "b_3_0": math.nan}
    trainer = make_trainer(*MODE, "+trainer.v1.pods_sync.m=2", "actor_rollout_ref.rollout.n=4")
    trainer._balance_batch(put(rewards), metrics := {})

    # Prompts have 3 tokens, responses 2 3 4 5 6 2 3 4; kept are a_0, a_3, b_0 and b_1.
    assert metrics.pop("pods/seconds_select") > 0
    assert {name: metrics[name] for name in metrics if name.startswith("pods/")} == {
        "pods/rollouts": 8,
        "pods/kept_rollouts": 4,
        "pods/kept_reward": pytest.approx(0.5),  # (0 + 1 + 0.5 + 0.5) / 4
        "pods/dropped_reward": pytest.approx(0.5 / 3),  # 0, 0, 0.5; NaN does not count
        "pods/kept_reward_std": pytest.approx(math.sqrt(0.5 / 3)),
        "pods/kept_tokens": 5 + 8 + 9 + 5,
        "pods/dropped_tokens": 6 + 7 + 6 + 7,
        "pods/zero_variance_groups": 1,
        "pods/zero_advantage_rows": 2,
        "pods/unscorable": 1,
        "pods/lost_rollouts": 8,  # of the 4 prompts of a batch, 2 came
        "pods/padding_rows": 4,  # to mini-batches of 4 prompts
        "pods/spared_rows": 0,
        "pods/correlation/acc": pytest.approx(1.0),  # the reward itself
    }


def test_a_group_that_lost_rollouts_is_kept_whole_if_no_more_than_m_are_left(make_trainer, put):
    rewards = random_rewards()
    lost = [f"uid0_{session}_0" for session in range(2, 8)]  # two of eight are left
    rewards = {key: reward for key, reward in rewards.items() if key not in lost}
    batch = make_trainer(*SYNC)._balance_batch(put(rewards), metrics := {})
    assert {"uid0_0_0", "uid0_1_0"} < rows_of(batch)
    assert len(rows_of(batch)) == metrics["pods/kept_rollouts"] == 2 + 3 * M


def test_verl_pads_only_what_short_groups_lack(make_trainer, put, caplog):
    rewards = random_rewards()
    lost = [f"uid0_{session}_0" for session in range(1, 8)]  # one of eight is left
    rewards = {key: reward for key, reward in rewards.items() if key not in lost}
    with caplog.at_level("INFO", logger="podsrl"):
        batch = make_trainer(*SYNC)._balance_batch(put(rewards), metrics := {})
    assert len(batch) == PROMPTS * M
    assert metrics["pods/padding_rows"] == M - 1
    assert announced(caplog) == [
        "pods_sync: method pods: selected 4 of 8 in 4 groups; the update sees 13 rows;"
        " every row has a pass (skip_zero_advantage=false)"
    ]


def test_the_first_step_is_announced_once(make_trainer, put, caplog):
    trainer = make_trainer(*SYNC)
    with caplog.at_level("INFO", logger="podsrl"):
        for seed in range(2):
            trainer._balance_batch(put(random_rewards(seed)), {})
    expected = (
        "pods_sync: method pods: selected 4 of 8 in 4 groups; the update sees 16 rows;"
        " every row has a pass (skip_zero_advantage=false)"
    )
    assert announced(caplog) == [expected]


def test_with_a_seed_the_choice_does_not_depend_on_names_or_order_of_rows(make_trainer, put):
    """verl draws uids anew in every run and rows come in the order in which they finish."""
    rewards = dict.fromkeys(random_rewards(), 0.0)  # all tied: the seed decides everything
    chosen = []
    for names, order in (("abcd", 0), ("wzyx", 5)):
        renamed = {}
        for key, reward in rewards.items():
            uid, rest = key.split("_", 1)  # uid0 to uid3
            renamed[f"{names[int(uid[-1])]}_{rest}"] = reward
        keys = sorted(renamed)
        np.random.default_rng(order).shuffle(keys)
        renamed = {key: renamed[key] for key in keys}

        trainer = make_trainer(*SYNC, "+trainer.v1.pods_sync.seed=3")
        indices = {name: 10 + i for i, name in enumerate(names)}
        kept = trainer._balance_batch(put(renamed, indices=indices), {})
        chosen.append({(names.index(key[0]), key[1:]) for key in kept.keys})
    assert chosen[0] == chosen[1]

    # In another step the draw is another one.
    trainer.global_steps = 2
    kept = trainer._balance_batch(put(renamed, indices=indices), {})
    assert {(names.index(key[0]), key[1:]) for key in kept.keys} != chosen[1]


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("baseline", ["kept", "group"])
def test_advantages_are_those_of_group_advantages(
    make_trainer, put, transfer_queue, baseline, scale
):
    """With baseline=kept they are verl's own, and must agree for the two to be comparable."""
    rewards = random_rewards()
    trainer = make_trainer(
        *SYNC,
        f"+trainer.v1.pods_sync.baseline={baseline}",
        f"algorithm.norm_adv_by_std_in_grpo={scale}",
    )
    batch = trainer._balance_batch(put(rewards), {})
    batch = trainer._compute_advantage(batch, {})

    data = transfer_queue.kv_batch_get(
        keys=batch.keys,
        partition_id="train",
        select_fields=["advantages", "returns", "response_mask"],
    )
    for uid, group in by_prompt(rewards).items():
        sessions = sorted(parse_key(key)[1] for key in batch.keys if key.startswith(f"{uid}_"))
        expected = group_advantages(list(group.values()), sessions, baseline, scale, eps=1e-6)
        for session, advantage in zip(sessions, expected, strict=True):
            place = batch.keys.index(f"{uid}_{session}_0")
            for field in ("advantages", "returns"):
                row = data[field][place]
                assert row.tolist() == pytest.approx([advantage] * len(row), abs=1e-5)


def advantages_of(batch, transfer_queue):
    """What the queue holds as the advantage of each row of a batch, at its first token."""
    data = transfer_queue.kv_batch_get(
        keys=batch.keys, partition_id="train", select_fields=["advantages"]
    )
    return {
        key: advantages[0].item()
        for key, advantages in zip(batch.keys, data["advantages"].unbind(), strict=True)
    }


def test_a_rollout_that_could_not_be_scored_is_not_kept_while_others_are_left(make_trainer, put):
    rewards = random_rewards()
    unscorable = {f"uid1_{session}_0" for session in range(4)}  # four scorable are left: just m
    rewards |= dict.fromkeys(unscorable, math.nan)
    kept = make_trainer(*SYNC)._balance_batch(put(rewards), metrics := {})
    assert not unscorable & set(kept.keys)
    assert metrics["pods/unscorable"] == 4


def test_a_kept_rollout_that_could_not_be_scored_has_advantage_0_and_counts_in_no_mean(
    make_trainer, put, transfer_queue
):
    rewards = random_rewards()
    rewards |= {f"uid1_{session}_0": math.nan for session in range(8)}
    rewards |= {"uid1_2_0": 1.0, "uid1_5_0": 0.0, "uid1_6_0": 0.0}  # fewer than m = 4
    trainer = make_trainer(*SYNC)
    batch = trainer._balance_batch(put(rewards), {})
    batch = trainer._compute_advantage(batch, {})

    found = advantages_of(batch, transfer_queue)
    assert not any(math.isnan(advantage) for advantage in found.values())

    # mean 1/3, unbiased std sqrt(1/3): (2/3) / sqrt(1/3) = 1.1547 and (-1/3) / sqrt(1/3) = -0.5774
    of_group = {key: found[key] for key in found if key.startswith("uid1_")}
    assert of_group.pop("uid1_2_0") == pytest.approx(1.1547, abs=1e-3)
    assert of_group.pop("uid1_5_0") == pytest.approx(-0.5774, abs=1e-3)
    assert of_group.pop("uid1_6_0") == pytest.approx(-0.5774, abs=1e-3)
    assert list(of_group.values()) == [0.0]


def test_a_reward_function_may_say_unscorable_in_place_of_nan(make_trainer, put, transfer_queue):
    """verl itself can't train with NaN, so reward functions return 0 and say so beside it."""
    rewards = random_rewards() | {f"uid1_{session}_0": 0.0 for session in range(8)}
    rewards |= {"uid1_2_0": 1.0, "uid1_5_0": 0.5}
    unscorable = {f"uid1_{session}_0" for session in (0, 1, 3, 4, 6, 7)}
    trainer = make_trainer(*SYNC)
    metrics = {}
    batch = trainer._balance_batch(put(rewards, unscorable=unscorable), metrics)
    batch = trainer._compute_advantage(batch, metrics)

    assert metrics["pods/unscorable"] == 6
    assert metrics["pods/zero_advantage_rows"] == 2  # of the four that are kept

    found = advantages_of(batch, transfer_queue)
    # of 1 and 0.5: mean 0.75, unbiased std 0.3536; (1 - 0.75) / 0.3536 = 0.7071
    assert found["uid1_2_0"] == pytest.approx(0.7071, abs=1e-3)
    assert found["uid1_5_0"] == pytest.approx(-0.7071, abs=1e-3)
    assert {found[key] for key in unscorable & set(found)} == {0.0}


def test_other_estimators_refuse_a_group_with_too_few_scorable_rollouts(make_trainer, put):
    rewards = random_rewards() | {f"uid1_{session}_0": math.nan for session in range(6)}
    trainer = make_trainer(*SYNC, "algorithm.adv_estimator=rloo")
    batch = trainer._balance_batch(put(rewards), {})
    with pytest.raises(UnsupportedError, match=r"than are kept of 1 prompts .* NaN"):
        trainer._compute_advantage(batch, {})


def test_an_infinite_reward_is_an_error_and_not_the_best_rollout(make_trainer, put):
    rewards = random_rewards() | {"uid1_3_0": math.inf}
    with pytest.raises(InvalidInputError, match="infinite"):
        make_trainer(*SYNC)._balance_batch(put(rewards), {})


def test_the_dump_of_rollouts_has_all_n_and_says_which_were_kept(make_trainer, put, tmp_path):
    rewards = random_rewards()
    trainer = make_trainer(*SYNC, f"trainer.rollout_data_dir={tmp_path}")
    trainer.tokenizer.pad_token_id = 0
    trainer.tokenizer.decode = lambda ids, skip_special_tokens: str(len(ids))
    trainer._init_dump_executor()

    batch = trainer._balance_batch(put(rewards), {})
    trainer._log_rollout_data(batch, {}, str(tmp_path))  # verl, at the end of the step
    trainer._shutdown_dump_executor()

    [file] = tmp_path.iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["uid"]: pytest.approx(row["score"]) for row in rows} == rewards
    assert {row["uid"] for row in rows if row["kept"]} == set(batch.keys)

    # `pods inspect` shows the same prompts, told apart by verl's keys
    scores_of_prompts = [sorted(group.values()) for group in by_prompt(rewards).values()]
    age(file)
    with index_of(tmp_path) as index:
        [run] = index.runs
        step = step_of(index, run, 1)
        assert step["prompts"] == PROMPTS
        for shown in step["groups"]:
            group = group_of(index, run, 1, shown["group"])
            scores = sorted(rollout["reward"] for rollout in group["rollouts"])
            assert scores in [pytest.approx(expected) for expected in scores_of_prompts]
            assert sum(rollout["kept"] for rollout in group["rollouts"]) == M


def test_rollout_n_is_m_while_verl_sizes_the_update_and_n_again_after_an_error(
    make_trainer, monkeypatch
):
    seen = []

    def run_out_of_memory(self, batch, metrics):
        seen.append(self.config.actor_rollout_ref.rollout.n)
        raise RuntimeError("out of memory")

    stages = ["_update_actor", "_update_critic", "_compute_advantage"]
    trainer = make_trainer(*SYNC)

    for stage in stages:
        monkeypatch.setattr(PPOTrainer, stage, run_out_of_memory)
        with pytest.raises(RuntimeError, match="out of memory"):
            getattr(trainer, stage)(None, {})
        assert trainer.config.actor_rollout_ref.rollout.n == N
    assert seen == [M] * len(stages)


def test_selection_weights_select_by_a_part_and_every_part_has_its_correlation(make_trainer, put):
    draw = np.random.default_rng(0)
    answers = {key: float(draw.random() < 0.5) for key in random_rewards()}
    form = {key: float(draw.random() < 0.3) for key in answers}
    rewards = {key: answers[key] + 0.2 * form[key] for key in answers}
    parts = {key: {"answer": answers[key], "form": form[key], "said": "x"} for key in answers}

    trainer = make_trainer(*SYNC, "+trainer.v1.pods_sync.selection_weights={answer: 1.0}")
    kept = trainer._balance_batch(put(rewards, parts=parts), metrics := {})

    for uid in by_prompt(rewards):
        of_all = sum(answers[key] for key in answers if key.startswith(f"{uid}_"))
        of_kept = sum(answers[key] for key in kept.keys if key.startswith(f"{uid}_"))
        # Two of four right ones vary most, as far as there are so many right and wrong ones.
        assert of_kept == max(min(2, of_all), of_all - 4)

    assert 0.5 < metrics["pods/correlation/answer"] <= 1
    assert {name for name in metrics if "correlation" in name} == {
        f"pods/correlation/{part}" for part in ("acc", "answer", "form")
    }


ACROSS = "+trainer.v1.pods_sync.rule=max_contrast"


def rows_by_prompt(batch):
    """How many rows of each prompt a batch has."""
    return Counter(parse_key(key)[0] for key in batch.keys)


def rewards_that_differ_for_two_prompts():
    """All right, except two rollouts of uid0 and four of uid2."""
    rewards = dict.fromkeys(random_rewards(), 1.0)
    wrong = {"uid0": 2, "uid2": 4}
    for uid, count in wrong.items():
        rewards |= {f"{uid}_{session}_0": 0.0 for session in range(count)}
    return rewards


def test_across_the_batch_rows_go_where_rewards_differ(make_trainer, put):
    trainer = make_trainer(*SYNC, ACROSS)
    rewards = rewards_that_differ_for_two_prompts()
    batch = trainer._balance_batch(put(rewards), metrics := {})
    assert rows_by_prompt(batch) == {"uid0": 8, "uid2": 8}
    assert metrics["pods/zero_advantage_rows"] == metrics["pods/padding_rows"] == 0

    # one prompt with contrast, of 8 rollouts: all of them, and 8 fillers of the other three
    of_one_prompt = dict.fromkeys(rewards, 1.0) | {"uid0_0_0": 0.0}
    batch = trainer._balance_batch(put(of_one_prompt), metrics := {})
    assert len(batch) == PROMPTS * M
    assert metrics["pods/zero_advantage_rows"] == 8


def test_across_the_batch_m_of_1_leaves_a_row_per_prompt_on_average_and_each_has_its_advantage(
    make_trainer, put, transfer_queue
):
    trainer = make_trainer(*SYNC, ACROSS, "trainer.v1.pods_sync.m=1")
    rewards = rewards_that_differ_for_two_prompts()
    batch = trainer._balance_batch(put(rewards), metrics := {})
    assert rows_by_prompt(batch) == {"uid0": 2, "uid2": 2}
    assert metrics["pods/zero_advantage_rows"] == metrics["pods/padding_rows"] == 0
    assert metrics["pods/zero_variance_groups"] == 0

    trainer._compute_advantage(batch, {})
    data = transfer_queue.kv_batch_get(
        keys=batch.keys, partition_id="train", select_fields=["advantages"]
    )
    for key, advantages in zip(batch.keys, data["advantages"].unbind(), strict=True):
        # Kept are one right and one wrong rollout: mean 0.5, unbiased std sqrt(0.5).
        expected = (rewards[key] - 0.5) / (0.5**0.5 + 1e-6)
        assert advantages.tolist() == pytest.approx([expected] * len(advantages))


def test_a_batch_rule_of_ones_own_selects_across_prompts(make_trainer, put, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\n"
        "import podsrl\n\n\n"
        "@podsrl.rule(scope='batch')\n"
        "def last_prompts(rewards_P_N, rows, seed):\n"
        "    places = np.arange(rewards_P_N.size).reshape(rewards_P_N.shape)\n"
        "    return places >= rewards_P_N.size - rows\n"
    )
    trainer = make_trainer(*SYNC, f"+trainer.v1.pods_sync.rule='{file}:last_prompts'")
    batch = trainer._balance_batch(put(random_rewards()), {})
    assert rows_by_prompt(batch) == {"uid2": N, "uid3": N}


@pytest.mark.parametrize("rule", ["max_variance", "max_contrast"])
def test_of_a_prompt_with_one_rollout_left_its_reward_is_no_advantage(
    make_trainer, put, transfer_queue, rule
):
    overrides = f"+trainer.v1.pods_sync.rule={rule}", "data.train_batch_size=2"
    trainer = make_trainer(*SYNC, *overrides)
    rewards = {"a_0_0": 0.0, "a_1_0": 1.0, "b_0_0": 0.7}
    trainer._compute_advantage(trainer._balance_batch(put(rewards), {}), {})

    data = transfer_queue.kv_batch_get(
        keys=["b_0_0"], partition_id="train", select_fields=["advantages"]
    )
    assert data["advantages"][0].tolist() == [0.0] * len(data["advantages"][0])


@pytest.mark.parametrize("rule", podsrl.RULES)
def test_every_rule_by_its_name_leaves_as_many_rows_as_it_should(make_trainer, put, rule):
    """Of prompts with 0, 2, 4 and 6 right rollouts of 8; across prompts none of the first."""
    rewards = {
        f"{prompt}_{session}_0": float(session < 2 * prompt)
        for prompt in range(PROMPTS)
        for session in range(N)
    }
    trainer = make_trainer(*SYNC, f"+trainer.v1.pods_sync.rule={rule}")
    kept = rows_by_prompt(trainer._balance_batch(put(rewards), {}))
    assert kept.total() == PROMPTS * M
    if podsrl.RULES[rule].across_prompts:
        assert kept["0"] == 0
    else:
        assert set(kept.values()) == {M}


def test_across_the_batch_another_estimator_is_refused(make_trainer):
    with pytest.raises(UnsupportedError, match=r"max_contrast .* algorithm\.adv_estimator=grpo"):
        make_trainer(*SYNC, ACROSS, "algorithm.adv_estimator=rloo")


def idle_rows(trainer, rewards, put):
    """What is logged of a step once verl has computed its advantages."""
    batch = trainer._balance_batch(put(rewards), metrics := {})
    trainer._compute_advantage(batch, metrics)
    return metrics["pods/zero_advantage_rows"]


def test_rows_of_advantage_0_are_counted_by_the_advantages_that_are_used(make_trainer, put):
    # The second prompt teaches nothing by GRPO; by REINFORCE++, which whitens the batch, it does.
    rewards = {f"a_{session}_0": session / 8 for session in range(8)}
    rewards |= {f"b_{session}_0": 1.0 for session in range(8)}
    sizes = ("data.train_batch_size=2", "actor_rollout_ref.actor.ppo_mini_batch_size=2")
    assert idle_rows(make_trainer(*SYNC, *sizes), rewards, put) == M
    other = make_trainer(*SYNC, *sizes, "algorithm.adv_estimator=reinforce_plus_plus")
    assert idle_rows(other, rewards, put) == 0
    rloo = make_trainer(*SYNC, *sizes, "algorithm.adv_estimator=rloo")
    assert idle_rows(rloo, rewards, put) == M


def test_of_agents_rows_of_advantage_0_are_rows_and_not_rollouts(make_trainer, put):
    rewards = {f"uid_{session}_{row}": 1.0 for session in range(8) for row in range(2)}
    trainer = make_trainer(
        *SYNC, "data.train_batch_size=1", "actor_rollout_ref.actor.ppo_mini_batch_size=1"
    )
    trainer._balance_batch(put(rewards), metrics := {})
    assert metrics["pods/kept_rollouts"] == M
    assert metrics["pods/zero_advantage_rows"] == 2 * M


def test_a_reward_of_none_is_told_and_what_to_return_in_its_place(
    make_trainer, put, transfer_queue
):
    """verl stores no reward then; so a rollout is put without that column."""
    batch = put(random_rewards(prompts=1))
    data = transfer_queue.kv_batch_get(
        [batch.keys[0]], partition_id="train", select_fields=["num_turns", "extra_fields", "uid"]
    )
    transfer_queue.kv_clear(keys=[batch.keys[0]], partition_id="train")
    transfer_queue.kv_batch_put(
        keys=[batch.keys[0]], partition_id="train", fields=data, tags=[batch.tags[0]]
    )
    with pytest.raises(InvalidInputError, match=r"returned None.*return math\.nan"):
        make_trainer(*SYNC)._balance_batch(batch, {})


def test_the_config_that_is_logged_says_what_the_run_was(make_trainer):
    v1 = make_trainer(*MODE, "+trainer.v1.pods_sync.m=4").config.trainer.v1
    assert v1.trainer_mode == "pods_sync"
    assert v1.pods_sync == {
        "m": 4,
        "method": "pods",
        "rule": "max_variance",
        "baseline": "kept",
        "skip_zero_advantage": False,
    }


@pytest.mark.parametrize(
    ("saved", "told"), [("[hf_model]", 1), ("[model,optimizer,extra]", 0)], ids=["lost", "whole"]
)
def test_a_resumed_run_whose_weights_were_not_loaded_tells_so(
    make_trainer, tmp_path, caplog, saved, told
):
    (tmp_path / "global_step_3").mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("3")
    trainer = make_trainer(
        *SYNC,
        f"trainer.default_local_dir={tmp_path}",
        f"actor_rollout_ref.actor.checkpoint.save_contents={saved}",
    )
    trainer.actor_rollout_wg.load_checkpoint = lambda **_: None

    with caplog.at_level("WARNING", logger="podsrl"):
        trainer._load_checkpoint()

    assert trainer.global_steps == 3
    messages = [record.getMessage() for record in caplog.records if record.name[:6] == "podsrl"]
    assert len(messages) == told
    for message in messages:
        assert "step 3 is resumed with the weights of the model as it was before" in message


def test_an_option_in_a_wrong_place_is_refused_before_any_worker_starts(make_trainer):
    with pytest.raises(InvalidInputError, match=r"does not read trainer\.v1\.pods; .*pods_sync"):
        make_trainer(*MODE, "+trainer.v1.pods.m=4")


def test_times_are_in_verls_names_and_that_of_the_selection_is_without_the_dump(
    make_trainer, put, tmp_path
):
    trainer = make_trainer(*SYNC, f"trainer.rollout_data_dir={tmp_path}")
    trainer.tokenizer.pad_token_id = 0
    trainer.tokenizer.decode = lambda ids, skip_special_tokens: str(len(ids))
    trainer._init_dump_executor()
    trainer._balance_batch(put(random_rewards()), metrics := {})
    trainer._shutdown_dump_executor()
    assert set(trainer.timing_raw) == {"pods_select", "dump_rollout_generations", "pods_drop"}
    assert metrics["pods/seconds_select"] == trainer.timing_raw["pods_select"]
