"""Datasets and reward functions that TRL would fail on later are refused when a trainer is made."""

from functools import partial
from typing import Any

import pytest
from datasets import Dataset, IterableDataset

from podsrl.errors import InvalidInputError
from podsrl.trl import PODSConfig, PODSTrainer

SIZES = {"num_rollouts": 4, "num_generations": 2, "per_device_train_batch_size": 2}
MESSAGES = [{"role": "user", "content": "1 + 1"}]


def constant(completions: list[Any], **columns: Any) -> list[float]:
    return [1.0] * len(completions)


def trainer_of(tiny_model, folder, dataset: Any, function: Any = constant) -> PODSTrainer:
    args = PODSConfig(str(folder), report_to="none", use_cpu=True, bf16=False, **SIZES)
    return PODSTrainer(str(tiny_model), function, args, dataset)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"question": ["a", "b"]}, "train_dataset has no column 'prompt'; it has question"),
        ({"prompt": [1, 2]}, "prompts of train_dataset are int64, and a prompt is text"),
        ({"prompt": [{"text": "a"}, {"text": "b"}]}, "prompts of train_dataset are struct"),
        ({"prompt": ["a", None, None]}, "the prompt of row 1 .* is None, as 2 of 3 are"),
        ({"prompt": [None, None]}, "the prompt of row 0 .* is None, as 2 of 2 are"),
        ({"prompt": ["a", "b", ""]}, "the prompt of row 2 .* is empty, as 1 of 3 are"),
        ({"prompt": [MESSAGES, []]}, "the prompt of row 1 .* is empty, as 1 of 2 are"),
    ],
)
def test_prompts_that_trl_cannot_use_are_named_by_their_row(tiny_model, tmp_path, columns, says):
    with pytest.raises(InvalidInputError, match=says):
        trainer_of(tiny_model, tmp_path, Dataset.from_dict(columns))


def test_a_row_is_counted_as_the_dataset_shows_it_after_shuffling(tiny_model, tmp_path):
    dataset = Dataset.from_dict({"prompt": ["", "a", "b"]}).select([2, 1, 0])
    with pytest.raises(InvalidInputError, match="the prompt of row 2 "):
        trainer_of(tiny_model, tmp_path, dataset)


@pytest.mark.parametrize("prompt", ["1 + 1", MESSAGES])
def test_text_and_messages_are_prompts(tiny_model, tmp_path, prompt):
    trainer = trainer_of(tiny_model, tmp_path, Dataset.from_list([{"prompt": prompt}] * 4))
    assert trainer.train_dataset["prompt"][:] == [prompt] * 4


def test_columns_that_a_transform_makes_are_no_mistake(tiny_model, tmp_path):
    dataset = Dataset.from_dict({"number": [1, 2, 3, 4]})
    dataset.set_transform(
        lambda rows: {
            "prompt": [f"{number} + 1" for number in rows["number"]],
            "answer": [str(number + 1) for number in rows["number"]],
        }
    )
    trainer = trainer_of(tiny_model, tmp_path, dataset, needs_answer)
    assert trainer.train_dataset[0] == {"prompt": "1 + 1", "answer": "2"}


def needs_answer(completions, answer, **columns):
    return [0.0] * len(completions)


def takes_no_others(completions, answer):
    return [0.0] * len(completions)


def takes_all_by_name(prompts, completions, completion_ids, trainer_state, answer, **others):
    return [0.0] * len(completions)


async def needs_answer_too(completions, answer, **columns):
    return [0.0] * len(completions)


class Grader:
    __name__ = "grader"

    def __call__(self, completions, gold, **columns):
        return [0.0] * len(completions)


@pytest.mark.parametrize("function", [needs_answer, needs_answer_too])
def test_a_column_that_a_reward_function_needs_is_missed_before_anything_is_generated(
    tiny_model, tmp_path, function
):
    dataset = Dataset.from_list([{"prompt": "1 + 1", "solution": "2"}] * 4)
    says = f"'{function.__name__}' needs 'answer', and train_dataset has no such column; it has"
    with pytest.raises(InvalidInputError, match=f"{says} prompt, solution"):
        trainer_of(tiny_model, tmp_path, dataset, function)


def test_an_object_that_is_called_is_looked_at_as_a_function_is(tiny_model, tmp_path):
    dataset = Dataset.from_list([{"prompt": "1 + 1", "answer": "2"}] * 4)
    with pytest.raises(InvalidInputError, match="'grader' needs 'gold'"):
        trainer_of(tiny_model, tmp_path, dataset, Grader())


def test_a_function_without_kwargs_is_told_the_missing_word(tiny_model, tmp_path):
    dataset = Dataset.from_list([{"prompt": "1 + 1", "answer": "2"}] * 4)
    says = r"'takes_no_others' has no \*\*kwargs .* also passes prompts, .*: add \*\*kwargs"
    with pytest.raises(InvalidInputError, match=says):
        trainer_of(tiny_model, tmp_path, dataset, takes_no_others)


@pytest.mark.parametrize(
    "function", [constant, needs_answer, takes_all_by_name, partial(needs_answer, answer="2")]
)
def test_functions_that_trl_can_call_are_taken(tiny_model, tmp_path, function):
    if isinstance(function, partial):
        function.__name__ = "bound"  # type: ignore[attr-defined]
    dataset = Dataset.from_list([{"prompt": "1 + 1", "answer": "2"}] * 4)
    trainer = trainer_of(tiny_model, tmp_path, dataset, function)

    [taken] = trainer.reward_funcs
    columns = {"prompts": ["1 + 1"], "completion_ids": [[5]], "trainer_state": trainer.state}
    if not isinstance(function, partial):
        columns["answer"] = ["2"]
    given = {"completions": ["3"], **columns}
    assert taken(**given) == function(**given)


def test_a_stream_whose_columns_are_not_known_is_taken(tiny_model, tmp_path):
    stream = IterableDataset.from_generator(lambda: iter([{"prompt": "1 + 1", "answer": "2"}] * 4))
    args = PODSConfig(
        str(tmp_path), report_to="none", use_cpu=True, bf16=False, max_steps=1, **SIZES
    )
    trainer = PODSTrainer(str(tiny_model), needs_answer, args, stream)
    assert trainer.train_dataset is stream
