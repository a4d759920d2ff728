r"""Normalising: notation that means the same is brought to one form.

`clean` does it for LaTeX spaces, \left, \dfrac, Unicode and what stands around an answer.
`statement` takes away the sentence that may stand around a value, `words` and `mark_text` open
\text{}. Nothing here knows what an expression is worth; all takes time linear in the text.
"""

import re

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

# LaTeX takes arguments without braces: \frac12, \frac a b, \frac{1}2, \sqrt2.
_FRACTION_ARGUMENTS = re.compile(r"\\frac\s*(?![a-zA-Z{\s])(\w)")
_LETTER_ARGUMENT = re.compile(r"\\frac\s+([a-zA-Z])(?=\s*[{0-9a-zA-Z\\])")
_SECOND_ARGUMENT = re.compile(r"(\\frac\s*\{[^{}]*\})\s*(?![\s{])([0-9a-zA-Z])")
_ROOT_ARGUMENT = re.compile(r"\\sqrt\s*([0-9]+|[a-zA-Z])")


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

    for pattern, new in _COMPILED_SYNONYMS:
        text = pattern.sub(new, text)
    text = _FONTS.sub(r"\1", text)

    text = _FRACTION_ARGUMENTS.sub(r"\\frac{\1}", text)
    text = _LETTER_ARGUMENT.sub(r"\\frac{\1}", text)
    text = _SECOND_ARGUMENT.sub(r"\1{\2}", text)
    text = _ROOT_ARGUMENT.sub(r"\\sqrt{\1}", text)
    return re.sub(r"\s+", " ", text).strip()


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
