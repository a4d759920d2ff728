"""Solutions that people wrote take no answer back; see also `test_reported_answers`."""

import pytest

from podsgrading.retraction import find_retraction
from podslab.tasks import get_task
from tests.support.data import sample_and_complete


def taken_back(rows):
    """The solutions that take an answer back, as what follows an answer or on their own."""
    texts = [f"{row['solution']}\n{row['question']}" for row in rows]
    return [text for text in texts if find_retraction(text)]


@sample_and_complete("gsm8k", "none of 8,792 solutions takes an answer back")
@pytest.mark.parametrize("split", ["train", "test"])
def test_no_solution_of_gsm8k_takes_an_answer_back(split, data):
    assert taken_back(get_task("gsm8k").load(split, str(data))) == []


@sample_and_complete("math500", "none of 500 solutions takes an answer back")
def test_no_solution_of_math_takes_an_answer_back(data):
    assert taken_back(get_task("math").load("math500", str(data))) == []


def test_a_solution_that_is_corrected_behind_its_end_is_found():
    rows = [{"solution": r"So $\boxed{7}$. Wait, that is wrong. It is 8.", "question": ""}]
    assert len(taken_back(rows)) == 1
