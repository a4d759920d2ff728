import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podslab.tasks import get_task
from podslab.tasks.arithmetic import Arithmetic
from podslab.tasks.sums import split_of, worked_sum
from podsrl.errors import InvalidInputError

NUMBERS = st.integers(0, 10**12)


def questions(task, split):
    return [row["question"] for row in task.load(split)]


def test_train_and_test_share_no_problem_whatever_the_seeds_and_sizes():
    seen = set()
    held_out = set()
    for seed in range(20):
        with_more = Arithmetic(min_columns=1, max_columns=2, train_size=90, seed=seed)
        with_fewer = Arithmetic(min_columns=1, max_columns=2, test_size=16, seed=seed)
        seen |= set(questions(with_more, "train"))
        held_out |= set(questions(with_fewer, "test"))
    assert len(seen) > 800  # so that a leak would show
    assert len(held_out) > 100
    assert not seen & held_out


def test_the_same_seed_gives_the_same_rows_and_another_seed_others():
    first, again, other = (questions(Arithmetic(seed=seed), "train") for seed in (0, 0, 1))
    assert first == again
    assert len(set(first) & set(other)) < 10


def test_a_split_has_the_asked_number_of_rows_all_different():
    task = Arithmetic(min_columns=2, max_columns=2, train_size=2000, test_size=300)
    assert len(set(questions(task, "train"))) == 2000
    assert len(set(questions(task, "test"))) == 300


def test_more_test_rows_do_not_change_the_first_ones():
    few = questions(Arithmetic(test_size=10), "test")
    many = questions(Arithmetic(test_size=100), "test")
    assert many[:10] == few


def test_every_difficulty_from_min_to_max_columns_comes_equally_often():
    rows = Arithmetic(min_columns=2, max_columns=7, train_size=60).load("train")
    for row in rows:
        lengths = [len(number) for number in row["question"].split("+")]
        assert lengths == [row["columns"]] * 2
    assert sorted(row["columns"] for row in rows) == sorted([2, 3, 4, 5, 6, 7] * 10)


@pytest.mark.parametrize("columns", [1, 2, 4, 9, 40])
def test_every_gold_completion_is_right_and_in_format(columns):
    size = 8 if columns == 1 else 64
    task = Arithmetic(columns, columns, train_size=size, test_size=size)
    for split in task.splits[: 1 if columns == 1 else 2]:
        for row in task.load(split):
            assert int(row["answer"]) == sum(int(n) for n in row["question"].split("+"))
            assert task.grade(task.gold_completion(row), row) == (True, True)


def test_the_example_is_graded_as_it_says():
    task = get_task("arithmetic")
    assert task.grade(task.example_right, task.example).answer is True
    assert task.grade(task.example_wrong, task.example).answer is False


def test_an_integer_of_ten_thousand_digits_is_compared_too():
    row = {"question": "?", "answer": "7" * 10_000}
    completion = f"<think></think><answer>{'7' * 10_000}</answer>"
    assert Arithmetic().grade(completion, row).answer is True


def test_zero_is_zero_however_it_is_written():
    row = {"question": "0+0", "answer": "0"}
    for answer in ("0", "-0", "+000"):
        completion = f"<think></think><answer>{answer}</answer>"
        assert Arithmetic().grade(completion, row).answer is True
    assert Arithmetic().grade("<think></think><answer>-</answer>", row).answer is False


@given(NUMBERS, NUMBERS)
def test_a_working_without_slips_is_true_line_by_line_and_gives_the_sum(a, b):
    working, answer = re.fullmatch(
        r"<think>(.*)</think><answer>(.*)</answer>", worked_sum(a, b), re.DOTALL
    ).groups()
    lines = working.split("\n")
    assert len(lines) == len(str(max(a, b)))
    for line in lines:
        terms, result = line.split("=")
        assert sum(map(int, terms.split("+"))) == int(result)
    assert answer == str(a + b)


@given(NUMBERS, NUMBERS, st.data())
def test_any_slip_makes_the_answer_wrong_and_its_digits_are_those_of_the_working(a, b, data):
    columns = len(str(max(a, b)))
    slips = data.draw(st.lists(st.integers(0, 9), min_size=columns, max_size=columns))
    text = worked_sum(a, b, slips)
    working, answer = re.findall(r">([^<]+)</", text)
    last_digits = "".join(line[-1] for line in reversed(working.split("\n")))
    assert answer.removeprefix("1") in (last_digits, last_digits.removeprefix("1"))
    assert (int(answer) == a + b) == (not any(slips))


def test_a_hash_of_the_problem_decides_its_split():
    # pinned: another rule would let an old model be tested on what it was trained on
    assert [split_of(a, b) for a, b in [(47, 85), (10, 10), (99, 13)]] == [
        "train",
        "test",
        "train",
    ]
    share = sum(split_of(a, 50) == "test" for a in range(8000)) / 8000
    assert 0.1 < share < 0.15  # one in eight


def test_generated_data_refuse_a_path():
    with pytest.raises(InvalidInputError, match=r"generated.*'sums\.jsonl'"):
        Arithmetic().load("train", "sums.jsonl")


def test_an_unknown_split_names_the_known_ones():
    with pytest.raises(InvalidInputError, match=r"'validation'.*train.*test"):
        Arithmetic().load("validation")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_columns": 0}, r"min_columns = 0"),
        ({"min_columns": 5, "max_columns": 4}, r"min_columns = 5, max_columns = 4"),
        ({"test_size": 0}, r"test_size = 0"),
    ],
)
def test_a_difficulty_or_size_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        get_task("arithmetic", **options)


def test_asking_for_more_problems_than_there_are_says_what_to_change():
    with pytest.raises(InvalidInputError, match=r"82 .*1 columns.*train_size"):
        Arithmetic(1, 1, train_size=82).load("train")


@pytest.mark.parametrize(
    ("completion", "strict", "lenient"),
    [
        ("<think>7+5=12</think><answer>12</answer>", True, True),
        ("7+5=12", False, True),
        ("<think>7+5=12\n13</think>", False, False),
        ("12 or <answer>13</answer>", False, False),  # a tag's content comes first
        ("<answer>12", False, True),
        ("12", False, True),
        ("12</answer>", False, True),
        ("<think>12</think>", False, True),
        ("<think>x</think><answer>1</answer> no <answer>12</answer>", True, True),
        ("", False, False),
    ],
)
def test_a_lenient_grader_takes_the_last_integer_where_there_is_no_tag(completion, strict, lenient):
    for mode, expected in (("strict", strict), ("lenient", lenient)):
        grade = get_task("arithmetic", mode=mode).grade(completion, {"answer": "12"})
        assert grade.answer is expected
        if mode == "strict":
            assert grade.format is completion.startswith("<think>7+5=12</think>")
