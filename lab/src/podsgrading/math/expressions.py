"""Parsing, third part: one expression in LaTeX or plain notation, as a sympy object.

The parser is latex2sympy2_extended's (the one that math-verify has, too). What it would misread, or
what people read in two ways, is refused before. Only the grading processes import this: it may take
any time and any memory.
"""

import re
from functools import lru_cache

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy

from podsgrading.extract import closing_braces
from podsgrading.math.structure import UnreadableError

# Its defaults take R for r, and (2)(3), like 2 3, for the mixed number 2 + 3.
_CONVERSION = ConversionConfig(lowercase_symbols=False, interpret_as_mixed_fractions=False)
_LATEX_NAMES = """
    pi theta alpha beta phi cdot sin cos tan cot sec csc log ln exp arcsin arccos arctan sinh cosh
    tanh
"""
_WORDS = dict.fromkeys(("infinity", "inf", "oo"), r"\infty ")
_WORDS |= {name: rf"\{name} " for name in _LATEX_NAMES.split()}
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
        end = closing_braces(text, start).get(start, -1)
        if end < 0:
            raise UnreadableError("a brace that is not closed")
        text = f"{text[:start]}({text[start + 1 : end]}){text[end + 1 :]}"
        position = start
    return text


def _braced(text: str, opener: str) -> str:
    """`opener`(...) as `opener`{...}."""
    position = 0
    while (found := text.find(opener + "(", position)) >= 0:
        position = start = found + len(opener)
        if end := closing_braces(text, start, "()").get(start):
            text = f"{text[:start]}{{{text[start + 1 : end]}}}{text[end + 1 :]}"
    return text
