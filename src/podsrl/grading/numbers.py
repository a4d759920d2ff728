"""The number that a short answer states, exactly: no floats, no evaluation, linear time."""

import re
from fractions import Fraction

#: A longer answer states no number: it is a text.
MAX_LENGTH = 200

#: Full-width characters, the minus signs and dashes, and the commonest one-character fractions.
_TRANSLATE: dict[int, int | str] = {0xFF01 + i: 0x21 + i for i in range(94)}
_TRANSLATE |= {0x2212: "-", 0x2013: "-", 0x2014: "-", 0x2044: "/"}
_TRANSLATE |= {0xBD: " 1/2", 0xBC: " 1/4", 0xBE: " 3/4", 0x2153: " 1/3", 0x2154: " 2/3"}
_LATEX_SPACE = re.compile(r"\\[,!;: ]|~|\\q?quad\b")
_WRAPPER = re.compile(r"\\(?:text|mbox|mathrm|mathbf|textbf|boldsymbol)\s?\{([^{}]*)\}")
_FRACTION = re.compile(r"\\[dtc]?frac\s?\{(-?[0-9]+)\}\s?\{([0-9]+)\}")

_DIGITS = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})+(?![0-9])|[0-9]+)"
)
_NUMBER = re.compile(
    rf"(?P<sign>(?<![\w)\]}}.])-\s?)?(?P<currency>[$€£¥]\s?)?(?P<sign2>-)?"
    rf"(?:(?P<whole>{_DIGITS})(?P<decimals>\.[0-9]+)?|(?<![0-9])(?P<bare>\.[0-9]+))"
    rf"(?:\s?/\s?(?P<denominator>[0-9]+)|\s+(?P<top>[0-9]+)\s?/\s?(?P<bottom>[0-9]+))?"
)
_MAGNITUDES = {
    "k": 10**3,
    "dozen": 12,
    "dozens": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_MAGNITUDE = re.compile(rf"\s?({'|'.join(_MAGNITUDES)})\b", re.IGNORECASE)
#: Beside the number only words may stand: units, names, "dollars per day".
_WORDS = re.compile(r"[^\W\d_]+(?:['\u2019.\-/][^\W\d_]+)*", re.UNICODE)
_LOOSE = re.compile(r"[\s.,:;!?*'\"\u201c\u201d\u2019()\[\]°$€£¥%#]")
_CHANGES_IT = re.compile(
    r"\b(?:not|never|minus|negative|cannot|half|halves|quarters?|thirds?|plus|times|squared|cubed"
    r"|n[eo]ither|nor|[a-z]+n['\u2019]t)\b"
    r"|\b(?:at (?:least|most)|(?:more|less|fewer|greater|larger|smaller|higher|lower) than|over"
    r"|under|above|below|up to|between|almost|nearly)\s*[-$€£¥]?\s*@",
    re.IGNORECASE,
)


def plain(text: str) -> str:
    r"""`text` without the LaTeX that changes no number: spaces, dollar signs, \text{}, degrees.

    >>> plain(r"$\$10,\!080\text{ dollars}$")
    '$10,080 dollars'
    """
    text = text.translate(_TRANSLATE).strip().strip("*").strip()
    text = text.replace("{,}", ",").replace("\\!", "")
    for opening, closing in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")):
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) * 2 - 1:
            text = text[len(opening) : -len(closing)].strip()
            break
    text = _LATEX_SPACE.sub(" ", text.replace("\\$", "$").replace("\\%", "%"))
    text = re.sub(r"\^\s?\{?\\circ\}?|\\degree", "°", text)
    text = _FRACTION.sub(r" \1/\2", _WRAPPER.sub(r"\1", text))
    return re.sub(r"(?<=[0-9],) (?=[0-9]{3})", "", text).strip()


def stated_number(text: str) -> Fraction | None:
    r"""The one number that a short answer states, whatever words stand around it.

    It reads thousands separators, decimals, fractions, mixed numbers, currency, percent signs
    (50% is 50), magnitude words (2 million), LaTeX wrappers, and units; of an equation it takes
    what follows the last "=". None when the text states no number, several different ones, or
    something that is not just a number with words (an expression, "at least 5", "not 5").

    >>> stated_number("$1,080.50 per day"), stated_number("x = 4/6")
    (Fraction(2161, 2), Fraction(2, 3))
    >>> stated_number("5 or 6"), stated_number("2^5"), stated_number("5 + x")
    (None, None, None)
    """
    if len(text) > MAX_LENGTH:
        return None
    text = plain(text).rpartition("=")[2].strip()
    if any(char.isnumeric() and not char.isascii() for char in text):
        return None  # a superscript, or digits of another script
    values = set()
    rest, position = [], 0
    for match in _NUMBER.finditer(text):
        before = text[match.start() - 1 : match.start()]
        value = _value(match)
        if value is None or before.isalnum() or before in ("_", "^", "."):
            return None
        end = match.end()
        if magnitude := _MAGNITUDE.match(text, end):
            value *= _MAGNITUDES[magnitude.group(1).lower()]
            end = magnitude.end()
        values.add(value)
        rest.append(text[position : match.start()])
        position = end
    rest.append(text[position:])
    if len(values) != 1 or len(rest) > 3 or not _only_words(rest):
        return None
    return values.pop()


def _value(match: re.Match[str]) -> Fraction | None:
    whole = re.sub(r"[^0-9]", "", match["whole"] or "0")
    value = Fraction(whole + (match["decimals"] or match["bare"] or ""))
    if match["top"]:
        if match["decimals"] or match["bare"] or int(match["bottom"]) == 0:
            return None
        value += Fraction(int(match["top"]), int(match["bottom"]))
    elif match["denominator"]:
        if int(match["denominator"]) == 0:
            return None
        value /= int(match["denominator"])
    negative = (match["sign"] is not None) != (match["sign2"] is not None)
    return -value if negative else value


def _only_words(parts: list[str]) -> bool:
    if _CHANGES_IT.search("@".join(parts)):
        return False
    for part in parts:
        words = _WORDS.findall(part)
        if any(len(word) == 1 and word in "xyznXYZN" for word in words):
            return False
        if _LOOSE.sub("", _WORDS.sub("", part)) not in ("", "-", "/"):
            return False
        if re.search(r"(?:^|\s)[-/](?:\s|$)", part):
            return False
    return True
