"""`rollouts_per_round`: generate r of each prompt, and the rest only where it can help."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from test_selection_in_training import count_rows_outside_generation, record_generations

import podsrl.generation as fast
from podsrl.errors import InvalidInputError, RewardError, UnsupportedError
from podsrl.trl import PODSConfig
from support.agents import agent_trainer, questions, square, vision_model
from support.trl_runs import logged

N, R = 10, 4
#: Four prompts per step, of which the update sees m = 4 rows each.
ROUNDS: dict[str, Any] = {
    "rollouts_per_round": R, "reward_range": [0, 1], "per_device_train_batch_size": 16,
    "max_steps": 1,
}  # fmt: skip


def coins() -> Any:
    """A reward function that draws 0 or 1."""
    rng = np.random.default_rng(0)

    def coin(completions: list[Any], **kwargs: Any) -> list[float]:
        return rng.integers(0, 2, len(completions)).astype(float).tolist()

    return coin


class Scripted:
    """Rewards by round and place in it; remembers the prompts that it was given."""

    __name__ = "scripted"

    def __init__(self, *rounds: list[float | None]) -> None:
        self.rounds, self.prompts = list(rounds), []

    def __call__(self, prompts: list[Any], **kwargs: Any) -> list[float | None]:
        self.prompts.append([prompt[-1]["content"] for prompt in prompts])
        return self.rounds.pop(0)


def table_of(trainer: Any) -> Any:
    path = Path(trainer.args.output_dir) / "rollouts" / "step_000001.parquet"
    return pq.read_table(path).to_pandas()


def count_sequences(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sequences transformers is asked for, call by call."""
    asked: list[int] = []
    model = trainer.accelerator.unwrap_model(trainer.model)
    where, name = (fast, "generate") if trainer.args.fast_generation else (model, "generate")
    generate = getattr(where, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        asked.append(len(kwargs["input_ids"]))
        return generate(*args, **kwargs)

    monkeypatch.setattr(where, name, counted)
    return asked


@pytest.mark.parametrize("fast_generation", [True, False])
def test_the_rest_is_generated_for_prompts_without_half_right_and_half_wrong(
    make_trainer, monkeypatch, fast_generation
):
    r, groups = 6, 8
    generations = record_generations(monkeypatch)
    fields = {**ROUNDS, "rollouts_per_round": r, "per_device_train_batch_size": 4 * groups}
    trainer = make_trainer(N, reward_funcs=coins(), fast_generation=fast_generation, **fields)
    asked = count_sequences(trainer, monkeypatch)
    seen = count_rows_outside_generation(trainer, monkeypatch)
    trainer.train()

    table = table_of(trainer)
    first = table[table["rollout"] < r]
    right = first.groupby("group")["reward"].sum().to_numpy()
    goes_on = [group for group in range(groups) if not 2 <= right[group] <= r - 2]
    assert 0 < len(goes_on) < groups
    assert asked == [groups * r, len(goes_on) * (N - r)]
    sizes = [N if group in goes_on else r for group in range(groups)]
    assert table["group"].value_counts(sort=False).sort_index().tolist() == sizes
    assert table.groupby("group")["kept"].sum().tolist() == [4] * groups
    assert table.groupby("group")["prompt"].nunique().tolist() == [1] * groups
    for _, group in table.groupby("group"):
        rewards = group["reward"].to_numpy()
        kept = group[group["kept"]]
        wrong, right = (int((rewards == value).sum()) for value in (0, 1))
        assert kept["reward"].sum() == min(max(2, 4 - wrong), right)
        values = kept["reward"].to_numpy()
        expected = (values - values.mean()) / (values.std(ddof=1) + 1e-4)
        np.testing.assert_allclose(kept["advantage"], expected, atol=1e-5)

    # rounds of TRL's generations, in order of place: only kept ones enter the model
    places = [g * N + j for g in range(groups) for j in range(r)]
    places += [g * N + j for g in goes_on for j in range(r, N)]
    row_of = dict(zip(places, generations[0] + generations[1], strict=True))
    kept = table[table["kept"]]
    expected = [row_of[g * N + j] for g, j in zip(kept["group"], kept["rollout"], strict=True)]
    assert seen == Counter(tuple(prompt + completion) for prompt, completion in expected)

    (entry,) = logged(trainer)
    assert entry["pods/rollouts_saved"] == pytest.approx(1 - len(table) / (groups * N))
    assert entry["pods/rollouts_generated"] == len(table)
    assert entry["pods/rollouts_trained"] == 4 * groups
    assert entry["pods/unscorable"] == 0
    tokens = sum(len(prompt) + len(completion) for prompt, completion in row_of.values())
    assert entry["pods/tokens_generated"] == entry["num_tokens"] == tokens
    # the host's own names: first rounds only
    assert entry["reward"] == entry["rewards/coin/mean"] == pytest.approx(first["reward"].mean())
    assert entry["completions/mean_length"] == pytest.approx(first["tokens"].mean())


def test_what_could_not_be_scored_is_no_evidence_and_the_reward_functions_see_the_right_rows(
    make_trainer, monkeypatch
):
    first = [*(1, 0, 1, 0), *(1, None, 0, 1), *(None,) * 4, *(0,) * 4]
    second = [*(1, 1, 1, 1, 1, 0), *(None,) * 6, *(0, 0, None, 0, 0, 1)]
    reward = Scripted(first, second)
    trainer = make_trainer(N, reward_funcs=reward, **ROUNDS)
    asked = count_sequences(trainer, monkeypatch)
    trainer.train()
    assert asked == [16, 18]  # the first prompt has its contrast
    prompts = reward.prompts[0][::R]
    assert reward.prompts[0] == [p for p in prompts for _ in range(R)]
    assert reward.prompts[1] == [p for p in prompts[1:] for _ in range(N - R)]
    table = table_of(trainer)
    kept = [list(g["reward"][g["kept"]].fillna(-1)) for _, g in table.groupby("group")]
    assert [sorted(rewards) for rewards in kept] == [
        [0, 0, 1, 1], [0, 0, 1, 1], [-1] * 4, [0, 0, 0, 1]
    ]  # fmt: skip
    (entry,) = logged(trainer)
    assert entry["reward"] == pytest.approx(4 / 11)  # of the scored ones of the first round
    assert entry["pods/unscorable"] == 1 + 4 + 6 + 1
    assert entry["pods/rollouts_saved"] == pytest.approx(6 / 40)


def test_nothing_more_is_generated_where_every_prompt_has_its_contrast(make_trainer, monkeypatch):
    trainer = make_trainer(N, reward_funcs=Scripted([1, 0, 1, 0] * 4), **ROUNDS)
    asked = count_sequences(trainer, monkeypatch)
    trainer.train()
    assert asked == [16]
    assert logged(trainer)[0]["pods/rollouts_saved"] == pytest.approx(0.6)


def test_columns_and_metrics_of_a_reward_function_stay_with_their_rollouts(make_trainer):
    def reward(completion_ids: list[Any], log_extra: Any, log_metric: Any, **kwargs: Any) -> Any:
        log_extra("ids", [str(ids) for ids in completion_ids])
        log_metric("rows", len(completion_ids))
        return [float(i % 4 == 0) for i in range(len(completion_ids))]

    trainer = make_trainer(N, reward_funcs=reward, **ROUNDS)
    trainer.train()
    texts = [completion[-1]["content"] for completion in trainer._logs["completion"]]
    ids = trainer._logs["extra"]["ids"]
    assert len(ids) == len(texts) == 16
    decode = trainer.processing_class.decode
    assert [decode(json.loads(one), skip_special_tokens=True) for one in ids] == texts
    assert logged(trainer)[0]["rows"] == 16  # of the first round


def test_an_approximate_stop_says_so_and_takes_the_range_that_it_has_seen(make_trainer, caplog):
    fields = {**ROUNDS, "reward_range": None, "stop_at": 0.9}
    rounds = [[5, 6, 7, 8] * 2 + [5, 5, 8, 8] * 2, [5, 8, 5, 5, 5, 5] * 2]
    trainer = make_trainer(N, reward_funcs=Scripted(*rounds), **fields)
    assert "stop_at = 0.9" in caplog.text
    assert "approximately that of all n, not exactly" in caplog.text
    trainer.train()
    # of 5 to 8 the largest standard deviation of four is 1.5; of 5, 6, 7, 8 it is 1.118
    assert table_of(trainer)["group"].value_counts(sort=False).sort_index().tolist() == [
        *(N, N, R, R)
    ]
    assert trainer.state_dict()["rewards_seen"] == (5.0, 8.0)


def test_a_reward_outside_the_given_range_stops_the_run(make_trainer):
    trainer = make_trainer(N, reward_funcs=Scripted([0, 1, 0, 1.5] * 4), **ROUNDS)
    says = r"a reward of 1.5 at step 1 is outside reward_range \[0, 1\]"
    with pytest.raises(RewardError, match=says):
        trainer.train()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"reward_range": None}, r"can't stop exactly with rewards of unknown range"),
        ({"advantage_baseline": "group"}, r"can't stop exactly with advantage_baseline=group"),
        ({"num_generations": 3}, r"can't stop exactly with an odd num_generations \(m = 3\)"),
        ({"num_rollouts": "auto"}, "needs a number as num_rollouts, not 'auto'"),
        ({"num_rollouts": 4}, r"from num_generations \(m = 4\) to less than num_rollouts \(n = 4"),
        ({"rollouts_per_round": 3}, r"from num_generations \(m = 4\).* got 3"),
        ({"rollouts_per_round": None}, r"reward_range and stop_at say .* set rollouts_per_round"),
        ({"downsampling_rule": "random"}, "defined for downsampling_rule=max_variance"),
        ({"selection_scope": "batch"}, "and selection_scope=prompt; got .* batch"),
        ({"reward_range": [1, 0]}, r"the lowest and the highest reward, such as \[0, 1\]; got"),
        ({"reward_range": [0]}, r"the lowest and the highest reward"),
        ({"stop_at": 1.5}, r"stop_at must be above 0 and at most 1; got 1.5"),
        ({"generation_kwargs": {"seed": 1}}, r"second round would repeat its first"),
    ],
)
def test_what_has_no_meaning_in_rounds_is_refused(tmp_path, fields, says):
    given = {"num_generations": 4, "num_rollouts": N, **ROUNDS, **fields}
    if given["num_generations"] == 3:
        given["per_device_train_batch_size"] = 12
    with pytest.raises(InvalidInputError, match=says):
        PODSConfig(str(tmp_path), use_cpu=True, bf16=False, report_to="none", **given)


@pytest.mark.parametrize("fields", [{"advantage_baseline": "group"}, {"num_generations": 3}])
def test_an_approximate_stop_takes_what_an_exact_one_refuses(make_trainer, fields):
    given = {**ROUNDS, "stop_at": 0.9, "per_device_train_batch_size": 12, **fields}
    trainer = make_trainer(N, reward_funcs=coins(), **given)
    trainer.train()
    (entry,) = logged(trainer)
    assert entry["pods/rollouts_trained"] == 12


def test_tools_are_refused_with_rounds(tmp_path):
    with pytest.raises(UnsupportedError, match="not with tools or environments"):
        agent_trainer(
            N, tmp_path, lambda read, row: "done", tools=[lambda: None], rollouts_per_round=8,
            reward_range=[0, 1],
        )  # fmt: skip


def test_images_of_the_dataset_stay_with_their_prompts(tmp_path):
    data = questions(images=[[square(20 * i)] for i in range(8)])
    seen: list[list[int]] = []

    def reward(prompts: list[Any], **kwargs: Any) -> list[float]:
        shades = [p[-1]["content"][0]["image"].getpixel((0, 0))[0] for p in prompts]
        seen.append(shades)
        return [float(i % 2 and shade != shades[0]) for i, shade in enumerate(shades)]

    trainer = agent_trainer(
        N, tmp_path, lambda read, row: f"said {row}", model=vision_model, train_dataset=data,
        reward_funcs=reward, **ROUNDS, num_generations=4,
    )  # fmt: skip
    trainer.train()
    shades = seen[0][::R]
    assert seen == [[shade for shade in shades for _ in range(R)], shades[:1] * (N - R)]
    assert logged(trainer)[0]["pods/rollouts_trained"] == 16
