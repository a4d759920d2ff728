"""Settings and usages that people reported as failing, in various trainers, tried with ours.

What is tested elsewhere:

| report | test |
|---|---|
| a reward function without `**kwargs` | `test_data_at_the_door.py`: a function without kwargs is \
told the missing word |
| vLLM's importance mask on whole rows | `test_silence.py`: rows that the importance correction \
masked after selection are counted |
| tools that return images in a second turn | `test_agents.py`, with "mixed images" |
| three processes, and eight | `distributed/test_reported_ranks.py` |
| in axolotl | `test_other_trainers.py` |
"""

import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig

from podsrl.errors import InvalidInputError, RewardError
from podsrl.trl import PODSConfig
from podsrl.trl.checks import checked
from support.agent_scenarios import Counter as CountingEnvironment
from support.agent_scenarios import Echo, look, reply_to_counter, row_of
from support.agents import agent_trainer, call, questions, square, vision_model
from support.trl_runs import count_passed_rows, digits, equal, logged, table_of, weights

SHORT: dict[str, Any] = {"max_completion_length": 4, "max_steps": 1}
LORA = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


def batches_of(trainer: Any) -> list[dict[str, Any]]:
    """What TRL will train on, by generation, once it has trained."""
    batches: list[dict[str, Any]] = []
    generate = trainer._generate_and_score_completions

    def remember(inputs: Any) -> dict[str, Any]:
        batches.append(generate(inputs))
        return batches[-1]

    trainer._generate_and_score_completions = remember
    return batches


# ---- what a reward function returns --------------------------------------------------------------

# For four completions: one number, or what is one number for the whole batch in other clothes.
ONE_FOR_ALL: dict[str, tuple[Any, str]] = {
    "a float": (0.5, "returned float "),
    "a boolean": (True, "returned bool "),
    "numpy's": (np.float32(0.5), "returned float32 "),
    "an array without a dimension": (np.array(0.5), "returned ndarray without a dimension "),
    "a tensor without a dimension": (torch.tensor(0.5), "returned Tensor without a dimension "),
    "a list of it": ([0.5], "returned 1 rewards for 4 completions "),
    "a tensor of it": (torch.ones(1), "returned 1 rewards for 4 completions "),
    "all of them in a list": ([[0.5] * 4], "returned 1 rewards for 4 completions "),
    "rewards and what else is known": (([0.5] * 4, {}), "returned 2 rewards for 4 completions "),
    "a text": ("0.5", "returned str "),
    "a list for each": ([[0.5]] * 4, "returned [0.5] "),
    "a row for each": (np.ones((4, 1)), "returned array([1.]) "),
    "a row for each, as a tensor": (torch.ones(4, 2), "returned tensor([1., 1.]) "),
}


@pytest.mark.parametrize(("value", "says"), ONE_FOR_ALL.values(), ids=ONE_FOR_ALL.keys())
def test_one_number_for_the_whole_batch_is_an_error_with_name_and_counts(value, says):
    function = checked(lambda completions: value, "accuracy", lambda: 3, lambda: 8)
    with pytest.raises(RewardError) as caught:
        function(completions=["a", "b", "c", "d"])
    message = str(caught.value)
    assert message.startswith(f"reward function 'accuracy' {says}")
    assert "at step 3" in message
    assert "here 4" in message or "completion 'a'" in message


def test_one_number_stops_training_before_it_is_spread(make_trainer):
    def mean(completions: list[Any], **kwargs: Any) -> Any:
        return sum(digits(completions)) / len(completions)

    trainer = make_trainer(8, reward_funcs=mean, **SHORT)
    with pytest.raises(RewardError, match=r"function 'mean' returned float at step 1; .* here 16"):
        trainer.train()


# ---- sizes ---------------------------------------------------------------------------------------


def test_one_row_at_a_time_holds_a_prompt_of_32_of_which_8_are_trained_on(make_trainer):
    """1 row x 8 accumulated = m = 8: one prompt for each optimiser step."""
    trainer = make_trainer(
        32,
        num_generations=8,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=8,
        max_completion_length=16,
        max_steps=2,
        temperature=1.5,
    )
    before = weights(trainer)
    trainer.train()
    assert not equal(before, weights(trainer))
    for step in (1, 2):
        table = table_of(trainer, step)
        assert (len(table), table["kept"].sum(), table["prompt"].nunique()) == (32, 8, 1)


# With n = 8 x 4: settings, processes, the rows of a generation, and what m may be: their divisors.
SIZES: list[tuple[dict[str, Any], int, int, str]] = [
    ({"per_device_train_batch_size": 1}, 3, 3, "3"),
    ({"per_device_train_batch_size": 4}, 3, 12, "2, 3, 4, 6, 12"),
    ({"per_device_train_batch_size": 1}, 1, 1, "none"),
    ({"per_device_train_batch_size": 7}, 2, 14, "2, 7, 14"),
    ({"per_device_train_batch_size": 37}, 1, 37, "none"),  # above n
    ({"per_device_train_batch_size": 2, "steps_per_generation": 3}, 1, 6, "2, 3, 6"),
    (
        {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 5},
        1,
        20,
        "2, 4, 5, 10, 20",
    ),
    (
        {"per_device_train_batch_size": 2, "generation_batch_size": 36},
        3,
        36,
        "2, 3, 4, 6, 9, 12, 18",
    ),
    ({"per_device_train_batch_size": 35, "num_rollouts": 8}, 1, 35, "5, 7"),
]


@pytest.mark.parametrize(("fields", "processes", "rows", "allowed"), SIZES)
def test_rows_that_m_does_not_divide_are_refused_with_what_m_may_be(
    tmp_path, monkeypatch, fields, processes, rows, allowed
):
    monkeypatch.setattr(PODSConfig, "world_size", processes)
    with pytest.raises(InvalidInputError) as caught:
        PODSConfig(str(tmp_path), use_cpu=True, bf16=False, num_generations=8, **fields)
    message = str(caught.value)
    assert message.startswith("num_generations=8 needs a multiple of 8 rows per generation; got ")
    assert f"got {rows} rows: " in message
    assert f" x {processes}. Change" in message
    assert message.endswith(f"; allowed here: {allowed}")


def test_each_prompt_comes_once_an_epoch_and_a_second_iteration_has_the_same_rows(
    make_trainer, dataset, monkeypatch
):
    """24 prompts; 4 steps x 4 rows are a generation of 8 prompts with m = 2, each used twice."""
    trainer = make_trainer(
        6,
        data=dataset.select(range(24)),
        num_generations=2,
        per_device_train_batch_size=4,
        steps_per_generation=4,
        num_iterations=2,
        max_steps=-1,
        num_train_epochs=1,
        max_completion_length=6,
        skip_zero_advantage=False,
    )
    seen: list[list[Any]] = []
    compute = trainer.compute_loss

    def remember(model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        seen.append([inputs[key].tolist() for key in ("prompt_ids", "completion_ids")])
        return compute(model, inputs, *args, **kwargs)

    trainer.compute_loss = remember
    trainer.train()
    assert len(seen) == trainer.state.global_step == 3 * 4 * 2
    for generation in range(3):
        first = seen[8 * generation :][:4]
        second = seen[8 * generation + 4 :][:4]
        assert first == second
    run = trainer.pods.recorder.run
    tables = [run.rollouts(step).to_pandas() for step in run.rollout_steps()]
    asked = Counter(prompt for table in tables for prompt in table["prompt"])
    assert set(asked.values()) == {6}
    assert len(asked) == 24


# ---- rows that the loss leaves out ---------------------------------------------------------------


def told(completions: list[list[int]]) -> Any:
    """TRL's `rollout_func` that says these, over and over."""

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        tokenizer = trainer.processing_class
        asked = [prompt if isinstance(prompt, str) else prompt[-1]["content"] for prompt in prompts]
        ids = [completions[i % len(completions)] for i in range(len(prompts))]
        return {
            "prompt_ids": tokenizer(asked)["input_ids"],
            "completion_ids": [list(one) for one in ids],
            "logprobs": [[-1.0] * len(one) for one in ids],
        }

    return rollout


def by_tokens(completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    return [float(sum(ids) % 11) for ids in completion_ids]


END = 5  # in the place of it stands the token that ends an answer
# Of 8 rollouts of a prompt 2 are finished, of 3 and 5 tokens, and 4 are kept: half of them cut off.
HALF_CUT = [[7, 8, END], [9, 8, 7, 9, END], *[[10 + i, 20] for i in range(6)]]
ALL_CUT = [[10 + i, 20, 30] for i in range(8)]
LATE_CUT = [[7, 8, END] if i % 2 else [10 + i, 20] for i in range(8)]  # enough are finished
LOSSES = ("dapo", "cispo", "grpo", "dr_grpo", "bnpo")


@pytest.mark.parametrize("loss_type", LOSSES)
@pytest.mark.parametrize("completions", [HALF_CUT, LATE_CUT, ALL_CUT], ids=["half", "none", "all"])
def test_the_loss_is_over_the_kept_rows_that_were_finished(make_trainer, completions, loss_type):
    trainer = make_trainer(
        8,
        reward_funcs=by_tokens,
        mask_truncated_completions=True,
        loss_type=loss_type,
        **SHORT,
    )
    end = trainer.processing_class.eos_token_id
    told_ids = []
    for completion in completions:
        told_ids.append([end if token == END else token for token in completion])
    trainer.rollout_func = told(told_ids)

    outputs = batches_of(trainer)
    before = weights(trainer)
    trainer.train()

    kept = table_of(trainer).query("kept")
    places = np.flatnonzero(table_of(trainer)["kept"]) % 8
    lengths = [len(completions[place]) * (completions[place][-1] == END) for place in places]
    counted = sum(lengths)
    assert outputs[0]["num_items_in_batch"] == counted

    (entry,) = logged(trainer)
    if counted == 0:
        assert entry["loss"] == 0.0
        assert equal(before, weights(trainer))
    elif loss_type == "dapo":
        # With the weights that generated, each token's ratio is 1: the loss is
        # -(sum over rows of advantage x tokens) / (tokens of the kept rows that were finished).
        expected = -np.dot(kept["advantage"], lengths) / counted
        assert entry["loss"] == pytest.approx(expected, abs=1e-4)
    assert math.isfinite(entry["loss"])
    assert math.isfinite(entry["grad_norm"])
    assert all(value.isfinite().all() for value in weights(trainer).values())


# ---- graders and threads -------------------------------------------------------------------------


def test_a_grader_may_be_called_from_threads_and_the_trainer_may_run_in_one(
    make_trainer, arithmetic
):
    """A time-out by a signal would work in the main thread alone."""
    (grade, *_) = arithmetic.rewards()

    def in_threads(completions: list[Any], answer: list[str], **kwargs: Any) -> list[float]:
        with ThreadPoolExecutor(4) as threads:
            pairs = zip(completions, answer, strict=True)
            found = threads.map(lambda pair: grade(completions=[pair[0]], answer=[pair[1]]), pairs)
            return [reward for (reward,) in found]

    in_threads.__name__ = "graded"
    alone = make_trainer(8, "alone", reward_funcs=grade, max_steps=1)
    alone.train()
    threaded = make_trainer(8, "threads", reward_funcs=in_threads, max_steps=1)
    run = Thread(target=threaded.train)
    run.start()
    run.join()
    assert threaded.state.global_step == 1
    of_alone, of_threads = (table_of(trainer)["reward"].tolist() for trainer in (alone, threaded))
    assert of_alone == of_threads
    assert len(set(of_alone)) > 1


def test_one_reward_function_serves_text_and_messages(make_trainer, dataset):
    def text_length(completions: list[Any], **kwargs: Any) -> list[float]:
        texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
        return [float(len(text)) for text in texts]

    asked = [prompt[-1]["content"] for prompt in dataset["prompt"]]
    of_each = {}
    for name, prompts in (
        ("text", asked),
        ("messages", [[{"role": "user", "content": prompt}] for prompt in asked]),
    ):
        data = Dataset.from_dict({"prompt": prompts})
        trainer = make_trainer(8, name, reward_funcs=text_length, data=data, **SHORT)
        trainer.rollout_func = told([[7 + i] * (1 + i % 3) for i in range(8)])
        trainer.train()
        of_each[name] = table_of(trainer)
        assert set(of_each[name]["reward"]) == set(
            map(float, map(len, of_each[name]["completion"]))
        )
    columns = ["completion", "reward", "kept", "advantage"]
    assert of_each["text"][columns].equals(of_each["messages"][columns])


# ---- dead groups ---------------------------------------------------------------------------------


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("rule", ["max_variance", "max_contrast", "dynamic_sampling"])
def test_a_step_in_which_every_group_but_one_is_dead_learns_of_that_one(
    make_trainer, monkeypatch, rule, accumulation
):
    """Of four prompts one has contrast: 4 of its 8 rows are kept, or by a batch rule all."""

    def of_third(completions: list[Any], **kwargs: Any) -> list[float]:
        return [float(i // 8 == 2 and i % 8 in (1, 5)) for i in range(len(completions))]

    passed = count_passed_rows(monkeypatch)
    trainer = make_trainer(
        8,
        reward_funcs=of_third,
        downsampling_rule=rule,
        per_device_train_batch_size=16 // accumulation,
        gradient_accumulation_steps=accumulation,
        max_steps=1,
    )
    before = weights(trainer)
    trainer.train()
    assert not equal(before, weights(trainer))
    (entry,) = logged(trainer)
    assert entry["frac_reward_zero_std"] == 0.75
    taught = 4 if rule == "max_variance" else 8
    assert entry["pods/zero_advantage_rows"] == 16 - taught
    assert sum(passed) == entry["pods/rows_passed"] == taught
    advantages = table_of(trainer).groupby("group")["advantage"].apply(lambda a: a.abs().max())
    assert [bool(a > 0) for a in advantages] == [False, False, True, False]


# ---- images --------------------------------------------------------------------------------------


def pictures(i: int) -> list[Any]:
    """Those of prompt i: one, or two of different colours."""
    return [square(20 * i + 40 * k) for k in range(1 + i % 2)]


def say_row(read: str, row: int) -> str:
    return "x" * (1 + 7 * row % 5)


def last_length(completions: list[Any], **kwargs: Any) -> list[float]:
    return [float(len(completion[-1]["content"])) for completion in completions]


@pytest.mark.parametrize(
    "rule",
    [
        {"downsampling_rule": "max_contrast"},
        {"downsampling_rule": "max_reward", "advantage_baseline": "group"},
    ],
    ids=["max_contrast", "max_reward"],
)
def test_one_or_two_images_go_with_the_row_that_is_kept_of_four(tmp_path, rule):
    """8 prompts with n = 4; m = 1."""
    trainer = agent_trainer(
        4,
        tmp_path,
        say_row,
        model=vision_model,
        reward_funcs=[last_length],
        train_dataset=questions(images=[pictures(i) for i in range(8)]),
        num_generations=1,
        max_steps=1,
        **rule,
    )
    outputs = batches_of(trainer)
    trainer.train()

    kept = [place // 4 for place in np.flatnonzero(table_of(trainer)["kept"])]
    if "advantage_baseline" in rule:
        assert kept == list(range(8))
    assert_has_pixels(trainer, outputs[0], [pictures(prompt) for prompt in kept])


def assert_has_pixels(trainer: Any, output: dict[str, Any], images_K: list[list[Any]]) -> None:
    """Whether the update's pixels are these, row by row; in another order they would not be."""
    process = trainer.processing_class.image_processor

    def pixels(of_rows: list[list[Any]]) -> torch.Tensor:
        flat = [image for images in of_rows for image in images]
        return process(images=flat, return_tensors="pt")["pixel_values"]

    assert output["num_images"] == [len(images) for images in images_K]
    torch.testing.assert_close(output["pixel_values"], pixels(images_K))
    for swapped in ([images[::-1] for images in images_K], images_K[::-1]):
        assert not torch.equal(output["pixel_values"], pixels(swapped))


def shade_of(row: int) -> int:
    return 3 * row


def look_twice(shade: int) -> list:
    """Take two pictures.

    Args:
        shade: Of which colour.

    Returns:
        The pictures.
    """
    return [
        {"type": "image", "image": square(shade)},
        {"type": "image", "image": square(255 - shade)},
        {"type": "text", "text": "two pictures"},
    ]


def test_several_images_of_a_tool_in_the_second_turn_go_with_their_row(tmp_path):
    """In the first turn each row takes a picture, in the second turn every second row two.

    A first turn without a picture, of a prompt with one, fails in TRL itself where the processor
    of images returns numpy's arrays, as the one of these tests does.
    """

    def reply(read: str, row: int) -> str:
        results = read.count("<tool_response>")
        if results == 0:
            return call("look", shade=row)
        of_row = row_of(read)
        if results == 1 and of_row % 2:
            return call("look_twice", shade=shade_of(of_row))
        return f"row {of_row} " + "!" * (1 + 5 * of_row % 7)

    trainer = agent_trainer(
        4,
        tmp_path,
        reply,
        model=vision_model,
        reward_funcs=[last_length],
        tools=[look, look_twice],
        train_dataset=questions(images=[pictures(i) for i in range(8)]),
        num_generations=2,
        per_device_train_batch_size=4,
        max_steps=1,
    )
    outputs = batches_of(trainer)
    trainer.train()

    images_K = []
    for place, text in table_of(trainer).query("kept")["completion"].items():
        row = int(text.split()[1])
        assert row == place
        twice = [square(shade_of(row)), square(255 - shade_of(row))]
        images_K.append([*pictures(place // 4), square(row), *(twice if row % 2 else [])])
    assert len({len(images) for images in images_K}) > 1
    assert_has_pixels(trainer, outputs[0], images_K)


# ---- environments --------------------------------------------------------------------------------


class Board(CountingEnvironment):
    """One whose reset wants a column."""

    def reset(self, board: str, **kwargs: Any) -> str:
        return super().reset() + board


class Exact(CountingEnvironment):
    """One that takes nothing else."""

    def reset(self, prompt: Any, board: str = "") -> str:
        return super().reset() + board


def make_board() -> Board:
    return Board()


TWO = {"counter": CountingEnvironment, "echo": Echo}
#: The factory, the columns beside the prompt, and what is said.
TYPOS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "the column that tells the environment": (
        TWO,
        {"environmnt": ["echo"] * 8},
        "no column 'environment'.* 'environmnt'",
    ),
    "no such column at all": (TWO, {}, "no column 'environment'"),
    "the name in it": (
        TWO,
        {"environment": ["echo"] * 7 + ["ecco"]},
        "row 7 .* 'ecco'; .* counter, echo",
    ),
    "no name in it": (TWO, {"environment": ["echo", None] * 4}, "row 1 .* None; .* counter, echo"),
    "a column that reset wants": (Board, {"bord": ["a"] * 8}, "Board.reset needs 'board'.* bord"),
    "one of two environments": (
        {"board": Board, "echo": Echo},
        {"environment": ["board", "echo"] * 4, "bord": ["a"] * 8},
        "Board.reset needs 'board'",
    ),
    "a column that reset does not take": (
        Exact,
        {"bord": ["a"] * 8},
        r"Exact.reset has no \*\*kwargs.* bord: add \*\*kwargs",
    ),
    "made by a function": (make_board, {"bord": ["a"] * 8}, "Board.reset needs 'board'"),
}


@pytest.mark.parametrize(("factory", "columns", "says"), TYPOS.values(), ids=TYPOS.keys())
def test_a_typo_in_a_column_of_environments_is_told_before_anything_is_generated(
    tmp_path, factory, columns, says
):
    with pytest.raises(InvalidInputError, match=says):
        agent_trainer(
            8,
            tmp_path,
            reply_to_counter,
            environment_factory=factory,
            train_dataset=questions(**columns),
        )


@pytest.mark.parametrize(
    ("factory", "columns"),
    [
        (Board, {"board": ["a"] * 8}),
        (Exact, {"board": ["a"] * 8}),
        ({"board": Board, "echo": Echo}, {"environment": ["board"] * 8, "board": ["a"] * 8}),
    ],
    ids=["one that takes more", "one that takes no more", "two by name"],
)
def test_what_environments_can_take_is_taken(tmp_path, factory, columns):
    trainer = agent_trainer(
        8,
        tmp_path,
        reply_to_counter,
        environment_factory=factory,
        train_dataset=questions(**columns),
    )
    assert trainer.train_dataset["board"][:] == ["a"] * 8


# ---- reference models ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pods", "max_contrast", "grpo"])
def test_a_synchronised_reference_is_refused_with_lora_by_its_name(make_trainer, method):
    """LoRA's reference is the model without its adapter, which nothing can be copied to."""
    n = 4 if method == "grpo" else 8
    fields = {"beta": 0.1, "sync_ref_model": True, "peft_config": LORA, "method": method}
    with pytest.raises(NotImplementedError, match=r"sync_ref_model=True.* PEFT"):
        make_trainer(n, **fields, **SHORT)
    with pytest.raises(ValueError, match=r"sync_ref_model=True.*beta=0.0"):
        make_trainer(n, sync_ref_model=True, method=method, **SHORT)


def test_a_synchronised_reference_follows_the_model_and_lora_keeps_the_base(make_trainer):
    fields = {"beta": 0.1, "max_completion_length": 16, "temperature": 1.5, "max_steps": 1}
    synced = make_trainer(
        8,
        "synced",
        sync_ref_model=True,
        ref_model_mixup_alpha=1.0,
        ref_model_sync_steps=1,
        **fields,
    )
    before = weights(synced)
    synced.train()
    assert not equal(before, weights(synced))
    for name, value in synced.accelerator.unwrap_model(synced.ref_model).state_dict().items():
        torch.testing.assert_close(value, weights(synced)[name])

    adapted = make_trainer(8, "adapted", peft_config=LORA, **fields)
    before = weights(adapted)
    adapted.train()
    changed = {name for name, value in weights(adapted).items() if not value.equal(before[name])}
    assert changed
    assert all("lora_" in name for name in changed)
    assert math.isfinite(logged(adapted)[0]["kl"])


# ---- reward functions that are none --------------------------------------------------------------


def grade_all(completions: list[Any], **kwargs: Any) -> list[float]:
    return [0.0] * len(completions)


NO_FUNCTIONS: dict[str, tuple[Any, str]] = {
    "a name in a file that is not there": (
        "nofile.reward",
        "the text 'nofile.reward', .*: import it",
    ),
    "a file": ("rewards.py:right", "'rewards.py:right'"),
    "one of a list": ([grade_all, "nofile.reward"], "'nofile.reward'"),
    "what it returned": (grade_all(["a"]), "has 0.0, .* functions"),
    "nothing": ([None], "has None, .* functions"),
    "no functions": ([], "no reward function"),
    "a tuple": ((grade_all, grade_all), "tuple.*list"),
    "functions by name": ({"all": grade_all}, "dict.*list"),
}


@pytest.mark.parametrize(("given", "says"), NO_FUNCTIONS.values(), ids=NO_FUNCTIONS.keys())
def test_what_is_no_reward_function_is_told_by_what_it_is(make_trainer, given, says):
    with pytest.raises(InvalidInputError, match=says):
        make_trainer(8, reward_funcs=given, **SHORT)
