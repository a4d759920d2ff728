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
from podsgrading.math.large import is_large
from podsgrading.math.structure import UnreadableError

# Its defaults take R for r, and (2)(3), like 2 3, for the mixed number 2 + 3.
_CONVERSION = ConversionConfig(lowercase_symbols=False, interpret_as_mixed_fractions=False)
_TRIGONOMETRIC = ["sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan"]
_OTHER_FUNCTIONS = ["sinh", "cosh", "tanh", "log", "ln", "exp"]
_SIGNS = ["pi", "theta", "alpha", "beta", "phi", "cdot"]
#: Words in plain notation, and their LaTeX: that of most is the word itself.
_WORDS = {"infinity": r"\infty ", "inf": r"\infty ", "oo": r"\infty "}
for _names in (_TRIGONOMETRIC, _OTHER_FUNCTIONS, _SIGNS):
    for _name in _names:
        _WORDS[_name] = rf"\{_name} "
_WORD = re.compile(r"(?<![\\a-zA-Z{])[a-zA-Z]{2,}(?![a-zA-Z}])")
_DECIMAL = re.compile(r"(?<![0-9.])([0-9]*)\.([0-9]+)(?![0-9.])")
_BINOMIAL = re.compile(
    r"(?:\\[dt]?binom\s?\{\s?(?P<n>[0-9]{1,30})\s?\}\s?\{\s?(?P<k>[0-9]{1,30})\s?\}"
    r"|\{\s?(?P<n2>[0-9]{1,30})\s?\\choose\s?(?P<k2>[0-9]{1,30})\s?\})"
)
#: From how many on a binomial is a quotient of factorials, which nobody works out.
_MOST_OF_BINOMIAL = 1_000
#: What the parser works out, however large it is: divisors, indices of roots, binomials.
_WORKED_OUT = re.compile(
    r"\\(?:gcd|lcm)(?![a-zA-Z])[^!^]{0,40}[!^]|\\sqrt\s?\[[^\]!^]{0,40}[!^]"
    r"|\\[dt]?binom\s?\{[^{}]{0,20}(?:\{[^{}]{0,20}\})?[^{}]{0,20}\}\s?\{\s?[0-9]{4,}"
)
_PLAIN_ROOT = re.compile(r"(?<!\\)sqrt\s?(?=[({])")
#: x^-1 and x^10, of which LaTeX would raise one character.
_LONG_POWER = re.compile(r"\^\s?(-\s?[0-9a-zA-Z]+|[0-9]{2,})")
_NAMES = r"(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|log|ln|exp"
#: What follows a denominator and may belong to it: a letter, a bracket, a function or a sign.
_FACTOR = r"(?:[a-zA-Z(]|\\(?!cdot|times|pm|le|ge))"
#: A letter or a sign of one, which is no function.
_LETTER = rf"(?:[a-zA-Z]|\\(?!{_NAMES}|sqrt|frac)[a-z]+(?![a-z]))"
#: What people disagree on.
_AMBIGUOUS = re.compile(
    rf"/\s?[0-9]+\s?{_FACTOR}"  # 1/2x
    rf"|/\s?{_LETTER}\s?{_FACTOR}"  # 1/ab
    rf"|\\(?:{_NAMES})(?![a-zA-Z])\s?(?:[0-9]+|\\?[a-zA-Z]+)\s?/"  # \sin x/2
    r"|[0-9]\s*\\frac\s?\{[0-9]+\}\s?\{[0-9]+\}"  # 3\frac{1}{2} x
    r"|(?<![_^0-9])[0-9]+\s+[0-9]"  # 3 1/2 x
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
    # A prime is a derivative or feet, \Gamma a function or a letter.
    if "'" in text or '"' in text or "\\Gamma" in text or _AMBIGUOUS.search(text):
        raise UnreadableError(f"{latex!r} can be read in more than one way")
    text = _DECIMAL.sub(_fraction, text)
    text = _BINOMIAL.sub(_quotient_of_factorials, text)
    if _WORKED_OUT.search(text):
        raise UnreadableError(f"{latex!r} has large numbers that the parser would work out")

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

    # The parser takes i for a real symbol, as all others. To put another in works numbers out.
    i = sympy.Symbol("i", real=True)
    return parsed.subs(i, sympy.I) if parsed.has(i) and not is_large(parsed) else parsed


def _fraction(decimal: re.Match[str]) -> str:
    """0.25 as \\frac{25}{100}."""
    whole, decimals = decimal.groups()
    return rf"\frac{{{int(whole + decimals)}}}{{{10 ** len(decimals)}}}"


def _quotient_of_factorials(binomial: re.Match[str]) -> str:
    r"""\binom{10000}{5000} as \frac{10000!}{5000! 5000!}: the parser would work it out."""
    n = int(binomial["n"] or binomial["n2"])
    k = int(binomial["k"] or binomial["k2"])
    if n <= _MOST_OF_BINOMIAL or k > n:
        return binomial[0]
    return rf"\frac{{{n}!}}{{{k}! \cdot {n - k}!}}"


def _plain_to_latex(text: str) -> str:
    """Plain notation (sqrt(2), pi/3, x**2) as LaTeX."""
    text = text.replace("**", "^")
    text = text.replace("\\operatorname", "")

    text = _PLAIN_ROOT.sub(r"\\sqrt", text)
    text = _braced(text, "\\sqrt")
    text = _braced(text, "^")
    text = _LONG_POWER.sub(r"^{\1}", text)
    text = _parenthesised(text)

    text = _WORD.sub(lambda match: _WORDS.get(match[0], match[0]), text)
    if re.search(r"(?<![\\a-zA-Z])[a-zA-Z]{4,}", text):
        raise UnreadableError("words where an expression should be")
    return text.replace("*", r" \cdot ")


def _parenthesised(text: str) -> str:
    r"""\log{x} as \log(x): the parser would take what follows into the argument, too."""
    position = 0
    while match := _FUNCTION_ARGUMENT.search(text, position):
        brace = match.end()
        closed = closing_braces(text, brace)
        if brace not in closed:
            raise UnreadableError("a brace that is not closed")
        end = closed[brace]
        text = f"{text[:brace]}({text[brace + 1 : end]}){text[end + 1 :]}"
        position = brace
    return text


def _braced(text: str, opener: str) -> str:
    """`opener`(...) as `opener`{...}."""
    position = 0
    while (start := text.find(opener + "(", position)) >= 0:
        bracket = start + len(opener)
        closed = closing_braces(text, bracket, "()")
        if bracket in closed:
            end = closed[bracket]
            text = f"{text[:bracket]}{{{text[bracket + 1 : end]}}}{text[end + 1 :]}"
        position = bracket
    return text
