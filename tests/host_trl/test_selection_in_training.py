"""What PODSTrainer trains on: the kept rollouts, all of them, and nothing else."""

import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch
from trl import GRPOTrainer

import podsrl
from podsrl.errors import InvalidInputError
from podsrl.trl import PODSConfig
from support.brute_force import highest_variance
from support.trl_runs import count_passed_rows, equal, logged, table_of, weights

Row = tuple[list[int], list[int]]  # the token ids of a prompt and of a completion

# ---- bit for bit, and by hand --------------------------------------------------------------------


def record_generations(monkeypatch: pytest.MonkeyPatch) -> list[list[Row]]:
    """Everything TRL's own `_generate` returns while training, before anything is dropped."""
    generations: list[list[Row]] = []
    original = GRPOTrainer._generate

    def recorded(self: Any, prompts: list[Any]) -> Any:
        output = original(self, prompts)
        prompt_ids, completion_ids, *_ = output
        generations.append(list(zip(prompt_ids, completion_ids, strict=True)))
        return output

    monkeypatch.setattr(GRPOTrainer, "_generate", recorded)
    return generations


@pytest.mark.parametrize("accumulation", [1, 2])
def test_n_equal_to_m_is_grpo_bit_for_bit_over_5_steps(make_trainer, accumulation):
    fields = {"max_steps": 5, "gradient_accumulation_steps": accumulation}
    grpo = make_trainer(None, "grpo", **fields)  # sets the seed, so train before making another
    grpo.train()
    pods = make_trainer(4, "pods", **fields)
    before = weights(pods)
    pods.train()

    assert not equal(before, weights(pods))
    assert equal(weights(grpo), weights(pods))

    assert "frac_reward_zero_std" in logged(grpo)[0]
    assert len(logged(pods)) == 5
    for theirs, ours in zip(logged(grpo), logged(pods), strict=True):
        del theirs["step_time"]
        assert {name: ours[name] for name in theirs} == theirs


def loss_by_hand(model: Any, rows: list[Row], advantages: list[float]) -> torch.Tensor:
    """L_PODS at ratio 1, rollout by rollout, without padding: -mean_i mean_t ratio_t a_i."""
    losses = []
    for (prompt, completion), advantage in zip(rows, advantages, strict=True):
        ids = torch.tensor([prompt + completion])
        logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        logps_of_all = logits.log_softmax(-1)
        logps = logps_of_all.gather(1, ids[0, len(prompt) :, None])[:, 0]

        ratio = (logps - logps.detach()).exp()  # 1, with the gradient of logps
        losses.append(-(ratio * advantage).mean())

    return torch.stack(losses).mean()


def assert_weights_moved_by_the_gradient(
    trainer: Any, before: dict[str, torch.Tensor], rows: list[Row], advantages: list[float]
) -> float:
    """In one step of SGD at a learning rate of 1; returns the loss by hand."""
    after = weights(trainer)

    model = trainer.accelerator.unwrap_model(trainer.model)
    model.load_state_dict(before)
    model.eval()
    model.zero_grad()
    loss = loss_by_hand(model, rows, advantages)
    loss.backward()

    for name, parameter in model.named_parameters():
        torch.testing.assert_close(before[name] - after[name], parameter.grad, atol=1e-5, rtol=1e-3)
    return loss.item()


@pytest.mark.parametrize("baseline", ["kept", "group"])
def test_the_first_step_is_the_gradient_of_the_papers_loss_on_the_kept_rollouts(
    make_trainer, monkeypatch, baseline
):
    generations = record_generations(monkeypatch)
    trainer = make_trainer(
        12,
        max_steps=1,
        optim="sgd",
        learning_rate=1.0,
        max_grad_norm=0.0,
        temperature=1.0,
        advantage_baseline=baseline,
    )
    before = weights(trainer)
    trainer.train()

    table = table_of(trainer, 1)
    rewards_P_N = table["reward"].to_numpy(np.float32).astype(float).reshape(2, 12)
    kept_P_N = table["kept"].to_numpy().reshape(2, 12)
    advantages: list[float] = []
    for rewards, is_kept in zip(rewards_P_N, kept_P_N, strict=True):
        kept_rewards = rewards[is_kept]
        assert len(kept_rewards) == 4
        # brute force over all 495 subsets of each group, in place of our own rule
        assert np.var(kept_rewards) == pytest.approx(highest_variance(rewards, 4), rel=1e-9)

        reference = kept_rewards if baseline == "kept" else rewards
        deviation = reference.std(ddof=1) + 1e-4
        advantages += ((kept_rewards - reference.mean()) / deviation).tolist()

    kept_rows = [generations[0][place] for place in np.flatnonzero(kept_P_N)]
    loss = assert_weights_moved_by_the_gradient(trainer, before, kept_rows, advantages)
    assert logged(trainer)[0]["loss"] == pytest.approx(loss, abs=1e-5)


# ---- which rows the model sees -------------------------------------------------------------------


def count_rows_outside_generation(
    trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> Counter[tuple[int, ...]]:
    """How often each row enters the model, or the reference model, except to generate."""
    seen: Counter[tuple[int, ...]] = Counter()
    generating = []
    single_turn = GRPOTrainer._generate_single_turn

    def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        generating.append(True)
        try:
            return single_turn(self, *args, **kwargs)
        finally:
            generating.pop()

    def count(module: Any, args: Any, kwargs: Any) -> None:
        if generating:
            return
        for ids, mask in zip(kwargs["input_ids"], kwargs["attention_mask"], strict=True):
            row = tuple(ids[mask.bool()].tolist())
            seen[row] += 1

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", generate)
    trainer.model.register_forward_pre_hook(count, with_kwargs=True)
    if trainer.ref_model is not None:
        trainer.ref_model.register_forward_pre_hook(count, with_kwargs=True)
    return seen


@pytest.mark.parametrize(("beta", "iterations"), [(0.0, 1), (0.1, 1), (0.0, 2), (0.1, 2)])
def test_only_kept_rows_enter_the_model_outside_generation(
    make_trainer, monkeypatch, beta, iterations
):
    generations = record_generations(monkeypatch)
    trainer = make_trainer(12, max_steps=iterations, beta=beta, num_iterations=iterations)
    seen = count_rows_outside_generation(trainer, monkeypatch)
    trainer.train()

    kept = table_of(trainer, 1)["kept"].to_numpy()
    assert kept.reshape(2, 12).sum(axis=1).tolist() == [4, 4]

    kept_rows = [generations[0][place] for place in np.flatnonzero(kept)]
    times_kept = Counter(tuple(prompt + completion) for prompt, completion in kept_rows)
    # each kept row: once per pass of the update, once for old log-probs if there are several
    # passes, once for reference log-probs if beta > 0
    passes = iterations + (iterations > 1) + (beta > 0)
    assert seen == Counter({row: passes * times for row, times in times_kept.items()})


def test_padding_is_to_the_longest_kept_rollout(make_trainer, monkeypatch):
    shapes = []
    original = GRPOTrainer._generate_and_score_completions

    def recorded(self: Any, inputs: Any) -> Any:
        output = original(self, inputs)
        shapes.append(tuple(output["completion_ids"].shape))
        return output

    def shortest(completion_ids: list[Any], **kwargs: Any) -> list[float]:
        return [-float(len(ids)) for ids in completion_ids]

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", recorded)
    trainer = make_trainer(
        16, max_steps=1, reward_funcs=shortest, downsampling_rule="max_reward", temperature=2.0
    )
    trainer.train()

    table = table_of(trainer, 1)
    longest_kept = table["tokens"][table["kept"]].max()
    assert shapes == [(8, longest_kept)]
    assert longest_kept < table["tokens"].max()


# ---- what is logged ------------------------------------------------------------------------------


def test_metrics_of_trl_describe_all_rollouts_and_those_of_pods_the_kept_ones(make_trainer):
    trainer = make_trainer(12, gradient_accumulation_steps=2, max_steps=1)
    trainer.train()

    (metrics,) = logged(trainer)
    table = table_of(trainer, 1)
    kept = table[table["kept"]]
    dropped = table[~table["kept"]]
    assert len(table) == 4 * 12  # 2 micro-batches of 8 rows are 4 groups
    assert len(kept) == 16

    expected = {
        "reward": table["reward"].mean(),
        "reward_std": table["reward"].std(),
        "rewards/digits/mean": table["rewards/digits"].mean(),
        "completions/mean_length": table["tokens"].mean(),
        "pods/kept_reward": kept["reward"].mean(),
        "pods/kept_reward_std": kept["reward"].std(),
        "pods/dropped_reward": dropped["reward"].mean(),
    }
    for name, value in expected.items():
        assert metrics[name] == pytest.approx(value, rel=1e-5), name

    assert metrics["pods/rollouts_generated"] == 48
    assert metrics["pods/rollouts_trained"] == 16
    assert metrics["pods/dropped_tokens"] > metrics["pods/kept_tokens"] > 0


def test_the_seconds_of_the_phases_of_a_step_are_those_of_its_training(make_trainer):
    trainer = make_trainer(12, gradient_accumulation_steps=2, max_steps=1)
    trainer.train()

    (metrics,) = logged(trainer)
    phases = ("generate", "score", "select", "update")
    seconds = [metrics[f"pods/seconds_{phase}"] for phase in phases]
    assert all(value >= 0 for value in seconds)
    assert sum(seconds) == pytest.approx(metrics["pods/training_seconds"], rel=1e-6)
    assert metrics["pods/peak_memory"] > 0


def test_the_rollout_log_holds_every_rollout_with_its_advantage_if_kept(make_trainer):
    trainer = make_trainer(10, max_steps=3)
    trainer.train()

    for step in (1, 2, 3):
        table = table_of(trainer, step)
        assert table["step"].unique().tolist() == [step]
        assert table["prompt"].nunique() == 2
        assert table["completion"].str.contains("<think>").any()

        rewards_P_N = table["reward"].to_numpy().reshape(2, 10)
        kept_P_N = table["kept"].to_numpy().reshape(2, 10)
        indices_P_M = np.stack([np.flatnonzero(kept_N) for kept_N in kept_P_N])
        advantages_P_M = podsrl.group_advantages(rewards_P_N, indices_P_M)
        logged_advantages = table["advantage"].dropna()
        np.testing.assert_allclose(logged_advantages, advantages_P_M.flatten(), atol=1e-4)
        assert table["advantage"].isna().equals(~table["kept"])


@pytest.mark.parametrize("scale", ["group", "none", "batch"])
def test_equal_rewards_give_advantages_of_exactly_0_and_their_rows_are_skipped(
    make_trainer, monkeypatch, scale
):
    """In float32 the mean of eight rewards of 0.7 is another number than 0.7."""
    rows_passed = count_passed_rows(monkeypatch)
    trainer = make_trainer(
        16,
        num_generations=8,
        max_steps=1,
        scale_rewards=scale,
        reward_funcs=lambda completions, **kwargs: [0.7] * len(completions),
    )
    trainer.train()

    (metrics,) = logged(trainer)
    assert metrics["pods/zero_advantage_rows"] == 8
    assert metrics["pods/zero_variance_groups"] == 1
    assert table_of(trainer, 1)["advantage"].dropna().tolist() == [0.0] * 8
    assert list(trainer._logs["advantages"]) == [0.0] * 8
    assert rows_passed == [1]  # a step without any pass would have no loss


def test_the_rollout_log_can_be_switched_off(make_trainer):
    trainer = make_trainer(8, rollout_log=False, max_steps=1)
    trainer.train()
    assert not (Path(trainer.args.output_dir) / "rollouts").exists()


def test_the_rollout_log_is_bounded(make_trainer):
    """16 rows a step, at most 40: after step 3 every second step goes, after step 5 again."""
    trainer = make_trainer(8, rollout_log_max_rows=40, max_steps=6)
    trainer.train()
    assert trainer.pods.recorder.run.rollout_steps() == [1, 5]


# ---- rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["max_reward", "random", "percentile"])
def test_the_other_rules_train_too(make_trainer, rule):
    trainer = make_trainer(8, downsampling_rule=rule, max_steps=1)
    trainer.train()

    for _, group in table_of(trainer, 1).groupby("group"):
        rewards = group["reward"].to_numpy()
        kept_rewards = rewards[group["kept"].to_numpy()]
        assert len(kept_rewards) == 4
        if rule == "max_reward":
            fourth_best = np.sort(rewards)[-4]
            assert min(kept_rewards) >= fourth_best


def first_ones(rewards_P_N: Any, m: int, seed: Any) -> Any:
    return np.arange(m)[None, :].repeat(len(rewards_P_N), axis=0)


FIRST_ONES = f"{__name__}:first_ones"


@pytest.fixture
def _rule_is_forgotten() -> Iterator[None]:
    """`first_ones` is registered by the test only."""
    yield
    podsrl.RULES.pop(FIRST_ONES)


@pytest.mark.usefixtures("_rule_is_forgotten")
def test_a_callable_is_a_rule_and_is_saved_by_name(make_trainer):
    trainer = make_trainer(8, downsampling_rule=first_ones, max_steps=1)
    trainer.train()

    assert trainer.args.downsampling_rule == FIRST_ONES
    table = table_of(trainer, 1)
    assert table["rollout"][table["kept"]].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def name_in_config(rule: Any) -> str:
    """What a config calls a rule that it is given."""
    return PODSConfig("unused", bf16=False, downsampling_rule=rule).downsampling_rule


@pytest.mark.usefixtures("_rule_is_forgotten")
def test_a_rule_may_be_defined_anew():
    # as where the cell of a notebook is run once more
    defined_anew = FunctionType(first_ones.__code__, globals())
    assert name_in_config(first_ones) == FIRST_ONES
    assert name_in_config(defined_anew) == FIRST_ONES
    assert podsrl.RULES[FIRST_ONES].function is defined_anew


def test_a_rule_needs_a_name():
    with pytest.raises(InvalidInputError, match="a function with a name"):
        name_in_config(functools.partial(first_ones))


# ---- rows that are cut off, and single ones ------------------------------------------------------


@pytest.mark.slow
def test_rollouts_that_the_loss_leaves_out_are_kept_last(make_trainer):
    trainer = make_trainer(
        8, max_steps=1, mask_truncated_completions=True, max_completion_length=22, temperature=1.5
    )
    generate_and_score = trainer._generate_and_score_completions
    select = trainer.pods._select
    masked_rows = []  # of the update
    cut_off = []  # of all rollouts

    def count_masked_rows(inputs):
        output = generate_and_score(inputs)
        trained_tokens = output["completion_mask"].sum(dim=1)
        masked_rows.append(int((trained_tokens == 0).sum()))
        return output

    def find_cut_off(rollouts):
        end = trainer._tokenizer.eos_token_id
        cut_off.extend(ids[-1] != end for ids in rollouts.columns["completion_ids"])
        return select(rollouts)

    trainer._generate_and_score_completions = count_masked_rows
    trainer.pods._select = find_cut_off
    trainer.train()

    table = table_of(trainer, 1)
    kept_P_N = table["kept"].to_numpy().reshape(2, 8)
    masked_P_N = np.array(cut_off).reshape(2, 8)
    finished_P = (~masked_P_N).sum(axis=1)
    kept_and_cut_off_P = (masked_P_N & kept_P_N).sum(axis=1)
    assert 0 < finished_P.sum() < 16  # or nothing is tested
    assert kept_and_cut_off_P.tolist() == (4 - finished_P).clip(min=0).tolist()
    assert masked_rows == [kept_and_cut_off_P.sum()]
    assert logged(trainer)[0]["pods/zero_advantage_rows"] >= kept_and_cut_off_P.sum()


def test_one_rollout_of_each_prompt_is_its_best_one_against_all_n(make_trainer, monkeypatch):
    """`max_reward` with m = 1: right answers alone, weighted by how rare they are."""
    passed_advantages: list[float] = []
    compute_loss = GRPOTrainer._compute_loss

    def remember(self: Any, model: Any, inputs: dict[str, Any]) -> Any:
        passed_advantages.extend(inputs["advantages"].tolist())
        return compute_loss(self, model, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", remember)
    trainer = make_trainer(
        6,
        num_generations=1,
        max_steps=1,
        downsampling_rule="max_reward",
        advantage_baseline="group",
        skip_zero_advantage=True,  # a loss that is changed is given every row otherwise
    )
    trainer.train()

    table = table_of(trainer, 1)
    rewards_P_N = table["reward"].to_numpy(float).reshape(8, 6)
    kept_P_N = table["kept"].to_numpy(bool).reshape(8, 6)
    best_P = rewards_P_N.max(axis=1)
    assert (kept_P_N.sum(axis=1) == 1).all()
    assert (rewards_P_N[kept_P_N] == best_P).all()

    deviation_P = rewards_P_N.std(axis=1, ddof=1) + 1e-4
    advantages_P = (best_P - rewards_P_N.mean(axis=1)) / deviation_P
    teaching = advantages_P[advantages_P > 0]  # equal rewards teach nothing, and are not passed
    assert sorted(passed_advantages) == pytest.approx(sorted(teaching.tolist()), abs=1e-4)
