r"""Normalising: notation that means the same is brought to one form.

`clean` does it for LaTeX spaces, \left, \dfrac, Unicode and what stands around an answer.
`statement` takes away the sentence that may stand around a value, `words` and `mark_text` open
\text{}. Nothing here knows what an expression is worth; all takes time linear in the text.
"""

import re

from podsgrading.extract import DELIMITERS

_SIGNS = "\u00d7\u22c5\u00b7\u03c0\u221e\u2264\u2265\u2260\u222a\u2205\u2208\u00b1\u00b0\u03b8"
_SIGN_NAMES = r"\times \cdot \cdot \pi \infty \le \ge \ne \cup \emptyset \in \pm ^\circ \theta"
#: Signs, full-width characters, minus signs and dashes, the commonest one-character fractions.
_CHARACTERS = {ord(s): f"{name} " for s, name in zip(_SIGNS, _SIGN_NAMES.split(), strict=True)}
_CHARACTERS |= {0xFF01 + i: chr(0x21 + i) for i in range(94)}
_CHARACTERS |= {0xBD: " 1/2", 0xBC: " 1/4", 0xBE: " 3/4", 0x2153: " 1/3", 0x2154: " 2/3"}
_CHARACTERS |= {0xB2: "^2", 0xB3: "^3", 0x221A: "\\sqrt"}
_CHARACTERS |= dict.fromkeys([0x200B, 0x2060, 0xFEFF], "")  # without a width
_CHARACTERS |= dict.fromkeys([0xA0, 0x202F, 0x2009], " ")
_CHARACTERS |= dict.fromkeys([0x2212, 0x2013, 0x2014, 0xFE63], "-")
_CHARACTERS |= dict.fromkeys([0x2044, 0x2215, 0xF7], "/")
_CHARACTERS |= dict.fromkeys([0x2032, 0x2019], "'")
#: $...$ within a text, but not "$5 and $6"; the other signs of LaTeX's mathematics.
_DOLLARS = re.compile(r"(?<!\\)(\$\$?)(?=\S)((?:\\\$|[^$])*)(?<=[^\s\\])\1")
_MATHEMATICS = re.compile(r"(?<!\\)\\[()\[\]]")
#: A longer text is no short sentence around a value.
_MAX_STATEMENT = 200
_SIZES = re.compile(
    r"\\(?:left|right|mleft|mright|[bB]igg?[lr]?|displaystyle|limits|mathstrut)(?![a-zA-Z])"
)
_SPACES = re.compile(
    r"(?<!\\)\\[,;:!> ]\s*|~|\\(?:quad|qquad|enspace|thinspace|hspace\*?\{[^{}]*\})"
)
_FONTS = re.compile(
    r"\\(?:mathrm|mathbf|mathit|mathsf|mathnormal|boldsymbol|bm|operatorname|ensuremath)\s?"
    r"\{([^{}]*)\}"
)
_TEXT = re.compile(r"\\(?:text|mbox|hbox|textrm|textbf|textit|textnormal|emph)\s?\{([^{}]*)\}")
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
_SYNONYM = [(re.compile(pattern), new) for pattern, new in _SYNONYMS.items()]
_FRACTION_ARGUMENTS = re.compile(r"\\frac\s*(?![a-zA-Z{\s])(\w)")
_LETTER_ARGUMENT = re.compile(r"\\frac\s+([a-zA-Z])(?=\s*[{0-9a-zA-Z\\])")
_SECOND_ARGUMENT = re.compile(r"(\\frac\s*\{[^{}]*\})\s*(?![\s{])([0-9a-zA-Z])")
_ROOT_ARGUMENT = re.compile(r"\\sqrt\s*([0-9]+|[a-zA-Z])")


def clean(text: str) -> str:
    r"""`text` with one spelling for what is written in many ways; \text{...} is kept.

    >>> clean(r"$\left(\dfrac12,\ 10{,}000\right)$.")
    '(\\frac{1}{2}, 10,000)'
    """
    text = text.translate(_CHARACTERS).strip().rstrip(".").strip()
    for opening, closing in DELIMITERS:
        inside = text[len(opening) : -len(closing)]
        only = inside and opening not in inside.replace("\\$", "")
        if only and text.startswith(opening) and text.endswith(closing):
            text = inside.strip().rstrip(".").strip()
    text = _SIZES.sub("", _DOLLARS.sub(r"\2", _MATHEMATICS.sub("", text)))
    text = re.sub(r"(?<=[0-9]),\\!\s*(?=[0-9]{3})", ",", text).replace("\\!", "")
    text = _SPACES.sub(" ", text)
    for pattern, new in _SYNONYM:
        text = pattern.sub(new, text)
    text = _FONTS.sub(r"\1", text)
    text = _FRACTION_ARGUMENTS.sub(r"\\frac{\1}", text)
    text = _LETTER_ARGUMENT.sub(r"\\frac{\1}", text)
    text = _SECOND_ARGUMENT.sub(r"\1{\2}", text)
    text = _ROOT_ARGUMENT.sub(r"\\sqrt{\1}", text)
    return re.sub(r"\s+", " ", text).strip()


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
_LETTER = re.compile(r"(?<![\w\\])[b-zB-HJ-Z](?:\([a-z]\))?(?![\w'])")


def statement(text: str) -> str | None:
    r"""The value in one short sentence, "the ... is VALUE"; None for what is no such sentence.

    The sentence may begin with "so" or "thus". One that doubts, denies or compares is none.

    >>> statement(r"So the area is $12\pi$ square units."), statement("The value of $x$ is 5.")
    ('12\\pi square units', 'x = 5')
    >>> statement("I doubt that it is 5"), statement("The answer is not given"), statement("5")
    (None, 'not given', None)
    """
    plain = words(clean(text))
    match = _STATEMENT.fullmatch(plain) if len(plain) <= _MAX_STATEMENT else None
    if match is None or match["value"] == plain or _DOUBTS.search(match["subject"] or ""):
        return None
    value, names = match["value"], _LETTER.findall(match["subject"] or "")
    of_one = len(names) == 1 and not re.search(r"[=<>,;]|\b(?:and|or)\b", value)
    return f"{names[0]} = {value}" if of_one else value


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
    return _TEXT.sub(
        lambda m: f" {m[1]} " if any(c.isdigit() for c in m[1]) else f" \u00ab{m[1]}\u00bb", text
    )
