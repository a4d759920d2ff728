"""Evaluations: sampled from the real tiny model, graded in the order of the rows, repeatable."""

from dataclasses import replace

import pytest
import torch

from podslab.evaluation.sampling import Graded, Sampling, sample_and_grade, score
from podslab.models.load import load_model
from podslab.tasks import Grade, get_task
from podsrl.errors import InvalidInputError


@pytest.fixture(scope="module")
def model_and_tokenizer(tiny_model):
    return load_model(str(tiny_model))


@pytest.fixture
def task():
    return get_task("arithmetic", min_columns=2, max_columns=2, test_size=12)


def test_an_evaluation_is_repeatable_and_changes_nothing_of_the_run_around_it(
    model_and_tokenizer, task
):
    model, _ = model_and_tokenizer
    model.train()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    sampling = Sampling(max_new_tokens=32, batch_size=7)
    rows = task.load("test")

    first = sample_and_grade(*model_and_tokenizer, task, rows, 2, sampling)
    again = sample_and_grade(*model_and_tokenizer, task, rows, 2, sampling)
    another_seed = replace(sampling, seed=1)
    other = sample_and_grade(*model_and_tokenizer, task, rows, 2, another_seed)

    assert first == again != other
    assert [len(grades) for grades in first] == [2] * 12
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training


def test_each_completion_is_graded_against_its_own_row(model_and_tokenizer, task, monkeypatch):
    """Greedy decoding writes both repeats of a row alike, whatever the order of generation."""
    model, tokenizer = model_and_tokenizer
    asked = []

    def remember(texts, rows):
        asked.extend((row["question"], text) for text, row in zip(texts, rows, strict=True))
        return [Grade(True, True)] * len(rows)

    monkeypatch.setattr(task, "grade_batch", remember)
    questions = ["12+34", "7+5", "99+99"]
    rows = [{"question": question, "answer": ""} for question in questions]
    sampling = Sampling(temperature=0.0, max_new_tokens=32, batch_size=4)
    graded = sample_and_grade(model, tokenizer, task, rows, 2, sampling)
    asked_questions = [question for question, _ in asked]
    assert asked_questions == ["12+34", "12+34", "7+5", "7+5", "99+99", "99+99"]

    # the first line of the working adds the last digits of the row's own numbers
    for question, text in asked:
        first, second = question.split("+")
        assert text.removeprefix("<think>").startswith(f"{first[-1]}+{second[-1]}=")

    _, text = asked[0]
    tokens = tokenizer(text + tokenizer.eos_token)["input_ids"]
    assert graded[0][0].length == len(tokens)


def test_scores_are_shares_of_problems_and_their_error_is_over_problems():
    right = Graded(True, True, 4)
    wrong = Graded(False, True, 6)
    unknown = Graded(None, False, 8)
    scores = score([[right, right], [right, wrong], [wrong, unknown]])
    assert scores.answer_accuracy == pytest.approx([2 / 3, 1 / 3])
    assert scores.format_accuracy == pytest.approx([1, 2 / 3])
    assert scores.mean_length == pytest.approx([14 / 3, 6])  # (4 + 4 + 6) / 3, (4 + 6 + 8) / 3
    # means of problems 1, 0.5, 0: standard deviation 0.5, over the root of 3
    assert scores.standard_error == pytest.approx(0.5 / 3**0.5)
    assert scores.unscorable == 1


def test_an_evaluation_of_nothing_is_refused(model_and_tokenizer, task):
    with pytest.raises(InvalidInputError, match="at least one row"):
        sample_and_grade(*model_and_tokenizer, task, [], 1, Sampling())
