"""Answers that repeat the question, or stop on the way, are wrong; other forms are right."""

import pytest

from podsgrading.math.answers import equal_structures
from podslab.tasks import get_task

#: question, gold, and answers that repeat the question, or stop on the way
REPEATED = [
    (
        "Factor $x^2-4$.",
        "(x-2)(x+2)",
        ["x^2-4", "-4+x^2", "x^2-4+0", "y=x^2-4", r"\frac{2x^2-8}{2}", r"2(\frac{x^2}{2}-2)"],
    ),
    ("Factor $4x^2-16$.", "4(x-2)(x+2)", ["4(x^2-4)"]),
    ("Expand ${(x-2)(x+2)}$.", "x^2-4", ["(x+2)(x-2)", "x(x+2)-2(x+2)", "(2+x)(x-2)"]),
    ("Simplify $(-k + 4) + (-2 + 3k)$.", "2k+2", ["(-k+4)+(-2+3k)", "4-k+3k-2"]),
    (r"Simplify \[\sqrt{242}.\]", r"11\sqrt2", [r"\sqrt{242}", r"\sqrt{242}+0"]),
    (r"Write $a=\frac{(10r^3)(4r^6)}{8r^4}$ shortly.", "5r^5", [r"\frac{(10r^3)(4r^6)}{8r^4}"]),
]
#: question, gold, and answers that are right though their form is another one
NOT_REPEATED = [
    ("Factor $x^2-4$.", "(x-2)(x+2)", ["(x+2)(x-2)", "(2+x)(x-2)", "-(2-x)(x+2)"]),
    ("Expand ${(x-2)(x+2)}$.", "x^2-4", ["-4+x^2", "x*x-4"]),
    ("Find the quotient of $x^3-x$ and $x$.", "x^2-1", ["(x-1)(x+1)"]),
    (r"Find the sum $1 + 2 + \dots + n$.", r"\frac{n(n+1)}{2}", [r"\frac{n^2+n}{2}"]),
    ("What is $2k$, if $k = p + 1$?", "2(p+1)", ["2p+2"]),
    ("Is $x + 1$ in lowest terms?", "x + 1", ["1 + x"]),
    (r"Write $\frac{2}{\sqrt{2}}$ simply.", r"\sqrt{2}", ["2^{1/2}", r"\sqrt{2}\text{ cm}"]),
    (r"Compute $2^{10}$.", "2^{10}", ["1,024"]),
]


@pytest.mark.parametrize(("question", "gold", "answers"), REPEATED)
def test_an_answer_that_repeats_the_question_is_wrong(question, gold, answers):
    rows = [{"question": question, "answer": gold}] * (len(answers) + 1)
    texts = [f"<answer>{answer}</answer>" for answer in [gold, *answers]]
    grades = get_task("math").grade_batch(texts, rows)
    assert [grade.answer for grade in grades] == [True] + [False] * len(answers)
    assert all(equal_structures(gold, answer) for answer in answers)  # by its value alone


@pytest.mark.parametrize(("question", "gold", "answers"), NOT_REPEATED)
def test_an_answer_in_another_form_than_the_questions_is_right(question, gold, answers):
    rows = [{"question": question, "answer": gold}] * len(answers)
    grades = get_task("math").grade_batch([f"<answer>{a}</answer>" for a in answers], rows)
    assert [grade.answer for grade in grades] == [True] * len(answers)


def test_an_equation_of_the_question_is_no_answer_unless_the_gold_one_stands_there_too():
    question = "Write the line $y-3=2(x-1)$ in slope-intercept form."
    gold = "y=2x+1"
    assert not equal_structures(gold, "y-3=2(x-1)", question)
    assert equal_structures(gold, "2x+1", question)
    assert equal_structures(gold, "y=2x+1", "Which is it, $y=2x+1$ or $y=3x$?")
