"""A task file with a mistake in it: the user reads one line with the file, and the line in it."""

import pickle
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from podslab.tasks import Grade, get_task
from podslab.tasks.base import spread
from podsrl.cli import main
from podsrl.errors import InvalidInputError

GOOD = """
from podslab.tasks import Grade, Task

class Echo(Task):
    name = "echo"
    example = {"question": "say a", "answer": "a"}
    example_right, example_wrong = "a", "b"

    def load(self, split, path=None):
        return [{"question": f"say {c}", "answer": c} for c in "abc"]

    def grade(self, completion, row):
        return Grade(completion.strip().endswith(row["answer"]), True)

    def gold_completion(self, row):
        return row["answer"]
"""
RETURN = '        return Grade(completion.strip().endswith(row["answer"]), True)'

#: what is changed, into what, and what the message says beside the file
MISTAKES = {
    "syntax": ("class Echo(Task):", "class Echo(Task:", "line 4: can't be imported: SyntaxError"),
    "indent": ("    name =", "      name =", "can't be imported: IndentationError"),
    "import": (
        "from podslab.tasks import Grade, Task",
        "import no_such_package",
        "line 2: can't be imported: ModuleNotFoundError: No module named 'no_such_package'",
    ),
    "at import": ("class Echo", "x = 1 / 0\nclass Echo", "line 4: can't be imported: ZeroDivision"),
    "no class": ("class Echo(Task)", "class Echo", "it has none"),
    "two classes": (
        "class Echo",
        "class Other(Task):\n    load = grade = None\nclass Echo",
        "Other",
    ),
    "no grade": ("    def grade(", "    def grades(", "it has Echo, which lacks grade"),
    "no name": ('    name = "echo"', "", "with name, load and grade; it has Echo"),
    "no example": ("    example = ", "    exampel = ", "examples failed: AttributeError"),
    "rows that are text": ('{"question": f"say {c}", "answer": c}', "c", "gold_completion failed"),
    "load raises": (
        "        return [",
        "        open('/no/file')\n        return [",
        "line 10: load failed",
    ),
    "grade raises": (RETURN, "        return Grade(row['gold'], True)", "line 13: grade failed:"),
    "half a point": (
        RETURN,
        "        return Grade(0.5, True)",
        "line 13: grade failed: TypeError: the answer of a Grade is True, False, or None",
    ),
    "no grade returned": (RETURN, "        return True", "must return Grade(answer, format)"),
    "gold raises": (
        '        return row["answer"]',
        "        return 1 / 0",
        "gold_completion failed",
    ),
    "a missing wrong example": (', example_wrong = "a", "b"', ' = "a"', "examples failed"),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_in_a_task_file_is_one_line_with_the_file_and_no_traceback(
    mistake, tmp_path, capsys
):
    old, new, said = MISTAKES[mistake]
    assert GOOD.count(old) == 1
    file = tmp_path / "echo.py"
    file.write_text(GOOD.replace(old, new))
    assert main(["tasks", "check", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(file) in line
    assert said in line


def test_the_same_file_without_a_mistake_passes(tmp_path, capsys):
    file = tmp_path / "echo.py"
    file.write_text(GOOD)
    assert main(["tasks", "check", str(file)]) == 0
    assert "train: 3 of 3 gold answers pass" in capsys.readouterr().out
    task = get_task(str(file))
    assert task.grade_batch(["a"], [{"answer": "a"}]) == [Grade(True, True)]


@pytest.mark.parametrize("name", ["prompt", "completion", "completion_ids"])
def test_a_grader_that_reads_what_trl_keeps_from_rewards_fails_the_check(name, tmp_path, capsys):
    """A run would fail at its first step, after the untrained model was measured."""
    file = tmp_path / "echo.py"
    file.write_text(GOOD.replace('"answer"', f'"{name}"'))
    assert main(["tasks", "check", str(file)]) == 2
    assert f"grade failed: KeyError: '{name}'" in capsys.readouterr().err


def test_a_gold_answer_that_fails_its_own_grader_fails_the_check(tmp_path, capsys):
    file = tmp_path / "echo.py"
    file.write_text(GOOD.replace('return row["answer"]', 'return row["answer"].replace("b", "-")'))
    assert main(["tasks", "check", str(file)]) == 1
    assert "2 of 3 gold answers pass" in capsys.readouterr().out


def test_a_task_may_refuse_its_data_in_its_own_words(tmp_path):
    file = tmp_path / "echo.py"
    refusal = "        from podsrl.errors import InvalidInputError as E; raise E('no such planet')"
    file.write_text(GOOD.replace("        return [{", f"{refusal}\n        return [{{"))
    with pytest.raises(InvalidInputError, match=r"^no such planet$"):
        get_task(str(file)).load("train")


def test_a_grader_that_fails_in_training_names_its_file_and_line(tmp_path):
    file = tmp_path / "echo.py"
    file.write_text(GOOD.replace(RETURN, "        return Grade(row['gold'], True)"))
    correctness = get_task(str(file)).rewards()[0]
    with pytest.raises(InvalidInputError, match=r"line 13: grade failed:"):
        correctness(completions=["a b c"], answer=["a"])


@pytest.mark.parametrize("answer", [0.5, -1, 2, float("nan"), "yes", "", [], np.float64(0.9)])
def test_an_answer_that_is_neither_right_nor_wrong_nor_ungraded_is_no_grade(answer):
    with pytest.raises(TypeError, match=r"got .*Override the task's `rewards`"):
        Grade(answer, True)


@pytest.mark.parametrize("answer", [True, 1, 1.0, np.bool_(True), np.float32(1)])
def test_a_verifiers_one_is_right_and_its_zero_is_wrong(answer):
    right = Grade(answer, True)
    wrong = Grade(1 - float(answer), True)
    assert right == (True, True)
    assert wrong == (False, True)
    assert type(right.answer) is type(wrong.answer) is bool
    assert pickle.loads(pickle.dumps(right)) == right


def test_rewards_that_are_asked_for_at_once_grade_once():
    """As TRL's asynchronous worker asks: each function in a thread of its own."""
    task = get_task("gsm8k")
    graded = []

    def grade_slowly(completions, rows):
        graded.append(len(completions))
        time.sleep(0.2)
        return [Grade(True, True)] * len(completions)

    task.grade_batch = grade_slowly
    with ThreadPoolExecutor(3) as threads:
        done = [threads.submit(f, completions=["a"], answer=["1"]) for f in task.rewards()]
    assert [future.result() for future in done] == [[1.0], [0.0], [0.0]]
    assert graded == [1]


def test_of_a_sorted_split_every_kind_is_evaluated_on():
    first, second, third, fourth = spread(list(range(10)), 4)
    assert 0 <= first < 2 <= second < 5 <= third < 7 <= fourth < 10
    assert spread(list(range(10)), 4) == [first, second, third, fourth]
    assert spread(list(range(3)), None) == spread(list(range(3)), 9) == [0, 1, 2]
    assert spread([], 4) == spread([1, 2], 0) == []


@pytest.mark.parametrize("kinds", [2, 3, 4])
@pytest.mark.parametrize("of_how_many", [2, 3, 4, 6])
def test_where_kinds_take_turns_every_kind_is_evaluated_on(kinds, of_how_many):
    kinds_of_rows = [place % kinds for place in range(1200)]
    counts = Counter(spread(kinds_of_rows, 1200 // of_how_many))
    expected = 1200 / of_how_many / kinds
    assert len(counts) == kinds
    assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())
