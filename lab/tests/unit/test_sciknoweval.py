import json

import pytest

from podsgrading.equations import NotAnEquationError, balances, is_balanced, read_equation
from podslab.tasks import get_task
from podslab.tasks.sciknoweval import SUBTASKS
from podsrl.errors import InvalidInputError
from tests.support.arguable import answered
from tests.support.data import SAMPLE, sample_and_complete

WATER = "2H2 + O2 = 2H2O"


@sample_and_complete("sciknoweval", "all 2,400 gold answers pass their own grader")
@pytest.mark.parametrize("subtask", SUBTASKS)
def test_every_gold_answer_of_sciknoweval_passes_its_own_grader(subtask, data):
    task = get_task("sciknoweval", subtask=subtask)
    rows = [row for split in task.splits for row in task.load(split, str(data))]
    file = data / f"{subtask}.jsonl"
    assert len(rows) == len(file.read_text().splitlines())
    assert {row["subtask"] for row in rows} == {subtask}
    wrong = [row for row in rows if task.grade(task.gold_completion(row), row) != (True, True)]
    assert wrong == []


@sample_and_complete("sciknoweval", "the same for all 2,400 questions")
def test_training_and_testing_questions_are_disjoint_and_a_fifth_is_for_testing(data):
    task = get_task("sciknoweval")
    train = {row["question"] for row in task.load("train", str(data))}
    test = {row["question"] for row in task.load("test", str(data))}
    assert not train & test
    share = len(test) / (len(train) + len(test))
    assert share == pytest.approx(0.2, abs=0.15 if data == SAMPLE / "sciknoweval" else 0.05)


@sample_and_complete("sciknoweval", "the same for 300 equations")
def test_the_unbalanced_equation_of_a_question_is_wrong_and_doubled_gold_is_right(data):
    task = get_task("sciknoweval", subtask="balancing_chemical_equation")
    rows = []
    for split in task.splits:
        rows += task.load(split, str(data))

    checked = 0
    for row in rows:
        question = row["question"].splitlines()[1]
        try:
            gold = read_equation(row["answer"])
            given = read_equation(question)
        except NotAnEquationError:
            continue

        checked += 1
        assert is_balanced(gold)
        assert task.grade(answered(question), row).answer is is_balanced(given)
        if not has_charges(gold):
            assert task.grade(answered(doubled(gold)), row).answer is True

    assert checked > 0.96 * len(rows)


def has_charges(equation):
    left, right = equation
    return any(species.charge for _, species in [*left, *right])


def doubled(equation):
    """The equation as text, with twice as much of everything."""
    sides = []
    for side in equation:
        terms = [f"{2 * number}{species.formula}" for number, species in side]
        sides.append(" + ".join(terms))
    return " = ".join(sides)


@pytest.mark.parametrize("answer", ["x" * 5000, "(" * 300 + "=" + ")", ""])
def test_what_is_too_long_or_too_deep_is_no_equation(answer):
    assert not balances(answer, WATER)


def test_brackets_hydrates_and_electrons_are_counted():
    equation = read_equation("2CoCl2*6H2O + K[Al(OH)4] = e{-} + Ca3(PO4)2")
    atoms = [dict(species.atoms) for _, species in equation.left]
    assert atoms[0] == {"Co": 1, "Cl": 2, "H": 12, "O": 6}
    assert atoms[1] == {"K": 1, "Al": 1, "O": 4, "H": 4}
    assert equation.right[0][1].charge == -1
    assert dict(equation.right[1][1].atoms) == {"Ca": 3, "P": 2, "O": 8}


def test_where_the_gold_equation_is_unbalanced_only_its_own_coefficients_are_right():
    assert balances("O2 + H2 = H2O", "H2 + O2 = H2O")
    assert not balances(WATER, "H2 + O2 = H2O")


def test_a_gold_answer_that_is_no_equation_is_compared_as_a_text():
    task = get_task("sciknoweval")
    row = {"question": "", "answer": "K + Br0 = KBr0", "choices": []}
    assert task.grade(answered("K+Br0=KBr0"), row).answer is True
    assert task.grade(answered(r"$K + Br0 \to KBr0$"), row).answer is True
    assert task.grade(answered(WATER), row).answer is False
    assert task.grade(answered("K + Br0 = 2KBr0"), row).answer is False


@pytest.mark.parametrize(
    ("completion", "is_right"),
    [
        (r"\boxed{\Delta E > 0} so **Answer: B**", True),
        (r"\boxed{\Delta E > 0}. The correct option is B.", True),
        (r"\boxed{C=CC=C}", True),  # the text of B
        (r"\boxed{\Delta E > 0} so **Answer: C**", False),
        (r"\boxed{B or C} so **Answer: B**", False),
        (r"\boxed{B) CC} so **Answer: B**", False),  # another option's text
        (r"\boxed{CC} so **Answer: B**", False),  # the text of C
        (r"\boxed{\Delta E > 0}", False),
    ],
)
def test_a_box_that_is_no_option_is_passed_over(completion, is_right):
    row = {"question": "", "answer": "B", "choices": ["CCO", "C=CC=C", "CC", "N"]}
    assert get_task("sciknoweval").grade(completion, row).answer is is_right


def test_an_option_is_picked_by_its_letter_or_its_text():
    task = get_task("sciknoweval")
    row = {"question": "", "answer": "B", "choices": ["CCO", "C=CC=C", "CC", "N"]}
    for right in ("B) C=CC=C", "C=CC=C"):
        assert task.grade(answered(right), row).answer is True, right
    assert task.grade(answered("B) CC"), row).answer is False
    row = {"question": "", "answer": "B", "choices": ["2.78", "-2.78", "3", "4"]}
    for right in ("B) -2.78", "B. -2.78", "B: -2.78", "B - -2.78", "-2.78"):
        assert task.grade(answered(right), row).answer is True, right
    assert task.grade(answered("A) -2.78"), row).answer is False
    assert task.grade(answered("3"), {**row, "answer": "C"}).answer is True
    blood = {**row, "answer": "C", "choices": ["A", "B", "AB", "O"]}
    assert task.grade(answered("AB"), blood).answer is True


def test_a_row_without_answer_or_with_an_answer_that_is_no_label_is_refused(tmp_path):
    file = tmp_path / "retrosynthesis.jsonl"
    file.write_text(json.dumps({"question": "q", "answer": ""}) + "\n")
    with pytest.raises(InvalidInputError, match="line 1: no field 'answer' or 'answerKey'"):
        get_task("sciknoweval").load("train", str(tmp_path))
    row = {"question": "q", "answerKey": "E", "choices": {"text": ["a"], "label": ["A"]}}
    file.write_text(json.dumps(row) + "\n")
    with pytest.raises(InvalidInputError, match="'E' is no label"):
        get_task("sciknoweval").load("train", str(tmp_path))
    with pytest.raises(InvalidInputError, match="no folder with"):
        get_task("sciknoweval").load("train", str(tmp_path / "nowhere"))
