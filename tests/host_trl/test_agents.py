"""Tools, environments, images and rollout functions: what TRL keeps per rollout goes with it."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trl
from packaging.version import Version
from trl import GRPOTrainer

import podsrl
import podsrl.trl
from podsrl.errors import RewardError, UnsupportedError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import checkpoint
from podsrl.trl.images import refuse_mixed_images
from support.agent_scenarios import SCENARIOS, Counter, length, reply_to_counter, turns
from support.agents import agent_trainer, call, questions, square
from support.trl_runs import equal, logged, weights

M = 4


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


@pytest.fixture(params=list(SCENARIOS))
def name(request: pytest.FixtureRequest) -> str:
    if request.param == "mixed images" and Version(trl.__version__) < Version("1.12"):
        pytest.skip("TRL before 1.12 does not train on rows with images beside rows without")
    return str(request.param)


@pytest.fixture
def make(name: str, tmp_path: Path) -> Callable[..., Any]:
    def build(n: int | None, folder: str, **more: Any) -> Any:
        return agent_trainer(n, tmp_path / folder, **SCENARIOS[name], **more)

    return build


# ---- n = m ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_n_equal_to_m_is_grpo_bit_for_bit(make):
    grpo = make(None, "grpo")
    grpo.train()
    pods = make(M, "pods")
    before = weights(pods)
    pods.train()
    assert not equal(before, weights(pods))
    assert equal(weights(grpo), weights(pods))

    for theirs, ours in zip(logged(grpo), logged(pods), strict=True):
        del theirs["step_time"]
        assert {name: ours[name] for name in theirs} == theirs
    for kind in ("prompt", "completion", "advantages", "images"):
        assert list(grpo._logs[kind]) == list(pods._logs[kind])


# ---- n = 2m --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_model_sees_the_kept_rows_with_all_that_belongs_to_them(name, make, monkeypatch):
    """Everything that TRL generated of a kept place is at its row of the update, nothing else."""
    generated, updates, seen = [], [], []
    generate, score = GRPOTrainer._generate, GRPOTrainer._generate_and_score_completions

    def record_generation(self: Any, prompts: list[Any]) -> Any:
        out = generate(self, prompts)
        generated.append([None if not c else list(c) for c in (*out[:5], *out[6:])])
        return out

    def record_update(self: Any, inputs: Any) -> Any:
        out = score(self, inputs)
        updates.append(out)
        return out

    monkeypatch.setattr(GRPOTrainer, "_generate", record_generation)
    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", record_update)
    trainer = make(2 * M, "pods", max_steps=3, per_device_train_batch_size=2 * M)
    trainer.model.register_forward_pre_hook(
        lambda model, args, kwargs: seen.append(kwargs), with_kwargs=True
    )
    before = weights(trainer)
    trainer.train()
    assert not equal(before, weights(trainer))
    assert len(updates) == len(generated) == 3
    for step, (out, rows) in enumerate(zip(updates, generated, strict=True)):
        table = trainer.recorder.run.rollouts(step + 1).to_pandas()
        kept = np.flatnonzero(table["kept"]).tolist()
        rewards = torch.tensor(table["reward"].to_numpy()).view(2, 2 * M)
        prompt_ids, completion_ids, tool_mask, _, logps, images, tool_images = rows
        assert len(completion_ids) == 4 * M
        assert len(kept) == len(out["completion_ids"]) == 2 * M
        for group in range(2):
            chosen = [p % (2 * M) for p in kept if p // (2 * M) == group]
            values = rewards[group].double().numpy()
            best = max(np.var(values[list(s)]) for s in itertools.combinations(range(2 * M), M))
            assert np.var(values[chosen]) == pytest.approx(best, rel=1e-6)
        flat = rewards.flatten()
        for row, place in enumerate(kept):
            mine = out["completion_mask"][row].bool()
            assert out["completion_ids"][row][mine].tolist() == completion_ids[place]
            asked = out["prompt_mask"][row].bool()
            assert out["prompt_ids"][row][asked].tolist() == prompt_ids[place]
            if tool_mask:
                assert out["tool_mask"][row][mine].tolist() == tool_mask[place]
            if logps:
                assert out["sampling_per_token_logps"][row][mine].tolist() == logps[place]
            group = flat[[p for p in kept if p // (2 * M) == place // (2 * M)]]
            advantage = (flat[place] - group.mean()) / (group.std() + 1e-4)
            assert out["advantages"][row] == pytest.approx(advantage.item(), abs=1e-5)
        if name == "rollout_func":  # TRL goes on with the dataset's
            images = [[square(20 * ((2 * step + p // (2 * M)) % 8))] for p in range(4 * M)]
        pictures = [images[p] or [] for p in kept] if images else []
        assert sum(map(len, pictures)) == sum(out.get("num_images", []))
        if any(pictures):
            assert out["num_images"] == [len(p) for p in pictures]
            colours = [p.getpixel((0, 0)) for one in pictures for p in one]
            assert patches(out, len(colours)) == [colours.index(c) for c in colours]
        elif images is None or not any(tool_images or []):
            assert "pixel_values" not in out
    assert sum(len(kwargs["input_ids"]) for kwargs in seen) == 3 * 2 * M


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["tools", "environments"])
def test_rollouts_of_agents_are_chosen_across_the_batch_as_others_are(scenario, tmp_path):
    trainer = agent_trainer(
        3,
        tmp_path,
        **SCENARIOS[scenario],
        num_generations=1,
        downsampling_rule="max_contrast",
        per_device_train_batch_size=8,
        max_steps=2,
    )
    seen: list[int] = []

    def record(model: Any, args: Any, kwargs: Any) -> None:
        seen.append(len(kwargs["input_ids"]))

    trainer.model.register_forward_pre_hook(record, with_kwargs=True)
    trainer.train()
    assert seen == [8, 8]
    for step in (1, 2):
        table = trainer.recorder.run.rollouts(step).to_pandas()
        rewards_P_N = table["reward"].to_numpy().reshape(8, 3)
        kept_P_N = table["kept"].to_numpy().reshape(8, 3)
        best_P_N = podsrl.downsample_batch(rewards_P_N, 8)
        assert kept_P_N.sum() == best_P_N.sum() == 8
        scatter = [
            sum(np.var(r[k]) * k.sum() for r, k in zip(rewards_P_N, kept, strict=True) if k.any())
            for kept in (kept_P_N, best_P_N)
        ]
        assert scatter[0] == pytest.approx(scatter[1])
        assert scatter[0] > 0


def patches(out: dict[str, Any], count: int) -> list[int]:
    """For each picture the first one whose pixels are the same."""
    per_image = [p.flatten().tolist() for p in out["pixel_values"].chunk(count)]
    return [per_image.index(one) for one in per_image]


# ---- environments and tools over time ------------------------------------------------------------


@pytest.mark.slow
def test_environments_are_as_many_as_rollouts_after_10_steps(tmp_path):
    Counter.made = 0
    trainer = agent_trainer(
        4,
        tmp_path,
        reply_to_counter,
        environment_factory=Counter,
        max_steps=10,
        num_generations=2,
        per_device_train_batch_size=2,
    )
    trainer.train()
    assert Counter.made == 4
    assert len(trainer._sync_tool_dicts) == 2
    assert sorted(e.count for e in trainer.environments) == [0, 6]
    table = RunFolder(tmp_path).rollouts(10).to_pydict()
    assert table["reward"] == [0, 2, 0, 6]
    assert table["kept"][1] is False
    assert table["kept"][3] is True
    assert table["turns"][2] is None  # it said "done" at once
    assert [turn["role"] for turn in json.loads(table["turns"][3])] == (
        ["assistant", "tool"] * 2 + ["assistant"]
    )
    assert json.loads(table["turns"][3])[3] == {"role": "tool", "name": "up", "text": "6"}
    assert table["completion"] == ["done"] * 4


def test_an_environment_may_change_its_row_without_changing_its_siblings(tmp_path):
    class Board(Counter):
        def reset(self, board: list[int], **kwargs: Any) -> None:
            assert board == [1, 2]
            board.clear()
            self.count = 0

    data = questions(board=[[1, 2]] * 8)
    trainer = agent_trainer(
        2 * M, tmp_path, reply_to_counter, environment_factory=Board, train_dataset=data
    )
    trainer.train()
    assert trainer.state.global_step == 2


@pytest.mark.slow
def test_a_tool_that_returns_very_much_or_is_interrupted_leaves_a_readable_run(tmp_path):
    """A call that hangs ends with Ctrl-C; steps until then, and their checkpoint, are there."""

    def tool(a: int) -> str:
        """Do it.

        Args:
            a: What.
        """
        if trainer.state.global_step == 1 and a == 2:
            raise KeyboardInterrupt
        return "y" * (200_000 * (a == 3))

    def reply(read: str, row: int) -> str:
        return "done" if turns(read) else call("tool", a=row % 4)

    trainer = agent_trainer(
        2 * M,
        tmp_path,
        reply,
        tools=[tool],
        reward_funcs=[length],
        train_dataset=questions(),
        save_strategy="steps",
        save_steps=1,
        max_steps=3,
        per_device_train_batch_size=M,
    )
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    run = RunFolder(tmp_path)
    assert run.rollout_steps() == [1]
    assert run.rollouts(1).num_rows == 2 * M
    assert checkpoint.last_complete(tmp_path) == tmp_path / "checkpoint-1"
    table = run.rollouts(1).to_pydict()
    assert max(table["tokens"]) < 512  # TRL takes back what is too long
    said = [[turn["role"] for turn in json.loads(turns)] for turns in table["turns"]]
    assert said == 2 * [*[["assistant", "tool", "assistant"]] * 3, ["assistant"]]


@pytest.mark.parametrize(("fails", "error"), [("reset", OSError), ("get_reward", RewardError)])
def test_an_environment_that_raises_stops_training_and_loses_no_finished_step(
    fails, error, tmp_path, monkeypatch
):
    original = getattr(Counter, fails)

    def failing(self: Counter, **row: Any) -> Any:
        if trainer.state.global_step == 1:
            raise OSError("the browser is gone")
        return original(self, **row)

    monkeypatch.setattr(Counter, fails, failing)
    trainer = agent_trainer(
        2 * M,
        tmp_path,
        reply_to_counter,
        environment_factory=Counter,
        max_steps=3,
        save_strategy="steps",
        save_steps=1,
    )
    with pytest.raises(error, match="the browser is gone"):
        trainer.train()
    run = RunFolder(tmp_path)
    assert run.rollout_steps() == [row["step"] for row in run.metrics()] == [1]
    assert run.rollouts(1).num_rows == 2 * 2 * M
    assert checkpoint.last_complete(tmp_path) == tmp_path / "checkpoint-1"
    assert run.finished() is None


def test_the_example_of_the_docs_plays_as_printed(tmp_path, monkeypatch):
    """With a tiny model that guesses 1, 2, ..., 9, 1, ... in the rollouts of two prompts."""
    page = (Path(__file__).parents[2] / "docs" / "trl.md").read_text(encoding="utf-8")
    (code,) = (
        block.split("```")[0]
        for block in page.split("```python\n")[1:]
        if "environment_factory=" in block.split("```")[0]
    )

    def trainer(model: str, args: dict[str, Any], **given: Any) -> Any:
        assert model == "Qwen/Qwen3-0.6B"
        n = args.pop("num_rollouts")
        one_step = {"max_steps": 1, "per_device_train_batch_size": 8}
        return agent_trainer(n, tmp_path, reply, **args, **one_step, **given)

    def reply(read: str, row: int) -> str:
        return "done" if turns(read) else call("guess", number=row % 9 + 1)

    monkeypatch.setattr(podsrl.trl, "PODSConfig", dict)
    monkeypatch.setattr(podsrl.trl, "PODSTrainer", trainer)
    exec(code, {"__name__": "page"})
    table = RunFolder(tmp_path).rollouts(1).to_pydict()
    right = [row % 9 == row // 16 for row in range(32)]  # 16 rollouts each; the secrets are 1 and 2
    assert table["reward"] == [float(one) for one in right]
    # two of the sixteen guesses of each prompt are right; they are kept, and two wrong ones
    assert sum(table["kept"]) == 8
    assert sum(kept and one for kept, one in zip(table["kept"], right, strict=True)) == 4
    assert "Call guess until you are right." in table["prompt"][0]
    assert json.loads(table["turns"][1])[1] == {"role": "tool", "name": "guess", "text": "lower"}


def test_a_process_that_keeps_only_rows_without_images_of_a_mixed_batch_says_what_to_do():
    assert refuse_mixed_images([None, ["a"]], in_dataset=True) == [None, ["a"]]
    assert refuse_mixed_images([None, []], in_dataset=False) is None
    with pytest.raises(UnsupportedError, match="Train on prompts with images and without in runs"):
        refuse_mixed_images([[], []], in_dataset=True)
