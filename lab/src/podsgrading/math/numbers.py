"""Parsing, first part: the number that a short answer states.

Exact: no floats, nothing is worked out; in time linear in the text.
"""

import functools
import re
from fractions import Fraction
from typing import NamedTuple

from podsgrading.math.normalise import clean, mark_text
from podsgrading.math.units import NUMBERS, SUPERSCRIPTS, read_unit

#: A longer answer states no number: it is a text.
MAX_NUMBER = 300
_BRACKETS = (("(", ")"), ("{", "}"), ("[", "]"))


class Number(NamedTuple):
    """A number as it was stated.

    value: what stands before the percent sign or the unit.
    percent: whether a percent sign follows.
    unit: a known unit in its canonical spelling, or "".
    base: of a number such as 52_8; `value` is then made of its digits as they stand.
    name: the variable that it was said to be ("x = 5"), or "".
    modulus: 7 or p of "2 (mod 7)", "2 (mod p)"; "" without one.
    """

    value: Fraction
    percent: bool = False
    unit: str = ""
    base: int | None = None
    name: str = ""
    modulus: str = ""


# One number with all that may belong to it, from its sign to the power of ten after it.
_GROUPS = r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]{1,3}(?: [0-9]{3})+(?![0-9])"
_SIGN = r"(?P<sign>(?<![\w)\]}.\u00bb])[-+]\s?)?"
_CURRENCY = r"(?:(?P<currency>[$\u20ac\u00a3\u00a5])\s?(?P<sign2>-)?)?"
_DIGITS = (
    rf"(?:(?P<whole>{_GROUPS}|[0-9]+)(?P<decimals>\.[0-9]+)?|(?<![0-9])(?P<bare>\.[0-9]+))"
    r"(?:\.?\\overline\{(?P<repeated>[0-9]{1,20})\})?"
)
_BASE = r"_\{?(?P<base>[0-9]{1,2})\}?"
_TIMES_TEN_TO = r"\s?(?:\\times|\\cdot|[*x])\s?10\s?\^\s?\{?\s?(?P<power>-?[0-9]{1,3})\}?(?![0-9])"
_EXPONENT = r"[eE](?P<exponent>[-+]?[0-9]{1,3})(?![0-9])"
_DENOMINATOR = r"\s?/\s?(?P<denominator>[0-9]+(?![0-9.]))"
_MIXED = r"\s+(?P<top>[0-9]+)\s?/\s?(?P<bottom>[0-9]+)"
_NUMBER = re.compile(
    rf"{_SIGN}{_CURRENCY}{_DIGITS}"
    rf"(?:{_BASE}|{_TIMES_TEN_TO}|{_EXPONENT}|{_DENOMINATOR}|{_MIXED})?"
)

# Notation that is rewritten before numbers are looked for.
_FRACTION = re.compile(r"\\frac\s?\{\s?(-?[0-9]+)\s?\}\s?\{\s?([0-9]+)\s?\}")
_MINUS_TWICE = re.compile(
    r"^\s*-\s*\\frac\s?\{\s?-\s?(?=[0-9]+\s?\}\s?\{\s?[0-9])"
    r"|\\frac\s?\{\s?-\s?(?=[0-9]+\s?\}\s?\{\s?-)"
)
_MINUS_BELOW = re.compile(r"\\frac\s?\{\s?([0-9]+)\s?\}\s?\{\s?-\s?([0-9]+)\s?\}")
_TEN_TO = re.compile(
    r"(?P<factor>\\times\s?|\\cdot\s?|[*x^}.0-9]\s?)?"
    r"(?<![0-9])10\s?\^\s?(?:\{\s?(-?[0-9]{1,3})\s?\}|(-?[0-9]{1,3}))(?![0-9])"
)
_UNIT_POWER = re.compile(r"(?<=[a-zA-Z\u00bb])\s?\^\s?(?:\{\s?([23])\s?\}|([23])(?![0-9]))")
_TEMPERATURE = re.compile("\u00b0\\s?[CF](?![a-zA-Z])")

_MAGNITUDES = {
    "k": 10**3,
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_MAGNITUDE = re.compile(rf"\s?\u00ab?\s?({'|'.join(_MAGNITUDES)})s?(?![a-zA-Z])", re.IGNORECASE)

#: A number, a letter or a power of one; by a polynomial, what stands before would be divided.
_MODULUS = re.compile(r"\s?\\pmod\{([0-9]+|[a-zA-Z](?:\^[0-9a-zA-Z])?)\}$")
#: "5 12ths" is a fraction, and not 12.
_PARTS = re.compile(r"\s?\u00ab?\s?(?:st|nd|rd|th)s(?![a-zA-Z])")

# The two sides of "x = 5".
_EQUALS = re.compile(r"(?<![<>!~:=\\])=(?!=)")
_NAME = re.compile(r"(?:m?\\angle\s?)?\\?[a-zA-Z]+(?:_\{?\w+\}?)?(?:\([^()]{1,20}\))?'*")
_VARIABLE = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])")
_OTHER_RELATION = re.compile(r"[<>~\u2248]|\\(?:le|ge|ne|approx|sim|equiv|in)(?![a-zA-Z])")
_SEVERAL = re.compile(r",(?![0-9]{3})|;|\b(?:and|or)\b")

_SPELLED = rf"(?:one|hundred|thousand|million|{'|'.join(NUMBERS)})"
#: Words from \\text{} change a number as others do.
_WITHOUT_MARKS = str.maketrans("\u00ab\u00bb", "  ")
#: Words around the number (@) with which it is another number, or none.
_CHANGES_IT = re.compile(
    r"\b(?:not|never|wrong|incorrect|false|minus|negative|cannot|n[eo]ither|nor|[a-z]+n't|half|halves"
    r"|quarters?|thirds?|plus|divided|multiplied|modulo|halved|doubled|tripled|quadrupled"
    r"|(?:four|fif|six|seven|eigh|nin|ten|hundred|thousand|million)th(?:s| of))\b"
    r"|\b(?:at (?:least|most)|(?:more|less|fewer|greater|larger|smaller|higher|lower) than|over"
    r"|under|above|below|up to|between|almost|nearly|twice|double|triple"
    r"|times(?: the| as (?:many|much) as)?|(?:square|cube|power|multiple|fraction|part) of"
    r"|(?:root|reciprocal|inverse|factorial|log|logarithm|(?:co)?sine|tangent)(?: of)?)"
    r"\s*[-$\u20ac\u00a3\u00a5]?\s*@"
    r"|@\s*(?:squared|cubed|factorial|over|choose|mod|to the)\b"
    rf"|@\s*(?:point|and) {_SPELLED}\b|\btimes {_SPELLED}\b|\b{_SPELLED}\s*@",
    re.IGNORECASE,
)


@functools.lru_cache(maxsize=4096)  # the rollouts of a group often say the same
def read_number(text: str, prose: bool = False) -> Number | None:
    r"""The one number that a short answer states, with any words around it.

    It reads thousands separators, decimals (repeating ones too), fractions, mixed numbers, powers
    of ten, currency, percent signs, magnitude words ("2 million"), bases (52_8), LaTeX, and units;
    of an equation or a congruence it takes what follows the last "=". None when the text states no
    number, several different ones, or something that is no number worked out (an expression, "at
    least 5").

    Args:
        text: the answer.
        prose: a single letter after a space is a unit ("5 m"), not a variable.

    >>> read_number(r"x = 1\frac{1}{2}\text{ cm}")
    Number(value=Fraction(3, 2), percent=False, unit='centimeter', base=None, name='x', modulus='')
    >>> read_number("5 or 6"), read_number("2^5"), read_number("5 + x"), read_number(r"2\pi")
    (None, None, None, None)
    """
    if len(text) > MAX_NUMBER:
        return None
    text, modulus = split_modulus(clean(text))
    name, side = _equation(mark_text(text), prose)
    if side is None or not _brackets_match(side):
        return None

    text = _rewritten(side)
    numbers: list[Number] = []
    beside: list[str] = []  # what stands before, between and after the numbers
    position = 0
    for match in _NUMBER.finditer(text):
        number, end = _number(match, text, prose)
        if number is None:
            return None
        numbers.append(number)
        beside.append(text[position : match.start()])
        position = end
    beside.append(text[position:])

    around = "@".join(beside).translate(_WITHOUT_MARKS)
    if len(numbers) != 1 or _CHANGES_IT.search(around):
        return None
    (number,) = numbers
    before, after = beside

    units = [read_unit(f" {before}", prose), read_unit(after, prose)]
    if None in units:
        return None
    unit = number.unit or units[0] or units[1] or ""
    number = number._replace(name=name, modulus=modulus)
    if unit == "%":
        return number._replace(percent=True, unit="")
    return number._replace(unit=unit)


def split_modulus(text: str) -> tuple[str, str]:
    r"""A cleaned text without the modulus at its end, and the modulus; "" without one.

    >>> split_modulus(r"2 \pmod{7}"), split_modulus("2")
    (('2', '7'), ('2', ''))
    """
    match = _MODULUS.search(text)
    return (text, "") if match is None else (text[: match.start()], match[1])


def _brackets_match(text: str) -> bool:
    """Are there as many closing brackets of each kind as opening ones?"""
    return all(text.count(pair[0]) == text.count(pair[1]) for pair in _BRACKETS)


def _without_two_minuses(text: str) -> str:
    r"""`text` with 1/2 for what begins as -\frac{-1}{2}, and for \frac{-1}{-2}.

    A minus between two terms is not the fraction's: "3 - \frac{-1}{2}" is to be worked out.

    >>> _without_two_minuses(r"-\frac{-1}{2}"), _without_two_minuses(r"\frac{-1}{-2}")
    ('\\frac{1}{2}', '\\frac{1}{2}')
    """
    match = _MINUS_TWICE.search(text)
    if match is None:
        return text
    rest = text[match.end() :]
    if not match[0].lstrip().startswith("-"):
        rest = re.sub(r"\{\s?-\s?", "{", rest, count=1)
    return f"{text[: match.start()]}\\frac{{{rest}"


def _rewritten(text: str) -> str:
    """`text` with fractions as 1/2, powers of ten as 1e3, and units' powers as superscripts."""
    text = _without_two_minuses(text)
    text = _MINUS_BELOW.sub(r"\\frac{-\1}{\2}", text)
    text = _FRACTION.sub(r" \1/\2 ", text)
    # 10^3 alone; after a factor, 2 x 10^3, it belongs to the number.
    text = _TEN_TO.sub(lambda m: m[0] if m["factor"] else f"1e{m[2] or m[3]}", text)
    text = _UNIT_POWER.sub(lambda m: SUPERSCRIPTS[m[1] or m[2]], text)
    text = _TEMPERATURE.sub("\u00b0", text)

    for pair in _BRACKETS:
        opening = pair[0]
        closing = pair[1]
        inside = text[1:-1]
        if text.startswith(opening) and text.endswith(closing) and "," not in inside:
            text = inside.strip()
    return text


def states_number(gold: Number, answer: str, prose: bool = False) -> bool:
    r"""Does the answer state this number; once, or in several forms joined by "or"?

    >>> states_number(Number(Fraction(1, 2)), r"\frac{1}{2} or 0.5"), states_number(
    ...     Number(Fraction(1, 2)), "1/2 or 2")
    (True, False)
    """
    if len(answer) > 4 * MAX_NUMBER:
        return False
    stated = [read_number(part, prose) for part in re.split(r"\bor\b", answer)]
    return all(number is not None and same_number(gold, number) for number in stated)


def same_number(gold: Number, answer: Number) -> bool:
    """Is it the same number, if a unit, a percent sign, a base or a modulus may be left out?

    Stated units, and the names in "x = 5", must agree. 50% is 50 with its sign left out, and 1/2;
    where the two readings could be confused (0.5% and 0.5), only the second holds. The base may be
    left out of an answer. Of a residue class the gold answer's number is right, and the class's
    least one, 6 (mod 7) for -1 (mod 7).
    """
    if gold.unit and answer.unit and gold.unit != answer.unit:
        return False
    if gold.name and answer.name and gold.name != answer.name:
        return False

    gold_base = 10 if gold.base is None else gold.base
    if answer.base not in (None, gold.base, gold_base):
        return False

    if answer.modulus and not _is_residue(gold, answer):
        return False
    if gold.modulus and gold.modulus == answer.modulus and _is_least_residue(gold, answer):
        return True

    if gold.percent == answer.percent:
        return gold.value == answer.value
    share, plain = (gold, answer) if gold.percent else (answer, gold)
    if share.value / 100 == plain.value:
        return True
    return share.value == plain.value and abs(plain.value) > 1


def _is_residue(gold: Number, answer: Number) -> bool:
    """May the answer's modulus stand there, and is the answer reduced by it?

    "9 (mod 7)" is 2, not worked out: it may be the question, so it is neither 9 nor 2. Unless the
    gold answer itself stands so.
    """
    if gold.modulus:
        return gold.modulus == answer.modulus
    return not answer.modulus.isdecimal() or abs(answer.value) < int(answer.modulus)


def _is_least_residue(gold: Number, answer: Number) -> bool:
    """Is the answer the smallest number of the gold answer's class that is not negative?"""
    if not gold.modulus.isdecimal() or gold.modulus.strip("0") == "":
        return False
    modulus = int(gold.modulus)
    return 0 <= answer.value < modulus and answer.value == gold.value % modulus


def _equation(text: str, prose: bool) -> tuple[str, str | None]:
    """The name on the left of "=", if there is one, and the right side; None if it is no number."""
    *left, right = _EQUALS.split(text)
    is_turned_round = (
        len(left) == 1 and re.fullmatch(r"\s?[a-zA-Z]", right) and re.search("[0-9]", left[0])
    )
    if is_turned_round:  # 5 = x
        left, right = [right], left[0]

    if _OTHER_RELATION.search(text) or any(_SEVERAL.search(side) for side in left):
        return "", None
    if left and _NAME.fullmatch(left[0].strip()):
        return left[0].replace(" ", ""), right.strip()
    if not prose and any(_VARIABLE.search(side) for side in left):
        return "", None  # an equation, not the value of something
    return "", right.strip()


def _number(match: re.Match[str], text: str, prose: bool) -> tuple[Number | None, int]:
    """The number of a match and where it ends, magnitude word included."""
    start = match.start()
    end = match.end()
    before = text[start - 1 : start] if start else ""
    after = text[end : end + 1]

    value = _value(match)
    if value is None or before.isalnum() or after in ("^", "_", "\\"):
        return None, end
    if not prose and text[end:].lstrip(")]} ")[:1] in ("!", "'"):
        return None, end  # a factorial, a derivative, also of (5)
    if match["denominator"] is None and _PARTS.match(text, end):
        return None, end
    if before and before in "_^.\\}!":
        return None, end  # part of an expression
    if before and before in "([{" and "," in match.group():
        return None, end  # a pair, not thousands

    magnitude = _MAGNITUDE.match(text, end)
    if magnitude and (prose or len(magnitude[1]) > 1):  # in mathematics 2k is twice k
        value *= _MAGNITUDES[magnitude[1].lower()]
        end = magnitude.end()

    unit = "dollar" if match["currency"] == "$" else ""
    base = int(match["base"]) if match["base"] else None
    return Number(value, unit=unit, base=base), end


def _value(match: re.Match[str]) -> Fraction | None:
    """The value of a match of `_NUMBER`; None for a denominator of 0, or "1.5 1/2"."""
    whole = re.sub(r"[^0-9]", "", match["whole"] or "0")
    decimals = match["decimals"] or match["bare"] or ""
    value = Fraction(whole + decimals)

    # 0.1(6) is 1/10 + 6/9 of 1/10.
    repeated = match["repeated"]
    if repeated:
        if "." not in match.group():
            return None
        places = len(decimals) - 1 if decimals else 0
        value += Fraction(int(repeated), (10 ** len(repeated) - 1) * 10**places)

    numerator = match["top"]
    denominator = match["bottom"] or match["denominator"]
    if denominator is not None:
        if int(denominator) == 0 or (decimals and numerator):
            return None
        if numerator:
            value += Fraction(int(numerator), int(denominator))
        else:
            value /= int(denominator)

    power = match["power"] or match["exponent"]
    if power:
        value *= Fraction(10) ** int(power)

    is_minus_before = (match["sign"] or "").strip() == "-"
    is_minus_after_currency = match["sign2"] is not None
    return -value if is_minus_before != is_minus_after_currency else value
