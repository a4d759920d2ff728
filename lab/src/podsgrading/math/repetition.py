r"""Comparing, third part: is an answer no more than what the question gives?

"Factor $x^2-4$" gives an expression that is equal to the right answer, so equality alone would take
the question for an answer. Only the grading processes import this, as it calls sympy.
"""

import contextlib
import re

import sympy

from podsgrading.math.expressions import parse
from podsgrading.math.normalise import clean
from podsgrading.math.structure import UnreadableError

_BETWEEN = re.compile(
    r"\$+|\\[\[\]()]|\\(?:begin|end)\{[a-z]+\*?\}|\\\\|&|[<>=]|\\(?:[lg]eq?|neq?)(?![a-zA-Z])"
)
_PART = re.compile(r"\\[a-zA-Z]+|[a-zA-Z]|[0-9]+")
#: With these a formula is another text, and is worth the same: + 0, / 1, \cdot 1.
_NEUTRAL = {"0", "1", "\\frac", "\\cdot", "\\times"}
_FACTOR = re.compile(r"\bfactor(?!ial| of)", re.IGNORECASE)
_EXPAND = re.compile(r"\bexpand", re.IGNORECASE)


def repeats(gold: str, answer: str, question: str) -> bool:
    r"""Is an answer that is equal to the gold one a formula of the question, or not brought as far?

    It is a repetition if it has the letters and numbers of a formula, or its terms in any order,
    and the gold answer has not. To factor is to find as many factors as the gold answer has; to
    expand is to leave no bracket that it has not.

    >>> repeats("(x-2)(x+2)", "-4+x^2", "Factor $x^2-4$."), repeats("x+x", "2x", "Find $f(x)$.")
    (True, False)
    """
    a, b = parse(gold), parse(answer)
    unfactored = _FACTOR.search(question) and _factors(b) < _factors(a)
    if unfactored or (_EXPAND.search(question) and _has_bracket(b) and not _has_bracket(a)):
        return True
    wanted, given, terms = _parts(gold), _parts(answer), _evaluated(b)
    letters = set(filter(str.isalpha, given)) if _evaluated(a) != terms else set()
    for formula in map(clean, _BETWEEN.split(question)):
        parts = _parts(formula)
        if len(parts) > 1 and given == parts != wanted:
            return True
        if letters and letters == set(filter(str.isalpha, parts)):
            with contextlib.suppress(UnreadableError):  # a text between formulas
                if _evaluated(parse(formula.rstrip(" ,.;:?"))) == terms:
                    return True
    return False


def _parts(formula: str) -> list[str]:
    return sorted(part for part in _PART.findall(clean(formula)) if part not in _NEUTRAL)


def _has_bracket(expression: sympy.Expr) -> bool:
    """Is a sum with letters multiplied, or raised to a power?"""
    inside = (arg for part in expression.atoms(sympy.Mul, sympy.Pow) for arg in part.args)
    return any(arg.is_Add and arg.free_symbols for arg in inside)


def _factors(expression: sympy.Expr) -> int:
    parts = [part.as_base_exp() for part in sympy.Mul.make_args(_evaluated(expression))]
    return sum(abs(int(e)) if e.is_Integer else 1 for base, e in parts if base.free_symbols)


def _evaluated(expression: sympy.Basic) -> sympy.Basic:
    """With sums and products in sympy's order, which the parser leaves as they were written."""
    return expression.func(*map(_evaluated, expression.args)) if expression.args else expression
