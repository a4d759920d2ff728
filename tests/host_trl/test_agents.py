"""Tools, environments, images and rollout functions: what TRL keeps per rollout goes with it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import trl
from datasets import Dataset
from packaging.version import Version
from trl import GRPOTrainer

import podsrl
import podsrl.trl
from podsrl.errors import InvalidInputError, RewardError, UnsupportedError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import checkpoint
from podsrl.trl.rows import refuse_mixed_images
from support.agent_scenarios import SCENARIOS, Counter, length, reply_to_counter, turns
from support.agents import agent_trainer, call, questions, square
from support.brute_force import highest_variance
from support.trl_runs import equal, logged, weights

M = 4
N = 2 * M


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


class Generated(NamedTuple):
    """What TRL's `_generate` returned of all rollouts, except what a rollout function added.

    A field is None where TRL has no such thing, otherwise a list with an entry per rollout.
    """

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    tool_mask: list[list[int]] | None
    completions: list[Any]
    logprobs: list[list[float]] | None
    images: list[Any] | None
    tool_images: list[Any] | None


class Recorded(NamedTuple):
    """What TRL generated and what it trained on, an entry per step."""

    generations: list[Generated]
    updates: list[dict[str, Any]]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """What every GRPOTrainer generates and trains on from now on."""
    steps = Recorded(generations=[], updates=[])
    generate = GRPOTrainer._generate
    generate_and_score = GRPOTrainer._generate_and_score_completions

    def record_generation(self: Any, prompts: list[Any]) -> Any:
        output = generate(self, prompts)
        columns = (*output[:5], *output[6:])  # the sixth has the added fields by name
        copies = [list(column) if column else None for column in columns]
        steps.generations.append(Generated(*copies))
        return output

    def record_update(self: Any, inputs: Any) -> Any:
        output = generate_and_score(self, inputs)
        steps.updates.append(output)
        return output

    monkeypatch.setattr(GRPOTrainer, "_generate", record_generation)
    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", record_update)
    return steps


def count_rows_of_passes(trainer: Any) -> list[int]:
    """The rows of every pass of the trainer's model from now on, as they come."""
    rows: list[int] = []

    def record(model: Any, args: Any, kwargs: Any) -> None:
        rows.append(len(kwargs["input_ids"]))

    trainer.model.register_forward_pre_hook(record, with_kwargs=True)
    return rows


#: Two rounds of every prompt: no reward is at these bounds, so none is decided before.
TWO_ROUNDS = {"rollouts_per_round": M, "reward_bounds": [-1e4, 1e4]}


def in_order_of_places(first: Generated, second: Generated) -> Generated:
    """Two rounds of M rollouts of each of two prompts, as if they had been generated at once."""
    columns = []
    for of_first, of_second in zip(first, second, strict=True):
        if of_first is None and of_second is None:
            columns.append(None)
            continue
        of_rounds = [column or [None] * 2 * M for column in (of_first, of_second)]
        columns.append(
            [row for prompt in (0, 1) for rows in of_rounds for row in rows[prompt * M :][:M]]
        )
    return Generated(*columns)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [{}, TWO_ROUNDS], ids=["at once", "in rounds"])
def test_the_model_sees_the_kept_rows_with_all_that_belongs_to_them(name, make, recorded, rounds):
    """Everything that TRL generated of a kept place is at its row of the update, nothing else."""
    trainer = make(N, "pods", max_steps=3, per_device_train_batch_size=2 * M, **rounds)
    rows_passed = count_rows_of_passes(trainer)
    before = weights(trainer)
    trainer.train()

    assert not equal(before, weights(trainer))
    assert sum(rows_passed) == 3 * 2 * M
    generations = recorded.generations
    if rounds:
        generations = list(map(in_order_of_places, generations[::2], generations[1::2]))
    assert len(recorded.updates) == len(generations) == 3
    for step, (generated, update) in enumerate(zip(generations, recorded.updates, strict=True)):
        table = trainer.pods.recorder.run.rollouts(step + 1).to_pandas()
        kept_places = np.flatnonzero(table["kept"]).tolist()
        assert len(generated.completion_ids) == 2 * N
        assert len(update["completion_ids"]) == len(kept_places) == 2 * M

        assert_kept_by_variance(table["reward"], kept_places)
        assert_rows_of_tokens(update, generated, kept_places)
        assert_advantages_of_kept_rows(update, table["reward"], kept_places)

        if name == "rollout_func":  # TRL goes on with the dataset's
            images = [[square(20 * dataset_row(step, place))] for place in range(2 * N)]
            generated = generated._replace(images=images)
        assert_images(update, generated, kept_places)


def dataset_row(step: int, place: int) -> int:
    """The row of the dataset, of eight, that this place of a step's two groups comes from."""
    return (2 * step + place // N) % 8


def assert_kept_by_variance(rewards: Any, kept_places: list[int]) -> None:
    """Of both groups the m rewards that vary most are kept."""
    for first_place in (0, N):
        of_group = range(first_place, first_place + N)
        kept_rewards = [rewards[place] for place in kept_places if place in of_group]
        assert len(kept_rewards) == M
        expected = highest_variance([rewards[place] for place in of_group], M)
        assert np.var(kept_rewards) == pytest.approx(expected, rel=1e-6)


def assert_rows_of_tokens(
    update: dict[str, Any], generated: Generated, kept_places: list[int]
) -> None:
    """Prompt, completion, tool mask and log-probs of each row are those of its place."""
    for row, place in enumerate(kept_places):
        in_prompt = update["prompt_mask"][row].bool()
        in_completion = update["completion_mask"][row].bool()

        prompt_ids = update["prompt_ids"][row][in_prompt].tolist()
        completion_ids = update["completion_ids"][row][in_completion].tolist()
        assert prompt_ids == generated.prompt_ids[place]
        assert completion_ids == generated.completion_ids[place]

        if generated.tool_mask:
            tool_mask = update["tool_mask"][row][in_completion].tolist()
            assert tool_mask == generated.tool_mask[place]
        if generated.logprobs:
            logprobs = update["sampling_per_token_logps"][row][in_completion].tolist()
            assert logprobs == generated.logprobs[place]


def assert_advantages_of_kept_rows(
    update: dict[str, Any], rewards: Any, kept_places: list[int]
) -> None:
    """GRPO's advantages, as if the kept rows of a group had been all of it."""
    for row, place in enumerate(kept_places):
        of_group = [rewards[other] for other in kept_places if other // N == place // N]
        deviation = np.std(of_group, ddof=1)
        expected = (rewards[place] - np.mean(of_group)) / (deviation + 1e-4)
        assert update["advantages"][row].item() == pytest.approx(expected, abs=1e-5)


def assert_images(update: dict[str, Any], generated: Generated, kept_places: list[int]) -> None:
    """The pictures of each kept row are in the update, in order, and no others."""
    images_of_rows = []
    if generated.images:
        images_of_rows = [generated.images[place] or [] for place in kept_places]
    counts = [len(images) for images in images_of_rows]
    assert sum(update.get("num_images", [])) == sum(counts)

    if any(counts):
        assert update["num_images"] == counts
        colours = [image.getpixel((0, 0)) for images in images_of_rows for image in images]
        pixels = pixels_of_images(update, len(colours))
        assert first_alike(pixels) == first_alike(colours)
    elif generated.images is None or not any(generated.tool_images or []):
        assert "pixel_values" not in update


def pixels_of_images(update: dict[str, Any], count: int) -> list[list[float]]:
    return [pixels.flatten().tolist() for pixels in update["pixel_values"].chunk(count)]


def first_alike(items: list[Any]) -> list[int]:
    """For each item the place of the first one that is equal to it."""
    return [items.index(item) for item in items]


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
    rows_passed = count_rows_of_passes(trainer)
    trainer.train()

    assert rows_passed == [8, 8]
    for step in (1, 2):
        table = trainer.pods.recorder.run.rollouts(step).to_pandas()
        rewards_P_N = table["reward"].to_numpy().reshape(8, 3)
        kept_P_N = table["kept"].to_numpy().reshape(8, 3)
        best_P_N = podsrl.downsample_batch(rewards_P_N, 8)
        assert kept_P_N.sum() == best_P_N.sum() == 8

        # of several masks that are equally good, any may have been drawn
        scatter = scatter_within_prompts(rewards_P_N, kept_P_N)
        assert scatter == pytest.approx(scatter_within_prompts(rewards_P_N, best_P_N))
        assert scatter > 0


def scatter_within_prompts(rewards_P_N: np.ndarray, kept_P_N: np.ndarray) -> float:
    """The summed squared distances of kept rewards to the kept mean of their prompt."""
    scatter = 0.0
    for rewards_N, kept_N in zip(rewards_P_N, kept_P_N, strict=True):
        if kept_N.any():
            scatter += np.var(rewards_N[kept_N]) * kept_N.sum()
    return scatter


# ---- environments and tools over time ------------------------------------------------------------


def turns_of(recorded_turns: str) -> list[dict[str, Any]]:
    """The turns of a rollout from the log, which has them as JSON."""
    return json.loads(recorded_turns)


def roles_of(recorded_turns: str) -> list[str]:
    return [turn["role"] for turn in turns_of(recorded_turns)]


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
    assert sorted(environment.count for environment in trainer.environments) == [0, 6]

    table = RunFolder(tmp_path).rollouts(10).to_pydict()
    assert table["reward"] == [0, 2, 0, 6]
    assert table["kept"][1] is False
    assert table["kept"][3] is True
    assert table["completion"] == ["done"] * 4

    assert table["turns"][2] is None  # it said "done" at once
    assert roles_of(table["turns"][3]) == ["assistant", "tool", "assistant", "tool", "assistant"]
    second_call = turns_of(table["turns"][3])[3]
    assert second_call == {"role": "tool", "name": "up", "text": "6"}


def test_an_environment_may_change_its_row_without_changing_its_siblings(tmp_path):
    class Board(Counter):
        def reset(self, board: list[int], **kwargs: Any) -> None:
            assert board == [1, 2]
            board.clear()
            self.count = 0

    trainer = agent_trainer(
        N,
        tmp_path,
        reply_to_counter,
        environment_factory=Board,
        train_dataset=questions(board=[[1, 2]] * 8),
    )
    trainer.train()

    assert trainer.state.global_step == 2


def test_an_environment_may_have_the_prompts_that_its_dataset_lacks(tmp_path):
    class Start(Counter):
        def reset(self, start: int, **kwargs: Any) -> str:
            self.count = start
            return f"Count from {start}!"

    trainer = agent_trainer(
        N,
        tmp_path,
        reply_to_counter,
        environment_factory=Start,
        train_dataset=Dataset.from_dict({"start": [5, 7]}),
        max_steps=1,
        per_device_train_batch_size=2 * M,
    )
    trainer.train()

    table = RunFolder(tmp_path).rollouts(1).to_pydict()
    for start, prompt in zip([5] * N + [7] * N, table["prompt"], strict=True):
        assert f"Count from {start}!" in prompt
    assert sum(table["kept"]) == 2 * M


def test_prompts_that_a_dataset_of_environments_has_are_looked_at(tmp_path):
    dataset = Dataset.from_dict({"prompt": ["a", None]})
    with pytest.raises(InvalidInputError, match=r"the prompt of row 1 of train_dataset is None"):
        agent_trainer(
            N, tmp_path, reply_to_counter, environment_factory=Counter, train_dataset=dataset
        )


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
        return "y" * 200_000 if a == 3 else ""

    def reply(read: str, row: int) -> str:
        return "done" if turns(read) else call("tool", a=row % 4)

    trainer = agent_trainer(
        N,
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
    assert checkpoint.last_complete(tmp_path) == tmp_path / "checkpoint-1"

    table = run.rollouts(1).to_pydict()
    assert len(table["turns"]) == N
    assert max(table["tokens"]) < 512  # TRL takes back what is too long
    whole = ["assistant", "tool", "assistant"]
    taken_back = ["assistant"]  # of every fourth row, whose tool returned very much
    of_four = [whole, whole, whole, taken_back]
    assert [roles_of(turns) for turns in table["turns"]] == [*of_four, *of_four]


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
        N,
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
    assert run.rollout_steps() == [1]
    assert [row["step"] for row in run.metrics()] == [1]
    assert run.rollouts(1).num_rows == 2 * N
    assert checkpoint.last_complete(tmp_path) == tmp_path / "checkpoint-1"
    assert run.finished() is None


def environment_example() -> str:
    """The Python code of docs/trl.md that trains with an environment."""
    page = (Path(__file__).parents[2] / "docs" / "trl.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    (code,) = [block for block in blocks if "environment_factory=" in block]
    return code


def test_the_example_of_the_docs_plays_as_printed(tmp_path, monkeypatch):
    """With a tiny model that guesses 1, 2, ..., 9, 1, ... in the rollouts of two prompts."""

    def reply(read: str, row: int) -> str:
        return "done" if turns(read) else call("guess", number=row % 9 + 1)

    def tiny_trainer(model: str, args: dict[str, Any], **given: Any) -> Any:
        assert model == "Qwen/Qwen3-0.6B"
        n = args.pop("num_rollouts")
        one_step = {"max_steps": 1, "per_device_train_batch_size": 8}
        return agent_trainer(n, tmp_path, reply, **args, **one_step, **given)

    monkeypatch.setattr(podsrl.trl, "PODSConfig", dict)
    monkeypatch.setattr(podsrl.trl, "PODSTrainer", tiny_trainer)
    exec(environment_example(), {"__name__": "page"})

    table = RunFolder(tmp_path).rollouts(1).to_pydict()
    guesses = [row % 9 + 1 for row in range(32)]
    secrets = [1] * 16 + [2] * 16  # 16 rollouts each
    is_right = [guess == secret for guess, secret in zip(guesses, secrets, strict=True)]
    assert table["reward"] == [float(right) for right in is_right]

    # two of the sixteen guesses of each prompt are right; they are kept, and two wrong ones
    kept_and_right = [kept and right for kept, right in zip(table["kept"], is_right, strict=True)]
    assert sum(table["kept"]) == 8
    assert sum(kept_and_right) == 4

    assert "Call guess until you are right." in table["prompt"][0]
    answer = turns_of(table["turns"][1])[1]
    assert answer == {"role": "tool", "name": "guess", "text": "lower"}


def test_a_process_that_keeps_only_rows_without_images_of_a_mixed_batch_says_what_to_do():
    assert refuse_mixed_images([None, ["a"]], in_dataset=True) == [None, ["a"]]
    assert refuse_mixed_images([None, []], in_dataset=False) is None
    with pytest.raises(UnsupportedError, match="Train on prompts with images and without in runs"):
        refuse_mixed_images([[], []], in_dataset=True)
