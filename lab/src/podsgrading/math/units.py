"""Parsing numbers: what stands beside one, a unit of measure or a word that does no harm."""

import re

#: Each unit and its other spellings.
_SPELLINGS: dict[str, list[str]] = {
    # money
    "dollar": ["dollars", "usd"],
    "cent": ["cents"],
    "euro": ["euros", "\u20ac"],
    "pound sterling": ["\u00a3"],
    "yen": ["\u00a5"],
    # shares and angles
    "%": ["percent", "percentage", "pct"],
    "degree": ["degrees", "\u00b0", "deg"],
    "radian": ["radians", "rad"],
    # lengths
    "millimeter": ["millimeters", "millimetre", "millimetres", "mm"],
    "centimeter": ["centimeters", "centimetre", "centimetres", "cm"],
    "meter": ["meters", "metre", "metres", "m"],
    "kilometer": ["kilometers", "kilometre", "kilometres", "km"],
    "inch": ["inches", "in"],
    "foot": ["feet", "ft"],
    "yard": ["yards", "yd"],
    "mile": ["miles", "mi"],
    # masses
    "milligram": ["milligrams", "mg"],
    "gram": ["grams", "g"],
    "kilogram": ["kilograms", "kg"],
    "ounce": ["ounces", "oz"],
    "pound": ["pounds", "lb", "lbs"],
    "ton": ["tons", "tonne", "tonnes"],
    # volumes
    "milliliter": ["milliliters", "ml", "mL"],
    "liter": ["liters", "litre", "litres", "l", "L"],
    "gallon": ["gallons", "gal"],
    # times
    "second": ["seconds", "sec", "secs", "s"],
    "minute": ["minutes", "min", "mins"],
    "hour": ["hours", "hr", "hrs", "h"],
    "day": ["days"],
    "week": ["weeks"],
    "month": ["months"],
    "year": ["years", "yr", "yrs"],
    "am": ["AM", "a.m"],
    "pm": ["PM", "p.m"],
    # speeds
    "mph": [],
}
#: Every word of every spelling to its unit.
_CANONICAL: dict[str, str] = {}
for _unit, _others in _SPELLINGS.items():
    for _spelling in (_unit, *_others):
        _CANONICAL[_spelling] = _unit

_ALGEBRA = {"sqrt", "exp", "log", "ln", "mod", "max", "gcd", "lcm", "frac", "binom"}
_TRIGONOMETRY = {"sin", "cos", "tan", "cot", "csc", "arcsin", "arccos", "arctan"}
_HYPERBOLIC = {"sinh", "cosh", "tanh"}
_GREEK = {"pi", "theta", "alpha", "beta", "gamma", "phi"}
_SIGNS = {"infty", "infinity", "inf", "oo", "cdot", "circ"}
#: Words that are mathematics, beside a number.
_FUNCTIONS = frozenset(_ALGEBRA | _TRIGONOMETRY | _HYPERBOLIC | _GREEK | _SIGNS)

#: "one" is not among them: it is a pronoun, too.
_DIGITS = {"zero", "two", "three", "four", "five", "six", "seven", "eight", "nine"}
_FROM_TEN = {"ten", "eleven", "twelve", "thirteen", "fourteen"}
_FROM_FIFTEEN = {"fifteen", "sixteen", "seventeen", "eighteen", "nineteen"}
_TENS = {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"}
#: Numbers in words.
NUMBERS = frozenset(_DIGITS | _FROM_TEN | _FROM_FIFTEEN | _TENS)

#: Short words that are no product of variables.
_SHORT_WORDS = frozenset(
    ["an", "the", "is", "of", "or", "per", "sq", "cu", "by", "so", "for", "in"]
)

#: Words that \text{} marks as words, between guillemets; and a raw word.
_WORD = re.compile(r"(?P<marked>\u00ab[^\u00bb]*\u00bb)|[^\W\d_]+(?:['.\-/][^\W\d_]+)*")
#: How `read_number` hands over the power of a unit, so that it is not taken for a number.
SUPERSCRIPTS = {"2": "\ue002", "3": "\ue003"}
_SUPERSCRIPT = re.compile("[\ue002\ue003]?")  # matches everywhere, perhaps nothing
#: Words before a unit that say its power.
_POWERS = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}
_RATE = re.compile(r"/|\bper\b")
#: A hyphen at the end of a word ("5-"), and a slash before one ("/h"): both join no two words.
_JOINTS = re.compile(r"(?<=[^\W\d_])-(?=\s|$)|(?:^|\s|\u00bb)/\s?(?=[^\W\d_\u00ab])")
#: What may stand between words.
_LOOSE = re.compile(r"[\s.,:;!?*'\"()\[\]\u00b0$\u20ac\u00a3\u00a5%#]|\u201c|\u201d|`")


def read_unit(text: str, prose: bool = False) -> str | None:
    """The known unit in what stands beside a number; "" without one, None if it is no unit.

    Args:
        text: what stands before or after the number; words from LaTeX text are in guillemets.
        prose: a single letter after a space is a unit, and any word is harmless.

    >>> read_unit(" square cm"), read_unit(" apples"), read_unit("x"), read_unit(" + 1")
    ('centimeter^2', '', None, None)
    """
    is_rate = _RATE.search(text) is not None
    text = _JOINTS.sub(" ", text)

    unit = ""
    power_before_unit = ""
    between_words: list[str] = []
    position = 0

    for match in _WORD.finditer(text):
        is_marked = match["marked"] is not None
        if not is_marked and not _is_harmless(match.group(), text[: match.start()], prose):
            return None

        superscript = _SUPERSCRIPT.match(text, match.end())
        assert superscript is not None
        for word in match.group().strip("\u00ab\u00bb").split() or [""]:
            name = word.strip(".,()")
            known_unit = _CANONICAL.get(name) or _CANONICAL.get(name.lower(), "")
            power_before_unit = _POWERS.get(name.lower(), power_before_unit)
            if known_unit and not unit:
                unit = known_unit + _exponent(power_before_unit, superscript.group())
            elif is_marked and not known_unit and len(name) == 1:
                return None  # \text{x} is a variable

        between_words.append(text[position : match.start()])
        is_raised = unit or "unit" in match.group()
        position = superscript.end() if is_raised else match.end()

    between_words.append(text[position:])
    if any(_LOOSE.sub("", part) for part in between_words):
        return None

    if not unit and "%" in text:
        unit = "%"
    elif not unit and "\u00b0" in text:
        unit = "degree"
    return "" if is_rate else unit  # a rate is compared by its number alone


def _exponent(power: str, superscript: str) -> str:
    """The exponent of a unit, as in "square cm" or with a superscript."""
    exponent = ""
    for digit, sign in SUPERSCRIPTS.items():
        if digit == power or sign == superscript:
            exponent += f"^{digit}"
    return exponent


def _is_harmless(word: str, before: str, prose: bool) -> bool:
    """Is a raw word a word, and not a product of variables or the name of a function?"""
    if word.lower() in _FUNCTIONS or before.endswith("\\"):
        return False

    if len(word) == 1:
        if before.strip():
            return word in ("a", "A", "I") or before[-1] in "'/"
        return prose and (word in _CANONICAL or word in "aAI") and before.endswith(" ")

    if prose or word in _CANONICAL or word.lower() in _SHORT_WORDS:
        return True
    if word.lower() in NUMBERS:
        return False
    # Three letters or less may be variables, and so may be what has no vowel.
    has_vowel = re.search("[aeiouy]", word, re.IGNORECASE) is not None
    return len(word) > 3 and has_vowel
