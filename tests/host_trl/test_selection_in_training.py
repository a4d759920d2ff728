"""What PODSTrainer trains on: the kept rollouts, all of them, and nothing else."""

import functools
import itertools
from collections import Counter
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
from support.trl_runs import count_passed_rows, equal, logged, table_of, weights


def record_generations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Everything TRL's own `_generate` returns while training, before anything is dropped."""
    generations: list[Any] = []
    original = GRPOTrainer._generate

    def recorded(self: Any, prompts: list[Any]) -> Any:
        out = original(self, prompts)
        generations.append([(p, c) for p, c in zip(out[0], out[1], strict=True)])
        return out

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


def loss_by_hand(model: Any, rows: list[Any], advantages: list[float]) -> torch.Tensor:
    """L_PODS at ratio 1, rollout by rollout, without padding: -mean_i mean_t ratio_t a_i."""
    losses = []
    for (prompt, completion), advantage in zip(rows, advantages, strict=True):
        ids = torch.tensor([prompt + completion])
        logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        logps = logits.log_softmax(-1).gather(1, ids[0, len(prompt) :, None])[:, 0]
        ratio = (logps - logps.detach()).exp()
        losses.append(-(ratio * advantage).mean())
    return torch.stack(losses).mean()


def assert_weights_moved_by_the_gradient(
    trainer: Any, before: dict[str, torch.Tensor], rows: list[Any], advantages: list[float]
) -> float:
    """In one step of SGD at a learning rate of 1; returns the loss by hand."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    after = weights(trainer)
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
    rows = generations[0]
    table = table_of(trainer, 1)
    rewards = table["reward"].to_numpy().reshape(2, 12)
    # brute force over all 495 subsets of each group, in place of our own rule
    kept, advantages = [], []
    for group in range(2):
        values = np.float32(rewards[group]).astype(float)
        best = max(np.var(values[list(s)]) for s in itertools.combinations(range(12), 4))
        chosen = np.flatnonzero(table["kept"].to_numpy().reshape(2, 12)[group])
        assert len(chosen) == 4
        assert np.var(values[chosen]) == pytest.approx(best, rel=1e-9)
        reference = values[chosen] if baseline == "kept" else values
        kept += [rows[12 * group + i] for i in chosen]
        advantages += (
            (values[chosen] - reference.mean()) / (reference.std(ddof=1) + 1e-4)
        ).tolist()

    loss = assert_weights_moved_by_the_gradient(trainer, before, kept, advantages)
    assert logged(trainer)[0]["loss"] == pytest.approx(loss, abs=1e-5)


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
        if not generating:
            for ids, mask in zip(kwargs["input_ids"], kwargs["attention_mask"], strict=True):
                seen[tuple(ids[mask.bool()].tolist())] += 1

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", generate)
    models = [trainer.model] + ([trainer.ref_model] if trainer.ref_model is not None else [])
    for model in models:
        model.register_forward_pre_hook(count, with_kwargs=True)
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
    expected = [tuple(p + c) for (p, c), k in zip(generations[0], kept, strict=True) if k]
    # each kept row: once per pass of the update, once for old log-probs if there are several
    # passes, once for reference log-probs if beta > 0
    times = iterations + (iterations > 1) + (beta > 0)
    assert seen == Counter({ids: times * n for ids, n in Counter(expected).items()})


def test_padding_is_to_the_longest_kept_rollout(make_trainer, monkeypatch):
    shapes = []
    original = GRPOTrainer._generate_and_score_completions

    def recorded(self: Any, inputs: Any) -> Any:
        out = original(self, inputs)
        shapes.append(tuple(out["completion_ids"].shape))
        return out

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", recorded)

    def shortest(completion_ids: list[Any], **kwargs: Any) -> list[float]:
        return [-float(len(ids)) for ids in completion_ids]

    trainer = make_trainer(
        16, max_steps=1, reward_funcs=shortest, downsampling_rule="max_reward", temperature=2.0
    )
    trainer.train()
    table = table_of(trainer, 1)
    longest_kept = table["tokens"][table["kept"]].max()
    assert shapes == [(8, longest_kept)]
    assert longest_kept < table["tokens"].max()


def test_metrics_of_trl_describe_all_rollouts_and_those_of_pods_the_kept_ones(make_trainer):
    trainer = make_trainer(12, gradient_accumulation_steps=2, max_steps=1)
    trainer.train()
    (entry,) = logged(trainer)
    table = table_of(trainer, 1)
    assert len(table) == 4 * 12  # 2 micro-batches of 8 rows are 4 groups
    kept = table[table["kept"]]
    assert len(kept) == 16
    assert entry["reward"] == pytest.approx(table["reward"].mean(), rel=1e-5)
    assert entry["reward_std"] == pytest.approx(table["reward"].std(), rel=1e-5)
    assert entry["rewards/digits/mean"] == pytest.approx(table["rewards/digits"].mean(), rel=1e-5)
    assert entry["completions/mean_length"] == pytest.approx(table["tokens"].mean(), rel=1e-5)
    assert entry["pods/kept_reward"] == pytest.approx(kept["reward"].mean(), rel=1e-5)
    dropped = table["reward"][~table["kept"]]
    assert entry["pods/dropped_reward"] == pytest.approx(dropped.mean(), rel=1e-5)
    assert entry["pods/kept_reward_std"] == pytest.approx(kept["reward"].std(), rel=1e-5)
    assert entry["pods/rollouts_generated"] == 48
    assert entry["pods/rollouts_trained"] == 16
    assert entry["pods/dropped_tokens"] > entry["pods/kept_tokens"] > 0
    seconds = [entry[f"pods/seconds_{p}"] for p in ("generate", "score", "select", "update")]
    assert all(s >= 0 for s in seconds)
    assert sum(seconds) == pytest.approx(entry["pods/training_seconds"], rel=1e-6)
    assert entry["pods/peak_memory"] > 0


def test_the_rollout_log_holds_every_rollout_with_its_advantage_if_kept(make_trainer):
    trainer = make_trainer(10, max_steps=3)
    trainer.train()
    for step in (1, 2, 3):
        table = table_of(trainer, step)
        assert table["step"].unique().tolist() == [step]
        rewards = table["reward"].to_numpy().reshape(2, 10)
        kept = np.stack([np.flatnonzero(k) for k in table["kept"].to_numpy().reshape(2, 10)])
        advantages = podsrl.group_advantages(rewards, kept).flatten()
        np.testing.assert_allclose(table["advantage"].dropna(), advantages, atol=1e-4)
        assert table["advantage"].isna().equals(~table["kept"])
        assert table["prompt"].nunique() == 2
        assert table["completion"].str.contains("<think>").any()


@pytest.mark.parametrize("scale", ["group", "none", "batch"])
def test_equal_rewards_give_advantages_of_exactly_0_and_their_rows_are_skipped(
    make_trainer, monkeypatch, scale
):
    """In float32 the mean of eight rewards of 0.7 is another number than 0.7."""
    trained = count_passed_rows(monkeypatch)
    trainer = make_trainer(
        16,
        num_generations=8,
        max_steps=1,
        scale_rewards=scale,
        reward_funcs=lambda completions, **kwargs: [0.7] * len(completions),
    )
    trainer.train()
    (entry,) = logged(trainer)
    assert entry["pods/zero_advantage_rows"] == entry["pods/zero_variance_groups"] * 8 == 8
    assert table_of(trainer, 1)["advantage"].dropna().tolist() == [0.0] * 8
    assert list(trainer._logs["advantages"]) == [0.0] * 8
    assert trained == [1]


def test_the_rollout_log_can_be_switched_off_and_is_bounded(make_trainer):
    trainer = make_trainer(8, "off", rollout_log=False, max_steps=1)
    trainer.train()
    assert not (Path(trainer.args.output_dir) / "rollouts").exists()
    # 16 rows a step; at most 40: after step 3 every second step goes, after step 5 again
    trainer = make_trainer(8, "bounded", rollout_log_max_rows=40, max_steps=6)
    trainer.train()
    assert trainer.recorder.run.rollout_steps() == [1, 5]


@pytest.mark.parametrize("rule", ["max_reward", "random", "percentile"])
def test_the_other_rules_train_too(make_trainer, rule):
    trainer = make_trainer(8, downsampling_rule=rule, max_steps=1)
    trainer.train()
    table = table_of(trainer, 1)
    for _, group in table.groupby("group"):
        rewards = group["reward"].to_numpy()
        kept = np.flatnonzero(group["kept"])
        assert len(kept) == 4
        if rule == "max_reward":
            assert min(rewards[kept]) >= np.sort(rewards)[-4]


def first_ones(rewards_P_N: Any, m: int, seed: Any) -> Any:
    return np.arange(m)[None, :].repeat(len(rewards_P_N), axis=0)


def test_a_callable_is_a_rule_and_is_saved_by_name(make_trainer):
    trainer = make_trainer(8, downsampling_rule=first_ones, max_steps=1)
    try:
        assert trainer.args.downsampling_rule == f"{__name__}:first_ones"
        trainer.train()
        table = table_of(trainer, 1)
        assert table["rollout"][table["kept"]].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    finally:
        podsrl.RULES.pop(f"{__name__}:first_ones")


def test_a_rule_may_be_defined_anew_and_needs_a_name(tmp_path):
    def given(rule):
        return PODSConfig(str(tmp_path), bf16=False, downsampling_rule=rule).downsampling_rule

    # as where the cell of a notebook is run once more
    other = FunctionType(first_ones.__code__, globals())
    try:
        assert given(first_ones) == given(other) == f"{__name__}:first_ones"
        assert podsrl.RULES[f"{__name__}:first_ones"].function is other
    finally:
        podsrl.RULES.pop(f"{__name__}:first_ones")
    with pytest.raises(InvalidInputError, match="a function with a name"):
        given(functools.partial(first_ones))


@pytest.mark.slow
def test_rollouts_that_the_loss_leaves_out_are_kept_last(make_trainer):
    trainer = make_trainer(
        8, max_steps=1, mask_truncated_completions=True, max_completion_length=22, temperature=1.5
    )
    generate, select, seen = trainer._generate_and_score_completions, trainer._select, {}

    def look(inputs):
        output = generate(inputs)
        seen["masked"] = int((output["completion_mask"].sum(dim=1) == 0).sum())
        return output

    def look_at_all(rollouts):
        last = [ids[-1] for ids in rollouts.columns["completion_ids"]]
        seen["cut"] = (torch.tensor(last) != trainer._tokenizer.eos_token_id).view(-1, 8)
        return select(rollouts)

    trainer._generate_and_score_completions, trainer._select = look, look_at_all
    trainer.train()
    table = trainer.recorder.run.rollouts(1).to_pandas()
    seen["kept"] = torch.tensor(table["kept"]).view(-1, 8)
    finished = (~seen["cut"]).sum(dim=1)
    left_out = (seen["cut"] & seen["kept"]).sum(dim=1)
    assert 0 < finished.sum() < 16
    assert left_out.tolist() == (4 - finished).clamp(min=0).tolist()
    assert seen["masked"] == left_out.sum()
    assert logged(trainer)[0]["pods/zero_advantage_rows"] >= left_out.sum()


def test_one_rollout_of_each_prompt_is_its_best_one_against_all_n(make_trainer, monkeypatch):
    """`max_reward` with m = 1: right answers alone, weighted by how rare they are."""
    given: list[Any] = []
    compute_loss = GRPOTrainer._compute_loss

    def remember(self: Any, model: Any, inputs: dict[str, Any]) -> Any:
        given.extend(inputs["advantages"].tolist())
        return compute_loss(self, model, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", remember)
    best: dict[str, Any] = {"downsampling_rule": "max_reward", "advantage_baseline": "group"}
    trainer = make_trainer(6, num_generations=1, max_steps=1, **best)
    trainer.train()
    table = table_of(trainer, 1)
    rewards_P_N = table["reward"].to_numpy(float).reshape(8, 6)
    kept_P_N = table["kept"].to_numpy(bool).reshape(8, 6)
    assert (kept_P_N.sum(axis=1) == 1).all()
    assert (rewards_P_N[kept_P_N] == rewards_P_N.max(axis=1)).all()
    above = rewards_P_N.max(axis=1) - rewards_P_N.mean(axis=1)
    advantages = above / (rewards_P_N.std(axis=1, ddof=1) + 1e-4)
    taught = advantages[advantages > 0]  # equal rewards teach nothing, and are not passed
    assert sorted(given) == pytest.approx(sorted(taught.tolist()), abs=1e-4)
