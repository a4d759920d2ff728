"""Are two LaTeX expressions equal? Parsed by math-verify's parser, compared exactly by sympy.

Only the grading processes import this: it may take any time and any memory.
"""

import re
from functools import lru_cache

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy

from podsrl.grading.extract import closing_brace
from podsrl.grading.notation import UnreadableError
from podsrl.grading.numbers import read_number

# Its defaults take R for r, and (2)(3), like 2 3, for the mixed number 2 + 3.
_CONVERSION = ConversionConfig(lowercase_symbols=False, interpret_as_mixed_fractions=False)
_WORDS = {
    "pi": r"\pi ",
    "infinity": r"\infty ",
    "inf": r"\infty ",
    "oo": r"\infty ",
    "theta": r"\theta ",
    "alpha": r"\alpha ",
    "beta": r"\beta ",
    "phi": r"\phi ",
    "cdot": r"\cdot ",
    **{f: rf"\{f} " for f in ("sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp")},
    **{f: rf"\{f} " for f in ("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh")},
}
_WORD = re.compile(r"(?<![\\a-zA-Z{])[a-zA-Z]{2,}(?![a-zA-Z}])")
_DECIMAL = re.compile(r"(?<![0-9.])([0-9]*)\.([0-9]+)(?![0-9.])")
_NAMES = r"(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|log|ln|exp"
#: 1/2x, sin x/2, 3 1/2 x: people disagree on what these are.
_AMBIGUOUS = re.compile(
    r"/\s?[0-9]+\s?(?:[a-zA-Z(]|\\(?!cdot|times|pm|le|ge))"
    rf"|/\s?(?:[a-zA-Z]|\\(?!{_NAMES}|sqrt|frac)[a-z]+(?![a-z]))\s?(?:[a-zA-Z(]|\\(?!cdot|times|pm|le|ge))"
    rf"|\\(?:{_NAMES})(?![a-zA-Z])\s?(?:[0-9]+|\\?[a-zA-Z]+)\s?/"
    r"|[0-9]\s*\\frac\s?\{[0-9]+\}\s?\{[0-9]+\}|(?<![_^0-9])[0-9]+\s+[0-9]"
)
_FUNCTION_ARGUMENT = re.compile(
    rf"\\(?:{_NAMES})(?![a-zA-Z])\s?(?:[_^]\s?(?:\{{[^{{}}]*\}}|\w)\s?){{0,2}}(?=\{{)"
)
_POINTS = [sympy.Rational(*p) for p in ((17, 7), (-23, 11), (5, 13), (-2, 9), (31, 10), (7, 3))]
#: Numeric agreement is never taken as a proof; a difference above this is one of inequality.
_DIGITS, _TOLERANCE = 40, sympy.Float("1e-25")


@lru_cache(maxsize=512)
def parse(latex: str) -> sympy.Basic:
    """The sympy expression of one leaf; decimals become exact fractions.

    Raises:
        UnreadableError: the parser does not understand it, or it can be read in two ways.
    """
    text = _plain_to_latex(latex)
    if "'" in text or '"' in text or "\\Gamma" in text or _AMBIGUOUS.search(text):
        raise UnreadableError(f"{latex!r} can be read in more than one way")
    text = _DECIMAL.sub(lambda m: rf"\frac{{{int(m[1] + m[2])}}}{{{10 ** len(m[2])}}}", text)
    try:
        parsed = latex2sympy(
            text,
            is_real=True,
            convert_degrees=False,
            normalization_config=None,
            conversion_config=_CONVERSION,
        )
    except Exception as error:  # the parser raises bare Exception for every syntax error
        raise UnreadableError(f"{latex!r} is not an expression") from error
    if not isinstance(parsed, sympy.Expr) or parsed.has(sympy.nan, sympy.zoo):
        raise UnreadableError(f"{latex!r} is not one expression")
    i = sympy.Symbol("i", real=True)
    return parsed.subs(i, sympy.I) if parsed.has(i) else parsed


def equal_expressions(gold: str, answer: str) -> bool:
    """Is `answer` provably equal to `gold`, and worked out as far as `gold` is?"""
    if read_number(gold) is not None:
        return False  # numbers are compared as they are stated; this one was not stated
    a, b = parse(gold), parse(answer)
    return not _not_worked_out(a, b) and provably_equal(a, b)


def provably_equal(a: sympy.Expr, b: sympy.Expr) -> bool:
    """Is a - b zero? Tested with numbers first, proved with `simplify`; not provable is False."""
    if a == b:
        return True
    if _differ_somewhere(a, b):
        return False
    difference = a - b
    proofs = (sympy.expand, lambda d: sympy.expand(sympy.radsimp(d)), sympy.cancel, sympy.simplify)
    return any(prove(difference) == 0 for prove in proofs) or difference.equals(0) is True


def _differ_somewhere(a: sympy.Expr, b: sympy.Expr) -> bool:
    symbols = sorted(a.free_symbols | b.free_symbols, key=str)
    for shift in range(3 if symbols else 1):
        point = {s: _POINTS[(i + shift) % len(_POINTS)] for i, s in enumerate(symbols)}
        x, y = (sympy.N(e.subs(point), _DIGITS) for e in (a, b))
        distance, size = abs(x - y), abs(x)
        if not (distance.is_comparable and size.is_comparable):
            continue  # infinite, or an operation without a numerical value
        if distance > _TOLERANCE * max(1, size):
            return True
    return False


def _not_worked_out(gold: sympy.Expr, answer: sympy.Expr) -> bool:
    """Does the answer leave an operation on constants undone that the gold answer does not?

    It keeps a completion from being right by repeating the question, "\\sin 30" for 1/2.
    """

    def undone(expression: sympy.Expr) -> set[type]:
        operations = (sympy.Function, sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit)
        return {
            type(part)
            for part in expression.atoms(*operations, sympy.Derivative)
            if not part.free_symbols and not isinstance(part, sympy.exp)
        }

    return bool(undone(answer) - undone(gold))


def _plain_to_latex(text: str) -> str:
    """Plain notation (sqrt(2), pi/3, x**2) as LaTeX."""
    text = text.replace("**", "^").replace("\\operatorname", "")
    text = re.sub(r"(?<!\\)sqrt\s?(?=[({])", r"\\sqrt", text)
    for opener in ("\\sqrt", "^"):
        text = _braced(text, opener)
    text = re.sub(r"\^\s?(-\s?[0-9a-zA-Z]+|[0-9]{2,})", r"^{\1}", text)
    text = _parenthesised(text)
    text = _WORD.sub(lambda m: _WORDS.get(m[0], m[0]), text)
    if re.search(r"(?<![\\a-zA-Z])[a-zA-Z]{4,}", text):
        raise UnreadableError("words where an expression should be")
    return text.replace("*", r" \cdot ")


def _parenthesised(text: str) -> str:
    r"""\log{x} as \log(x): the parser would take what follows into the argument, too."""
    position = 0
    while match := _FUNCTION_ARGUMENT.search(text, position):
        start = match.end()
        end = closing_brace(text, start + 1)
        if end < 0:
            raise UnreadableError("a brace that is not closed")
        text = f"{text[:start]}({text[start + 1 : end]}){text[end + 1 :]}"
        position = start
    return text


def _braced(text: str, opener: str) -> str:
    """`opener`(...) as `opener`{...}."""
    position = 0
    while (found := text.find(opener + "(", position)) >= 0:
        start = found + len(opener)
        depth = 0
        for i in range(start, len(text)):
            depth += {"(": 1, ")": -1}.get(text[i], 0)
            if depth == 0:
                text = f"{text[:start]}{{{text[start + 1 : i]}}}{text[i + 1 :]}"
                break
        position = start
    return text
