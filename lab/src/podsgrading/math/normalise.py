r"""Normalising: notation that means the same is brought to one form.

`clean` does it for LaTeX spaces, \left, \dfrac, Unicode, ordinals, moduli and what stands around an
answer. `statement` takes away the sentence that may stand around a value, `without_clause` a clause
behind it ("for all real x"), `words` and `mark_text` open \text{}. Nothing here knows what an
expression is worth; all takes time linear in the text.
"""

import re
from typing import NamedTuple

from podsgrading.extract import DELIMITERS

#: Signs that LaTeX has a name for.
_SIGNS = {
    "\u00d7": r"\times",
    "\u22c5": r"\cdot",
    "\u00b7": r"\cdot",
    "\u03c0": r"\pi",
    "\u221e": r"\infty",
    "\u2264": r"\le",
    "\u2265": r"\ge",
    "\u2260": r"\ne",
    "\u222a": r"\cup",
    "\u2205": r"\emptyset",
    "\u2208": r"\in",
    "\u00b1": r"\pm",
    "\u00b0": r"^\circ",
    "\u03b8": r"\theta",
    "\u2261": r"\equiv",
}
#: Fractions and powers of one character; the root, whose argument follows.
_SHORT_FORMS = {
    "\u00bd": " 1/2",
    "\u00bc": " 1/4",
    "\u00be": " 3/4",
    "\u2153": " 1/3",
    "\u2154": " 2/3",
    "\u00b2": "^2",
    "\u00b3": "^3",
    "\u221a": r"\sqrt",
}
_WITHOUT_A_WIDTH = ["\u200b", "\u2060", "\ufeff"]
_SPACES_OF_A_WIDTH = ["\u00a0", "\u202f", "\u2009"]
_MINUS_AND_DASHES = ["\u2212", "\u2013", "\u2014", "\ufe63"]
_DIVISIONS = ["\u2044", "\u2215", "\u00f7"]
_PRIMES = ["\u2032", "\u2019"]

#: One character to what it is written as; the 94 of full width to ASCII's.
_CHARACTERS = str.maketrans(
    {
        **{sign: f"{name} " for sign, name in _SIGNS.items()},
        **_SHORT_FORMS,
        **{chr(0xFF01 + i): chr(0x21 + i) for i in range(94)},
        **dict.fromkeys(_WITHOUT_A_WIDTH, ""),
        **dict.fromkeys(_SPACES_OF_A_WIDTH, " "),
        **dict.fromkeys(_MINUS_AND_DASHES, "-"),
        **dict.fromkeys(_DIVISIONS, "/"),
        **dict.fromkeys(_PRIMES, "'"),
    }
)

#: $...$ within a text, but not "$5 and $6"; the other signs of LaTeX's mathematics.
_DOLLARS = re.compile(r"(?<!\\)(\$\$?)(?=\S)((?:\\\$|[^$])*)(?<=[^\s\\])\1")
_MATHEMATICS = re.compile(r"(?<!\\)\\[()\[\]]")
_SIZES = re.compile(
    r"\\(?:left|right|mleft|mright|[bB]igg?[lr]?|displaystyle|limits|mathstrut)(?![a-zA-Z])"
)
#: 10,\!000: the space that is taken away after the comma of thousands.
_NARROW_THOUSANDS = re.compile(r"(?<=[0-9]),\\!\s*(?=[0-9]{3})")
_SPACES = re.compile(
    r"(?<!\\)\\[,;:!> ]\s*|~|\\(?:quad|qquad|enspace|thinspace|hspace\*?\{[^{}]*\})"
)
_FONTS = re.compile(
    r"\\(?:mathrm|mathbf|mathit|mathsf|mathnormal|boldsymbol|bm|operatorname|ensuremath)\s?"
    r"\{([^{}]*)\}"
)
#: \text{...}, whose content is words.
_TEXT = re.compile(r"\\(?:text|mbox|hbox|textrm|textbf|textit|textnormal|emph)\s?\{([^{}]*)\}")

#: Pattern to what is written in its place; the order counts, as "<=" is looked for after "\leq".
_SYNONYMS = {
    r"\\[dtc]frac(?![a-zA-Z])": r"\\frac",
    r"\\(?:leqslant|leq)(?![a-zA-Z])": r"\\le ",
    r"\\(?:geqslant|geq)(?![a-zA-Z])": r"\\ge ",
    r"\\neq(?![a-zA-Z])": r"\\ne ",
    r"\\lt(?![a-zA-Z])": "<",
    r"\\gt(?![a-zA-Z])": ">",
    r"\\lbrace(?![a-zA-Z])": r"\\{",
    r"\\rbrace(?![a-zA-Z])": r"\\}",
    r"\\lbrack(?![a-zA-Z])": "[",
    r"\\rbrack(?![a-zA-Z])": "]",
    r"\\degree(?![a-zA-Z])": r"^\\circ ",
    r"\^\s?\{\s?\\circ\s?\}|\^\s?\\circ(?![a-zA-Z])": "\u00b0",
    r"\\%": "%",
    r"\\\$": "$",
    r"\{,\}": ",",
    r"<=": r"\\le ",
    r">=": r"\\ge ",
    r"!=": r"\\ne ",
}
_COMPILED_SYNONYMS = [(re.compile(pattern), new) for pattern, new in _SYNONYMS.items()]

# 12^{\text{th}}, 12\text{th}, 12^{th} and 12th. Behind letters, (n+1)^{\text{th}}, the ordinal must
# be marked as text: n^{th} may be a power. "12th of" and "12th root" are other numbers.
_MARK = r"\\(?:text|mathrm|textrm|mbox|rm|textsuperscript|operatorname)"
_SUFFIX = r"(st|nd|rd|th)"
_MARKED_SUFFIX = (
    rf"\s?-?\s?(?:\^\s?\{{\s?{_MARK}\s?\{{\s?-?{_SUFFIX}\s?\}}\s?\}}|\^?\s?{_MARK}\s?\{{\s?-?{_SUFFIX}\s?\}}"
    rf"|\^\s?\{{\s?\\rm\s{_SUFFIX}\s?\}})"
)
_PLAIN_SUFFIX = rf"\^\s?\{{\s?{_SUFFIX}\s?\}}|{_SUFFIX}(?![a-zA-Z])"
_NO_PART = r"(?!\s?(?:\\text\s?\{)?\s?(?:of|roots?|power)\b)"
_ORDINAL = re.compile(rf"([0-9]{{1,2}})(?:{_MARKED_SUFFIX}|{_PLAIN_SUFFIX}){_NO_PART}")
_ORDINAL_OF_LETTERS = re.compile(rf"(?<=[a-zA-Z)]){_MARKED_SUFFIX}{_NO_PART}")
_RAISED_SUFFIXES = {
    "\u02e2\u1d57": "st",
    "\u207f\u1d48": "nd",
    "\u02b3\u1d48": "rd",
    "\u1d57\u02b0": "th",
}
_ENDING_OF_DIGIT = {"1": "st", "2": "nd", "3": "rd"}

# A modulus is written as \pmod{7}. Without brackets it must stand behind a number, and at the end
# of a part: "a \bmod b" is an operation.
_MODULUS_IN_TEXT = re.compile(
    r"\\(?:text|mathrm|textrm|mbox|operatorname)\s?\{(\s?\(?\s?mod(?:ulo)?(?![a-zA-Z])[^{}]*)\}"
)
_MOD = r"(?:\\b?mod|(?<![a-zA-Z\\])mod(?:ulo)?)(?![a-zA-Z])"
_BARE_MODULUS = r"(?:\{(?P<braced>[^{}]{1,20})\}|(?P<bare>[0-9]+|[a-zA-Z](?![a-zA-Z])))"
_CONGRUENCE = re.compile(
    rf"\s?\(\s?{_MOD}\s?(?P<inside>[^()]{{1,40}}?)\s?\)|\s?\\p(?:mod|od)\s?{_BARE_MODULUS}"
)
_REMAINDER = re.compile(rf"(?<=[0-9])\s?{_MOD}\s?{_BARE_MODULUS}(?=\s?(?:$|[,;.)]|and\b|\\text))")
_EQUIVALENT = re.compile(r"(?<!\\not)(?<!\\not )\\equiv(?![a-zA-Z])")

# LaTeX takes arguments without braces: \frac12, \frac a b, \frac{1}2, \sqrt2, \sqrt[3]4.
_FRACTION_ARGUMENTS = re.compile(r"\\frac\s*(?![a-zA-Z{\s])(\w)")
_LETTER_ARGUMENT = re.compile(r"\\frac\s+([a-zA-Z])(?=\s*[{0-9a-zA-Z\\])")
_SECOND_ARGUMENT = re.compile(r"(\\frac\s*\{[^{}]*\})\s*(?![\s{])([0-9a-zA-Z])")
_ROOT_ARGUMENT = re.compile(r"(\\sqrt(?:\s*\[[^\[\]]{0,40}\])?)\s*([0-9]+|[a-zA-Z])")


def clean(text: str) -> str:
    r"""`text` with one spelling for what is written in many ways; \text{...} is kept.

    >>> clean(r"$\left(\dfrac12,\ 10{,}000\right)$.")
    '(\\frac{1}{2}, 10,000)'
    """
    text = _without_full_stop(text.translate(_CHARACTERS))
    for opening, closing in DELIMITERS:
        inside = text[len(opening) : -len(closing)]
        is_one_pair = inside and opening not in inside.replace("\\$", "")
        if is_one_pair and text.startswith(opening) and text.endswith(closing):
            text = _without_full_stop(inside)

    text = _MATHEMATICS.sub("", text)
    text = _DOLLARS.sub(r"\2", text)
    text = _SIZES.sub("", text)
    text = _NARROW_THOUSANDS.sub(",", text)
    text = text.replace("\\!", "")
    text = _SPACES.sub(" ", text)
    text = _with_moduli(_without_ordinals(text))

    for pattern, new in _COMPILED_SYNONYMS:
        text = pattern.sub(new, text)
    text = _FONTS.sub(r"\1", text)

    text = _FRACTION_ARGUMENTS.sub(r"\\frac{\1}", text)
    text = _LETTER_ARGUMENT.sub(r"\\frac{\1}", text)
    text = _SECOND_ARGUMENT.sub(r"\1{\2}", text)
    text = _ROOT_ARGUMENT.sub(r"\1{\2}", text)
    return re.sub(r"\s+", " ", text).strip()


def _without_ordinals(text: str) -> str:
    r"""`text` with 12 for 12^{\text{th}}, and n for n^{\text{th}}.

    An ending that is not the number's own, 2^{st}, stays: it may be a power.
    """
    for raised, suffix in _RAISED_SUFFIXES.items():
        text = text.replace(raised, suffix)

    def number(match: re.Match[str]) -> str:
        digits, *suffixes = match.groups()
        is_teen = digits[-2:-1] == "1"
        ending = "th" if is_teen else _ENDING_OF_DIGIT.get(digits[-1], "th")
        return f"{digits} " if ending in suffixes else match[0]

    return _ORDINAL_OF_LETTERS.sub(" ", _ORDINAL.sub(number, text))


def _with_moduli(text: str) -> str:
    r"""`text` with each modulus as \pmod{7}, and "=" for \equiv where there is one."""
    if "mod" not in text and "\\pod" not in text:
        return text

    def modulus(match: re.Match[str]) -> str:
        found = [group for group in match.groupdict().values() if group]
        content = re.sub(r"[\s{}]", "", found[0]) if found else ""
        return rf" \pmod{{{content}}}"

    text = re.sub(r"\s+", " ", _MODULUS_IN_TEXT.sub(r"\1", text))
    text = _CONGRUENCE.sub(modulus, text)
    text = _REMAINDER.sub(modulus, text)
    return _EQUIVALENT.sub("=", text) if "\\pmod" in text else text


def _without_full_stop(text: str) -> str:
    return text.strip().rstrip(".").strip()


#: A longer text is no short sentence around a value.
_MAX_STATEMENT = 200
# A statement is "SUBJECT is VALUE" or "SUBJECT: VALUE", and the subject a word or two with names:
# "the value of f(x)".
_NAME = r"\\?[a-zA-Z][a-zA-Z'\u2019-]*(?:_\{?\w\}?)?(?:\([^()]{1,12}\))?"
_VERB = r"(?:is|are|equals?)\b"
_SUBJECT = rf"(?:the|there|its?|all|this|these|both|final|answer)(?:,? (?!{_VERB}){_NAME}){{0,20}}"
_STATEMENT = re.compile(
    rf"(?:(?:so|thus|hence|therefore|then|finally),? )?(?:(?P<subject>{_SUBJECT})"
    rf"(?: {_VERB}(?: (?:equal to|given by|therefore|thus|then|exactly)\b)?:?|:))? ?(?P<value>.+)",
    re.IGNORECASE,
)
#: Words that make another statement of what follows them.
_DOUBTS = re.compile(
    r"\b(?:not?|n[eo]ither|nor|never|none|cannot|[a-z]+n['\u2019]t|or|if|unless|but|without|except|wrong"
    r"|incorrect\w*|false|untrue|mistaken?\w*|doubt\w*|unlikely|hardly|may|might|could|would|should"
    r"|guess|opposite|negative|minus|half|twice)\b",
    re.IGNORECASE,
)
#: A variable in a subject; "a" and "A" are words.
_LETTER = re.compile(r"(?<![\w\\])[b-zB-HJ-Z](?:\([a-z]\))?(?![\w'])")
#: What a value is not made of that one name can have.
_SEVERAL_VALUES = re.compile(r"[=<>,;]|\b(?:and|or)\b")


def statement(text: str) -> str | None:
    r"""The value in one short sentence, "the ... is VALUE"; None for what is no such sentence.

    The sentence may begin with "so" or "thus". One that doubts, denies or compares is none.

    >>> statement(r"So the area is $12\pi$ square units."), statement("The value of $x$ is 5.")
    ('12\\pi square units', 'x = 5')
    >>> statement("I doubt that it is 5"), statement("The answer is not given"), statement("5")
    (None, 'not given', None)
    """
    plain = words(clean(text))
    if len(plain) > _MAX_STATEMENT:
        return None
    match = _STATEMENT.fullmatch(plain)
    if match is None:
        return None

    value = match["value"]
    subject = match["subject"] or ""
    if value == plain or _DOUBTS.search(subject):
        return None

    names = _LETTER.findall(subject)
    if len(names) == 1 and not _SEVERAL_VALUES.search(value):
        return f"{names[0]} = {value}"
    return value


# A clause behind an answer that says where it holds, and does not change what it is worth. One that
# gives a variable its value, "where x = 3", does; and so do "if" and "when".
_NAMES = r"(?:\\?[a-zA-Z]+(?:_\{?\w\}?)?(?: ?, ?[a-zA-Z](?![a-zA-Z]))*)"
_SET = r"(?:\\math(?:bb|bf|cal) ?\{?[A-Z]\}?|[NZQRC](?![a-zA-Z]))(?: ?[\^_] ?\{?[0-9+*>]{1,3}\}?)?"
_MEMBERSHIP = rf"{_NAMES} ?\\in ?{_SET}"
_BOUND = rf"{_NAMES} ?(?:\\(?:ge|le|ne)|[<>]) ?-?[0-9]{{1,9}}"
_INDEX_BOUND = r"[i-nN] ?(?:\\ge|>) ?[0-9]{1,9}"
_EXCLUSION = r"[a-zA-Z] ?\\ne ?-?[0-9]{1,9}"
_KINDS = (
    r"(?:(?:real|complex|rational|natural|whole|positive|negative|non-?negative|non-?zero|arbitrary"
    r"|possible|integers?|constants?|numbers?|values?|reals|naturals|of|the|an?|any|some) ?)+"
)
_RANGE = rf"(?:{_MEMBERSHIP}|{_BOUND}|{_KINDS}(?:{_MEMBERSHIP}|{_BOUND}|{_NAMES})?|{_NAMES})"
_CLAUSE = re.compile(
    rf"(?:(?:for (?:all|any|every|each|arbitrary)|\\forall) ?{_RANGE}"
    rf"|(?:where|with|for) (?:{_MEMBERSHIP}|{_INDEX_BOUND}|{_EXCLUSION}"
    r"|(?:an? )?(?:integers?|real|constant) [a-zA-Z])"
    rf"|(?:where|with) {_NAMES} (?:is|are) {_KINDS}"
    rf"|{_MEMBERSHIP}|{_EXCLUSION})"
)
#: Where a clause may begin: behind a comma or a bracket, or with its own word.
_CLAUSE_START = re.compile(r",|\(|(?<![a-zA-Z])(?:for|where|with)(?![a-zA-Z])|\\forall(?![a-zA-Z])")
#: With these a statement is more than one value.
_NOT_ONE_VALUE = re.compile(
    r"[<>]|\\(?:le|ge|ne)(?![a-zA-Z])|(?<![a-zA-Z])(?:for|where|when|if|otherwise|not)(?![a-zA-Z])"
)
#: An interval, or a point.
_BRACKETED_PAIR = re.compile(r"^[\[(].*,.*[\])]$")
_VARIABLE = re.compile(r"(?<![a-zA-Z\\{])[a-zA-Z](?![a-zA-Z])")
#: The set of numbers that a clause names.
_NUMBER_SETS = {
    "natural": r"natural|positive integer|\\math(?:bb|bf) ?\{?(?:N|Z\}? ?\^ ?\{?\+)",
    "integer": r"integer|whole|\\math(?:bb|bf) ?\{?Z|\\in ?Z",
    "rational": r"rational|\\math(?:bb|bf) ?\{?Q|\\in ?Q",
    "complex": r"complex|\\math(?:bb|bf) ?\{?C|\\in ?C",
    "real": r"real|\\math(?:bb|bf) ?\{?R|\\in ?R",
}


class Claim(NamedTuple):
    """The claim of an answer, and the numbers that it holds for.

    value: the answer without its clause.
    domain: the set of numbers or the bound that the clause names; "" without one.
    """

    value: str
    domain: str


def without_clause(text: str) -> Claim:
    r"""An answer without the clause behind it that says where it holds.

    A clause behind an inequality is kept: it makes another set of it.

    >>> without_clause(r"k\pi, \quad k \in \mathbb{Z}")
    Claim(value='k\\pi', domain='integer')
    >>> without_clause(r"2x+1 \text{ for all } x").value, without_clause("x^2 where x = 3").value
    ('2x+1', 'x^2 where x = 3')
    """
    if len(text) > _MAX_STATEMENT:
        return Claim(text, "")

    plain = words(clean(text))
    for start in _CLAUSE_START.finditer(plain):
        value = plain[: start.start()].rstrip(" ,")
        clause = plain[start.start() :].lstrip(" ,")
        if clause.startswith("(") and clause.endswith(")"):
            clause = clause[1:-1].strip()
            clause = clause.removeprefix(",").strip()
        if value and _CLAUSE.fullmatch(clause) and not _NOT_ONE_VALUE.search(value):
            # "(2, \\infty), x \\in \\mathbb{Z}" are the integers of the interval.
            is_of_a_set = _BRACKETED_PAIR.search(value) and not _shared_letters(value, clause)
            return Claim(text, "") if is_of_a_set else Claim(value, _domain(clause))
    return Claim(text, "")


def _shared_letters(value: str, clause: str) -> set[str]:
    return set(_VARIABLE.findall(value)) & set(_VARIABLE.findall(clause))


def _domain(clause: str) -> str:
    bound = re.search(r"(?:\\(?:ge|le|ne)|[<>]) ?-?[0-9]+", clause)
    if bound:
        return bound[0].replace(" ", "")
    return next((name for name, sign in _NUMBER_SETS.items() if re.search(sign, clause)), "")


def words(text: str) -> str:
    r"""`text` with each \text{...} replaced by what it holds.

    >>> words(r"5\text{ cm}")
    '5 cm'
    """
    return re.sub(r"\s+", " ", _TEXT.sub(r" \1 ", text)).strip()


def mark_text(text: str) -> str:
    r"""`text` with each \text{...} as \u00ab...\u00bb: what the author says is a word.

    One that holds digits is taken as if it were no text.
    """

    def marked(match: re.Match[str]) -> str:
        content = match[1]
        holds_digits = any(character.isdigit() for character in content)
        return f" {content} " if holds_digits else f" \u00ab{content}\u00bb"

    return _TEXT.sub(marked, text)
