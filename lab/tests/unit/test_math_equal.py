import pytest
import sympy

from podslab.grading.math.answers import compare_quickly, equal_structures, grade_answers
from podslab.grading.math.structure import UnreadableError, read_structure
from podslab.grading.pool import GradingPool
from podslab.tasks import get_task

SAME = [
    ("2,-2", "x = 2, -2"),
    ("2,-2", "x=2 or -2"),
    ("x=2,-2", "-2,2"),
    ("x = -2, 2", "x=2, x=-2"),
    ("10^{20}", "10^20"),
    ("odd", "Odd."),
    ("Yes", "yes"),
    ("12", "\u200b12\ufeff"),
    ("30^\\circ", "\\angle A = 30^\\circ"),
    ("5", "5_{10}"),
    (r"2\sqrt{3}", r"2\sqrt{3} \text{ square units}"),
    (r"\frac{\pi}{3}", r"\pi/3 \text{ radians}"),
    (r"2\sqrt{3}", r"AB = \sqrt{12}\text{ cm}"),
    ("x = t, x = -t", "-t, t"),
    (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)"),
    ("p - q", "-q+p"),
    (r"\frac{14}{3}", "14/3"),
    (r"\text{Evelyn}", "Evelyn"),
    (r"90^\circ", "90"),
    (r"90^\circ", "90 degrees"),
    (r"3\sqrt{13}", r"\sqrt{117}"),
    (r"3\sqrt{13}", "3*sqrt(13)"),
    ("6 - 5i", "-5i+6"),
    ("x=5", "5"),
    ("5", "x=5"),
    ("1,-2", "-2, 1"),
    ("1,-2", r"x=1 \text{ or } x=-2"),
    ("1,-2", r"1 \text{ and } -2"),
    ("52_8", "52_{8}"),
    ("52_8", "52"),
    (r"11\sqrt2", r"11\sqrt{2}"),
    ("3, 5, 7", "7,5,3"),
    ("1.25", r"\frac54"),
    ("0.15", "15/100"),
    (r"\cot x", r"\frac{\cos x}{\sin x}"),
    (r"\cot x", r"1/\tan(x)"),
    (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}"),
    (r"1 \pm \sqrt{19}", r"x = 1 \pm \sqrt{19}"),
    ("(a+5)(b+2)", "ab+2a+5b+10"),
    ("(3,4]", "(3, 4]"),
    (r"x \in [-2,7]", "[-2,7]"),
    (r"x \in [-2,7]", r"-2 \le x \le 7"),
    ("[-2,7]", r"-2\leq x\leq 7"),
    (r"(2,\infty)", "x > 2"),
    (r"(-\infty, 2) \cup (3, \infty)", r"(3,\infty)\cup(-\infty,2)"),
    (r"\begin{pmatrix} -2 \\ -14 \\ -7 \end{pmatrix}", r"\begin{bmatrix}-2\\-14\\-7\end{bmatrix}"),
    (
        r"\begin{pmatrix} 1/5 \\ -18/5 \end{pmatrix}",
        r"\begin{pmatrix} 0.2 \\ -\frac{18}{5} \end{pmatrix}",
    ),
    ("5x - 7y + 11z + 4 = 0", "10x-14y+22z = -8"),
    ("5x - 7y + 11z + 4 = 0", "-5x+7y-11z-4=0"),
    ("y = 2x + 3", "2x+3"),
    ("y = 2x + 3", "y - 2x = 3"),
    (r"\{1\pm\sqrt{5},-2\}", r"\{-2, 1+\sqrt5, 1-\sqrt5\}"),
    (r"\text{(C)}", "C"),
    (r"\text{(C)}", "(C)"),
    (r"\text{(C)}", r"\textbf{(C)}"),
    (r"864 \mbox{ inches}^2", "864"),
    (r"864 \mbox{ inches}^2", "864 square inches"),
    (r"15\mbox{ cm}^2", r"15 \text{ cm}^2"),
    (r"\$18.90", "18.9"),
    (r"\$18.90", r"\$18.90"),
    ("58,500", "58500"),
    (r"10,\!080", "10080"),
    (r"1\frac{4}{5}", "9/5"),
    (r"1\frac{4}{5}", "1.8"),
    (".0000672", r"6.72\times 10^{-5}"),
    (r"\frac{270}7\text{ degrees}", r"\frac{270}{7}^\circ"),
    (r"5.4 \text{ cents}", "5.4"),
    (r"50\%", "50"),
    (r"50\%", "0.5"),
    (r"50\%", r"\frac{1}{2}"),
    ("50", r"50\%"),
    (r"\frac{20000}{\pi}", r"20000/\pi"),
    ("8n^2 + 4n + 1", "1+4n+8n^2"),
    ("3R^2", "3R^2"),
    (r"288 \pi", r"288\pi"),
    (r"288 \pi", "288pi"),
    (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
    (r"\frac{11+9a}{20}", r"\frac{9a}{20}+\frac{11}{20}"),
    ("x^5 - x^4 + x^3 - x^2 + x - 1", "(x-1)(x^4+x^2+1)"),
    (r"\text{even}", "Even"),
    ("2k", "2 k"),
    (r"(-\sqrt{3}, \sqrt{3})", r"(-\sqrt3,\sqrt3)"),
    (r"\left[ \frac{\pi^2}{8}, \frac{5 \pi^2}{4} \right]", r"[\pi^2/8, 5\pi^2/4]"),
    ("f(x)=x^2", "x^2"),
    ("x^2", "f(x)=x^2"),
    ("x^2+1", "x**2+1"),
    ("e^{x}", "exp(x)"),
    ("2x^2y", "2 x^{2} y"),
    ("1+2i", "2i+1"),
    (r"\frac{1+i}{2}", r"\frac{1}{2}+\frac{i}{2}"),
    ("1+274i", "274i+1"),
    ("2", "2.000"),
    ("1000", "10^3"),
    (r"\frac{1}{3}", r"0.\overline{3}"),
    ("-1", "\u22121"),
    ("x<2", "2>x"),
    (r"\infty", r"+\infty"),
    (r"\log_2 3", r"\frac{\ln 3}{\ln 2}"),
    ("2^{1/3}", r"\sqrt[3]{2}"),
    ("(1,2)", r"\langle 1,2\rangle"),
    (r"11,\! 111,\! 111,\! 100", "11111111100"),
    (r"\{2,3\}", "2,3"),
    ("2,3", r"\{3,2\}"),
    (r"\sin^2 x", r"1-\cos^2 x"),
    ("4x^2", "(2x)^2"),
    ("x=2,y=3", "y=3, x=2"),
    # one short sentence around the answer
    (r"\left( 3, \frac{\pi}{2} \right)", r"The polar coordinates are $(3, \pi/2)$."),
    (r"12\pi", r"The area of the circle is $12\pi$ square units."),
    ("5", "The value of $x$ is $5$."),
    ("x=5", "The value of x is 5"),
    ("12", "There are 12 ways."),
    ("7", "So f(2) = 7"),
    ("7", "The value of $f(2)$ is $7$."),
    (r"\frac{1}{2}", r"The probability is \(\frac{1}{2}\)."),
    (r"\text{Evelyn}", "The student with the greatest speed is Evelyn."),
    (r"\text{even}", "The function is even"),
    (r"\text{(C)}", "The answer is (C)."),
    ("1,-2", "The solutions are $x = 1$ and $x = -2$."),
    ("1,-2", "$x=1$ and $x=-2$"),
    (r"\sqrt{2},-\sqrt{2}", r"$\sqrt{2}$ and $-\sqrt{2}$"),
    ("y = 2x + 3", "The equation of the line is $y = 2x + 3$."),
    ("x^2+1", "The polynomial f(x) is $x^2 + 1$."),
    (r"(2,\infty)", r"The domain is $x > 2$."),
    (r"\sqrt{2}", r"Therefore, the answer is: $\sqrt{2}$"),
    (r"\sqrt{2}", r"Thus $\sqrt{2}$"),
    (r"2\sqrt{3}", r"\text{The length is } 2\sqrt{3} \text{ cm}"),
]
DIFFERENT = [
    ("2,-2", "x = 2, y = -2"),
    ("2,-2", "x = 2, 3"),
    ("x=2,-2", "y = 2, -2"),
    ("10^{20}", "10^21"),
    ("no", "yes"),
    ("even", "odd"),
    ("5", "5!"),
    ("5", "the square root of 5"),
    ("5", "5 over two"),
    ("5", "5 is wrong"),
    ("5", "5 choose 2"),
    ("1234.567", "1.234,567"),
    ("y = -2x", "x = -2x"),
    ("x = t, x = -t", "y = t, y = -t"),
    ("x^2+1", r"x^2+1 \text{ is wrong}"),
    ("5", r"\sqrt[3]{5}"),
    ("2000", "2k"),
    (r"\sqrt{2}", r"\sqrt{2}\text{ or not}"),
    (r"3\sqrt{13}", "10.8166538"),
    (r"\frac13", "0.333333"),
    ("0.33", "1/3"),
    (r"\pi", "3.14159265358979323846"),
    (r"\pi", "22/7"),
    ("4", "2+2"),
    ("1024", "2^{10}"),
    ("15", r"\binom{6}{2}"),
    ("5", "y"),
    ("x=5", "y=5"),
    ("(2,4)", "[2,4]"),
    ("(2,4)", "2,4"),
    ("(2,4)", "(4,2)"),
    ("1,-2", "1"),
    ("1", "1,-2"),
    ("1,1,2", "1,2"),
    ("52_8", "52_9"),
    ("42", "52_8"),
    ("R^2-r^2", "0"),
    ("3R^2", "3r^2"),
    (r"5.4 \text{ cents}", "5.4 dollars"),
    (r"15 \text{ cm}^2", "15 cm"),
    ("0.5", r"0.5\%"),
    ("0.005", r"50\%"),
    ("2", "2t"),
    ("2t", "2"),
    ("10", "10 m"),
    ("10", "10m"),
    ("5", "5i"),
    ("2", r"2\pi"),
    (r"x \in [-2,7]", r"x \in (-2,7]"),
    ("[-2,7]", "-2 < x < 7"),
    (r"(2,\infty)", r"x \ge 2"),
    ("x>2", "y>2"),
    ("x>2", "x<2"),
    ("x > 2", "-x > -2"),
    ("5x=3", "5x=4"),
    ("y = 2x + 3", "y=3x+2"),
    (r"\text{east}", "west"),
    (r"\text{(C)}", "D"),
    (r"\text{(C)}", "C or D"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 \end{pmatrix}"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 2 \\ 1 \end{pmatrix}"),
    (r"(2,\infty)", ""),
    (r"\sqrt{2}", "1.41421356237309504880168872420969807856967187537694"),
    (r"\frac{1}{2}", r"\sin 30^\circ"),
    (r"\frac{\pi}{6}", r"\arcsin(1/2)"),
    ("x^2", "x^3"),
    ("x", "|x|"),
    ("|x|", "x"),
    (r"\sqrt{x^2}", "x"),
    ("9", "9^9^9^9"),
    ("a+b", "a-b"),
    ("ab", "a+b"),
    ("x_1", "x_2"),
    ("x_1", "x"),
    (r"1 \pm \sqrt{19}", r"1+\sqrt{19}"),
    (r"\{1,2\}", r"\{1,2,3\}"),
    (r"(0,9) \cup (9,36)", "(0,36)"),
    ("6", "6,7"),
    ("6", "6 or 7"),
    (r"\sqrt{2}+10^{-50}", r"\sqrt{2}"),
    ("12", "twelve"),
    (r"\text{Navin}", "not Navin"),
    ("x^2+1", "x^2+1=0"),
    ("-1", "1"),
    (r"\frac{a}{b}", r"\frac{b}{a}"),
    ("e", "2.718281828"),
    ("x", "y"),
    ("(6,31,-1)", "(6,31,1)"),
    ("2x+3", "2x+3+10^{-30}"),
    ("1000", "1,00,0"),
    ("1234", "(1,234)"),
    (r"12\pi", "12"),
    ("5", r"\sqrt{25}"),
    # sentences that say something else
    (r"\sqrt{2}", r"The answer is not $\sqrt{2}$."),
    (r"\sqrt{2}", r"I doubt that it is $\sqrt{2}$."),
    (r"\sqrt{2}", r"The answer isn't $\sqrt{2}$."),
    (r"\sqrt{2}", r"The wrong answer is $\sqrt{2}$."),
    (r"\sqrt{2}", r"The answer is $\sqrt{2}$ or $\sqrt{3}$."),
    (r"\sqrt{2}", r"The answer is $\sqrt{3}$ or the answer is $\sqrt{2}$."),
    (r"\sqrt{2}", r"The answer may be $\sqrt{2}$."),
    (r"\sqrt{2}", r"If the answer is $\sqrt{2}$"),
    (r"\sqrt{2}", r"The answer is at least $\sqrt{2}$."),
    (r"\sqrt{2}", r"The answer is about 1.414213562373095"),
    (r"\sqrt{2}", r"The answer is $\sqrt{2}$. No, it is $\sqrt{3}$."),
    (r"\sqrt{2}", r"The negative of it is $\sqrt{2}$"),
    ("5", "The answer is 5!"),
    ("5", "The answer is 4 + 1"),
    ("5", "The answer is 4, 5"),
    ("5", "There are 5 or 6 ways."),
    ("y = 5", "The value of x is 5."),
    (r"\text{even}", "The function is not even"),
    (r"\text{even}", "The function that is even is odd"),
    (r"\text{(C)}", "The answer is C or D"),
    ("1,-2", "The solution is 1."),
    ("5", "$4$ and $5$"),
    # an inequality or an equation that is still to be solved: it may be the question
    ("[-2,7]", r"x^2-5x-14 \le 0"),
    (r"(-\infty,-1)\cup(3,\infty)", r"\frac{x+1}{x-3}>0"),
    ("(-2,2)", "|x|<2"),
    ("x<3", "2x+5<11"),
    ("x<3", "x-1<2"),
    (r"x < 1 \text{ or } x > 2", "2x < 2 or x > 2"),
    (r"x=\sqrt{2}", r"x-\sqrt{2}=0"),
]


def decide(gold, answer):
    quick = compare_quickly(gold, answer)
    return equal_structures(gold, answer) if quick is None else quick


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_an_answer_that_says_the_same_is_right(gold, answer):
    assert decide(gold, answer) is True


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_an_answer_that_says_something_else_is_wrong(gold, answer):
    assert decide(gold, answer) is False


@pytest.mark.parametrize(
    "gold", ["x'", r"\frac{1", "(1,", r"\begin{pmatrix} 1 & 2 \\ 3 \end{pmatrix}"]
)
def test_a_gold_answer_that_cannot_be_read_is_unscorable_unless_the_answer_is_the_same(gold):
    assert compare_quickly(gold, gold) is True
    with pytest.raises(UnreadableError):
        equal_structures(gold, "2y")


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " ",
        "}",
        "{",
        "\\",
        "(((",
        "[" * 500,
        r"\frac{1}",
        "1,,2",
        "\\begin{pmatrix}",
        "\x00",
        "=",
        ",",
    ],
)
def test_a_malformed_answer_is_wrong_and_raises_nothing(answer):
    assert decide(r"\frac{\sqrt{2}}{2}", answer) is False
    assert decide("(1,2]", answer) is False
    assert decide("5", answer) is False


def test_numbers_and_words_never_wait_for_a_process():
    pool = GradingPool(workers=1)
    pairs = [
        ("5", "9^9^9^9"),
        ("5", "5.0"),
        (r"\text{even}", r"\sqrt{2}"),
        (r"\sqrt{2}", r"\sqrt 2"),
    ]
    assert grade_answers(pairs, pool) == [False, True, False, True]
    assert pool.pid is None


def test_an_answer_must_be_worked_out_as_far_as_the_gold_answer():
    assert decide("15", r"\binom{6}{2}") is False
    assert decide(r"\frac{\pi}{6}", r"\arcsin\frac{1}{2}") is False
    assert decide(r"\arcsin\frac{1}{3}", r"\arcsin(1/3)") is True


def test_structure_tells_tuples_intervals_sets_and_lists_apart():
    assert read_structure("(1,2)").label == "()"
    assert read_structure("(1,2]").label == "(]"
    kinds = [read_structure(x).kind for x in ("1,2", r"\{1,2\}", r"(1,2)\cup[3,4]", "x<2")]
    assert kinds == ["list", "set", "union", "relation"]


def test_the_tag_the_box_and_nested_braces_are_read():
    task = get_task("math")
    for text in (
        r"<answer>\frac{1}{2}</answer>",
        r"so \boxed{\frac{1}{2}}",
        r"<answer>$\boxed{\dfrac{1}{2}}$</answer>",
        r"<think>\boxed{3}</think> The answer is \(\frac12\).",
    ):
        assert task.grade(text, {"answer": r"\frac{1}{2}"}).answer is True, text
    assert task.grade(r"so \boxed{\frac{1}{2}", {"answer": r"\frac{1}{2}"}).answer is False


def test_several_boxes_are_one_answer_only_when_they_stand_together():
    task = get_task("math")
    assert task.grade(r"\boxed{1} and \boxed{-2}", {"answer": "1,-2"}).answer is True
    assert task.grade(r"\boxed{1}. Hmm, rather \boxed{-2}", {"answer": "1,-2"}).answer is False
    assert task.grade(r"\boxed{7}. Hmm, rather \boxed{-2}", {"answer": "-2"}).answer is True


def test_the_lenient_mode_takes_the_tag_the_last_number_or_the_whole_text():
    strict, lenient = get_task("math"), get_task("math", mode="lenient")
    row = {"answer": "42"}
    for text in ("it makes 42", "<answer>42", "42", r"<answer>\boxed{42}</answer> of 50"):
        assert lenient.grade(text, row).answer is True
    assert strict.grade("it makes 42", row).answer is False
    assert lenient.grade("42 of 50", row).answer is False


def test_a_number_is_compared_exactly():
    assert decide(str(10**30), str(10**30 + 1)) is False
    assert decide("0.1", str(0.1 + 1e-18)) is True  # the same decimal notation
    assert decide("0.1", "0.1000000000000000001") is False
    assert sympy.Rational(1, 3) != sympy.Float(1 / 3)  # why decimals are made fractions first
