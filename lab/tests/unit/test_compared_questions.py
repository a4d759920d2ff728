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


def test_rows_that_share_a_prompt_stay_where_another_column_differs():
    from PIL import Image

    chat = [{"role": "user", "content": "How many items are there?"}]
    # Every picture is there twice, with the same answer.
    pictures = [Image.new("L", (8, 8), color) for color in [*range(41), *reversed(range(41))]]
    data = Dataset.from_list([{"prompt": chat, "image": one, "answer": "1"} for one in pictures])
    questions = Questions.of(data, None, held_out=20)

    def colors(rows: Dataset) -> list[int]:
        return [picture.getpixel((0, 0)) for picture in rows["image"]]

    held_out = [*colors(questions.tuning), *colors(questions.reported)]
    left = colors(questions.train)
    assert len(held_out) == 20
    assert sorted(left) == sorted([color for color in range(41) if color not in held_out] * 2)
    assert questions.repeated_rows == 82 - 20 - len(left) > 0


def test_questions_of_data_with_a_transform_are_told_by_the_rows_as_they_are_stored():
    numbers = [*range(81), *reversed(range(81))]
    data = Dataset.from_list([{"number": number} for number in numbers])
    data.set_transform(lambda rows: {"prompt": [f"{number} =" for number in rows["number"]]})
    questions = Questions.of(data, None, held_out=32)

    held_out = {row["prompt"] for part in (questions.tuning, questions.reported) for row in part}
    left = [row["prompt"] for row in questions.train]
    assert not held_out & set(left)
    assert held_out | set(left) == {f"{number} =" for number in range(81)}
    assert questions.repeated_rows > 0


def test_training_rows_that_are_also_in_the_eval_dataset_are_counted():
    data = asks(list(range(40)))
    assert Questions.of(data, asks(list(range(30, 60))), held_out=32).repeated_rows == 10
    assert Questions.of(data, asks(list(range(40, 60))), held_out=32).repeated_rows == 0

    without_end = data.to_iterable_dataset()
    assert Questions.of(without_end, asks(list(range(30, 60))), held_out=32).repeated_rows == 0
