"""The questions that arms of one's own script are measured on."""

import pytest

pytest.importorskip("trl")

from datasets import Dataset

from podslab.own_script.questions import Questions


def prompts(data: Dataset) -> list[str]:
    return [turns[0]["content"] for turns in data["prompt"]]


def asks(numbers: list[int]) -> Dataset:
    return Dataset.from_list(
        [{"prompt": [{"role": "user", "content": str(number)}]} for number in numbers]
    )


def test_a_prompt_that_is_held_out_is_trained_on_nowhere_though_the_data_have_it_twice():
    data = asks([*range(80), *range(80)])
    questions = Questions.of(data, None, held_out=32)

    held_out = [*prompts(questions.tuning), *prompts(questions.reported)]
    assert len(held_out) == 32
    assert questions.is_held_out
    assert not set(held_out) & set(prompts(questions.train))
    assert set(held_out) | set(prompts(questions.train)) == set(prompts(data))


def test_of_several_evaluation_sets_the_first_is_asked_and_training_stays_whole():
    data = asks(list(range(40)))
    sets = {"first": asks(list(range(100, 120))), "second": asks(list(range(200, 220)))}
    questions = Questions.of(data, sets, held_out=32)

    assert questions.train is data
    asked = [*prompts(questions.tuning), *prompts(questions.reported)]
    assert sorted(asked) == sorted(prompts(sets["first"]))
