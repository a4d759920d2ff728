"""The tasks `numbers` and `answers`: strict, with questions of their own in the test."""

import math

import pytest

from podslab.tasks import get_task

ROW = {"question": "What is 7 x 8?", "answer": "56"}


def test_no_question_of_the_test_is_trained_on():
    task = get_task("numbers")

    def words_of_questions(split):
        """The words of each question in alphabetical order: numbers may stand in any."""
        return {tuple(sorted(row["question"].split())) for row in task.load(split)}

    assert words_of_questions("train").isdisjoint(words_of_questions("test"))


def expected_answer(question):
    """The sum or the product of the numbers, where there is a sign; else the largest of them."""
    words = question.replace(",", "").replace("?", "").split()
    numbers = [int(word) for word in words if word.isdigit()]
    if " + " in question:
        return sum(numbers)
    if " x " in question:
        return math.prod(numbers)
    return max(numbers)


def test_answers_are_right_and_half_of_the_questions_are_to_be_computed():
    task = get_task("numbers")
    rows = task.load("train") + task.load("test")
    for row in rows:
        assert int(row["answer"]) == expected_answer(row["question"])
        assert task.grade(task.gold_completion(row), row) == (True, True)

    have_a_sign = [row for row in rows if " + " in row["question"] or " x " in row["question"]]
    assert 0.4 < len(have_a_sign) / len(rows) < 0.6


@pytest.mark.parametrize(
    ("text", "answer", "form"),
    [
        ("56", True, True),
        (" 56.\n", True, True),
        ("The product is 56", True, False),
        ("7 x 8 = 56", False, False),
        ("56, 56", False, False),
        ("57", False, True),
        ("", False, False),
        ("fifty-six", False, False),
        ("-56", False, False),
        ("\u221256", False, False),
        (".56", False, False),
        ("56%", False, False),
        ("56k", False, False),
        ("56!", False, False),
        ("56²", False, False),
        ("√56", False, False),
        (f"56{' ' * 1000}57", False, False),
    ],
)
def test_right_is_exactly_one_number_the_right_one(text, answer, form):
    assert get_task("numbers").grade(text, ROW) == (answer, form)


def test_one_kind_alone_can_be_asked():
    asked = get_task("numbers", kind="sum", train_size=20).load("train")
    assert all(" + " in row["question"] for row in asked)


def test_answers_mixes_its_kinds_evenly_and_asks_other_questions_in_the_test():
    task = get_task("answers", kinds=["largest", "chain_sum"], train_size=100, test_size=20)
    train, test = task.load("train"), task.load("test")
    assert (len(train), len(test)) == (100, 20)
    assert sum("largest" in row["question"] for row in train) == 50
    assert {row["question"] for row in train}.isdisjoint(row["question"] for row in test)
    assert all(task.grade(task.gold_completion(row), row) == (True, True) for row in train + test)


@pytest.mark.parametrize(
    ("text", "answer", "form"),
    [
        ("56", True, True),
        (" 56.\n", True, True),
        ("The product is 56", False, True),
        ("55, 56", False, True),
        ("56\n57", False, False),
        ("", False, False),
    ],
)
def test_answers_takes_the_answer_and_nothing_else(text, answer, form):
    assert get_task("answers").grade(text, ROW) == (answer, form)
