r"""Comparing, third part: is an answer no more than what the question gives?

"Factor $x^2-4$" gives an expression that is equal to the right answer, so equality alone would take
the question for an answer. Only the grading processes import this, as it calls sympy.
"""

import contextlib
import re

import sympy

from podsgrading.math.expressions import parse
from podsgrading.math.large import is_large
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
    gold_expression = parse(gold)
    answer_expression = parse(answer)
    if _FACTOR.search(question) and _factors(answer_expression) < _factors(gold_expression):
        return True
    if (
        _EXPAND.search(question)
        and _has_bracket(answer_expression)
        and not _has_bracket(gold_expression)
    ):
        return True

    gold_parts = _parts(gold)
    answer_parts = _parts(answer)
    answer_terms = _evaluated(answer_expression)
    # Terms are compared only where the gold answer has others, and with formulas of the same
    # letters: to parse one takes long.
    letters = _letters(answer_parts) if _evaluated(gold_expression) != answer_terms else set()

    for formula in map(clean, _BETWEEN.split(question)):
        parts = _parts(formula)
        if len(parts) > 1 and parts == answer_parts and parts != gold_parts:
            return True
        if letters and letters == _letters(parts):
            with contextlib.suppress(UnreadableError):  # a text between formulas
                if _evaluated(parse(formula.rstrip(" ,.;:?"))) == answer_terms:
                    return True
    return False


def _parts(formula: str) -> list[str]:
    """The letters, names and numbers of a formula, in one order."""
    return sorted(part for part in _PART.findall(clean(formula)) if part not in _NEUTRAL)


def _letters(parts: list[str]) -> set[str]:
    return {part for part in parts if part.isalpha()}


def _has_bracket(expression: sympy.Expr) -> bool:
    """Is a sum with letters multiplied, or raised to a power?"""
    for product in expression.atoms(sympy.Mul, sympy.Pow):
        if any(part.is_Add and part.free_symbols for part in product.args):
            return True
    return False


def _factors(expression: sympy.Expr) -> int:
    """The number of a product's factors with letters; (x + 1)^2 has two."""
    count = 0
    for factor in sympy.Mul.make_args(_evaluated(expression)):
        base, exponent = factor.as_base_exp()
        if base.free_symbols:
            count += abs(int(exponent)) if exponent.is_Integer else 1
    return count


def _evaluated(expression: sympy.Basic) -> sympy.Basic:
    """With sums and products in sympy's order, which the parser leaves as they were written.

    What is too large to be worked out stays as it was written.
    """
    if is_large(expression):
        return expression
    if not expression.args:
        return expression
    return expression.func(*map(_evaluated, expression.args))
