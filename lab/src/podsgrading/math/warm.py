"""Imported by each grading process before it forks: what is slow the first time is done once.

The parser (latex2sympy2_extended, made by ANTLR) builds its tables as it meets new constructions.
With them a typical answer takes a tenth of the time. Children inherit them by fork.
"""

from podsgrading.math.answers import equal_structures

_TYPICAL = (
    (r"\frac{3\sqrt{3}}{4}", r"\frac{3}{4}\cdot\sqrt{3}"),
    (r"2\sqrt{5}+\frac{1}{2}", "1/2 + 2*sqrt(5)"),
    ("[-2,7)", r"-2 \le x < 7"),
    (r"(-\infty, 2) \cup (3, \infty)", r"(3, \infty) \cup (-\infty, 2)"),
    (r"\begin{pmatrix} 1/5 \\ -x \end{pmatrix}", r"\begin{pmatrix} 0.2 \\ -x \end{pmatrix}"),
    ("6 - 5i", "-5i + 6"),
    (r"\frac{x+1}{x^2-4}", r"\frac{x + 1}{(x-2)(x+2)}"),
    ("y = 2x + 3", "y - 2x = 3"),
    (r"x^{2} - \frac{3 x}{2} + 4 y", r"4 y + x^{2} - \frac{3 \cdot x}{2}"),
    (r"\sin^2 x + \cos\theta", r"\sin^{2}{\left(x \right)} + \cos(\theta)"),
    (r"\log_2 3 + \ln 5", r"\log_{2}(3) + \ln(5)"),
    (r"e^{2x} + 2^{1/3}", r"\sqrt[3]{2} + e^{2x}"),
    (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}"),
    (r"-\frac{3 \pi}{4} |x|", r"-\frac{3 \pi |x|}{4}"),
    (r"n! + \binom{n}{k}", r"\binom{n}{k} + n!"),
    (r"k_1 x_{2}", r"x_2 k_{1}"),
    (r"3^{3^{3^{3}}}", r"\binom{2000}{9} + 2000!"),  # the totients of large.py
)


for _gold, _answer in _TYPICAL:
    equal_structures(_gold, _answer, question="Find $x$.")
