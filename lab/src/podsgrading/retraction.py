r"""Where a completion takes its answer back: "Actually no, the answer is 8."

What follows an answer is read sentence by sentence, and each sentence does one of four things:

* it *denies* the answer: "no, it is 8", "I made a mistake", "wait, that is wrong";
* it *doubts* it: "wait, let me check", "actually, ...";
* it *confirms* it: "the answer is correct";
* it says something else, as nearly all do.

A denial takes the answer back, if it says so by itself ("I made a mistake") or states another one.
A doubt takes it back only if another answer is stated, within `_SENTENCES_OF_DOUBT` sentences. The
same answer, stated again, comes back as the one in its place, and is graded as it was.

What looks like a retraction and is none must be left alone, for a right answer would be refused. So
a sentence that says "if" or "some would say", a question, and a reply to one do nothing. Nor does
"it is 3 + 5" where the answer is 8: that explains it. The words that count are the tables below,
and no others. Every step takes time linear in the text.
"""

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

#: How many sentences, the doubting one included, may state the new answer.
_SENTENCES_OF_DOUBT = 3
#: A longer sentence is no short correction, and is passed over.
_MAX_SENTENCE = 400
#: Words of two letters or more that a value may have beside it: "8 red apples".
_MAX_WORDS = 3


def _words(*phrases: str) -> str:
    """A pattern of any of some phrases."""
    return f"(?:{'|'.join(phrases)})"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


# ---- the words that count

#: What may stand before any of them: "Oh, well, ...".
_FILLERS = (
    rf"(?:{_words('oh', 'ah', 'um', 'so', 'and', 'but', 'ok', 'okay', 'well', 'hmm+')}"
    r"\b[\s,.!\u2026-]{0,9}){0,4}"
)
#: Words that stop what was said. By themselves they deny nothing: "Wait. Let me check."
_HESITATIONS = (
    rf"(?:{_words('actually', 'wait', 'sorry', 'hold on', 'hmm+', 'no', 'oops')}"
    r"[\s,.!\u2026-]{1,9})"
)
#: A "no" that stands alone, and not "no other solution exists".
_NO = r"no(?=[,.;:!\u2014-]|$)"

#: A sentence that begins so denies the answer, and has to state another one.
_DENIES = _pattern(
    rf"{_FILLERS}{_HESITATIONS}{{0,3}}"
    + _words(
        _NO,
        r"no(?=\s(?:wait|sorry|it(?:'s| is)|the (?:\w+ )?answer))",
        r"nope\b",
        r"oops\b",
        r"correction\b",
        r"i meant\b",
        r"(?:sorry|apologies)(?=[,.!]|$)",
        r"i apologi[sz]e\b",
        r"on second thoughts?\b",
        r"let me correct\b",
    )
)
#: One that begins so denies it, whether it states another one or not.
_TAKES_BACK = _pattern(
    rf"{_FILLERS}{_HESITATIONS}{{0,3}}"
    + _words(
        r"scratch that\b",
        r"i (?:misread|miscounted|miscalculated)\b",
        r"my (?:bad|mistake)\b",
    )
)
#: So does one that says this anywhere.
_ADMITS = _pattern(
    _words(
        r"\bi(?: have|'ve)? made (?:a|an|some) (?:\w+ ){0,2}(?:mistake|error)s?\b",
        r"\bi was (?:wrong|mistaken)\b",
        r"\b(?:my|the|this|that) (?:(?:above|previous|earlier|first|boxed|final) ){0,2}answer"
        r"(?: above| in the box)? (?:is|was) (?:wrong|incorrect|mistaken|not (?:right|correct))\b",
    )
)
#: And one that says "that is wrong" after a hesitation. Without it, "that" may be a value that was
#: tried and refused: "Check 8: we get 5 = 6. That is wrong."
_IS_WRONG = _pattern(
    rf"{_FILLERS}(?P<hesitation>{_HESITATIONS}{{0,3}})(?:that|this|it)(?:'s| is| was)"
    r" (?:wrong|incorrect|not (?:right|correct)|a mistake)\b"
)
_HESITATES = _pattern(rf"{_FILLERS}{_HESITATIONS}{{1,3}}")

#: A sentence that begins so doubts the answer.
_DOUBTS = _pattern(
    _FILLERS
    + _words(
        r"(?:actually|wait|hold on|hmm+)\b",
        rf"{_NO}\b",
        r"let me (?:re-?check|double|fix|redo|re-?consider)\b",
    )
)
#: One that says this confirms it, or what was in doubt.
CONFIRMATIONS = (
    "correct",
    "right",
    "same",
    "unchanged",
    "stands",
    "confirmed",
    "verified",
    "valid",
    "holds",
    "fine",
    "consistent",
)
_CONFIRMS = _pattern(rf"\b{_words(*CONFIRMATIONS)}\b")
#: One with these says what is not, or what others say: it does nothing.
_SUPPOSES = _pattern(
    r"\b"
    + _words(
        "if",
        "unless",
        "would",
        "could",
        "might",
        "may",
        "some",
        "someone",
        "people",
        "others",
        "common",
        "students?",
        "suppose",
        "one can",
        "whether",
    )
    + r"\b"
)
#: The text goes on with another question, as base models do: the rest is not about this answer.
_NEXT_QUESTION = re.compile(
    r"^[#*\s]{0,9}(?:human|user|question|problem|exercise|example|q)\b"
    r"[ \t]?[0-9]{0,4}[*\s]{0,9}[:.]|<\|",
    re.IGNORECASE | re.MULTILINE,
)

# ---- the ways to state another answer

#: "the answer is 8", "the correct value = 8"
_ANSWER_IS = _pattern(
    r"\b(?:answer|final result|(?:correct|right|best|final) (?:option|choice|value))\b"
    r"(?: \w+){0,4}? ?(?:\bis\b|=|:|\bequals\b|\b(?:should|must|has to) be\b)[\s:]{0,9}(.+)"
)
#: "8 is the correct answer"
_IS_THE_ANSWER = _pattern(
    r"(?:.*[\s,])?(\S{1,60}) (?:is|should be) (?:the )?(?:(?:correct|right|final|actual) ){0,2}"
    r"answer\b"
)
#: "8 is correct". In a check, it may be said of any value: "2*4 = 8, so 4 is right".
_IS_RIGHT = _pattern(r"(?:.*[\s,])?(\S{1,60}) (?:is|should be) (?:correct|right)\b")
#: "it is 8", "I meant 8"
_IT_IS = _pattern(
    r"(?:\b(?:it|that|this)(?:'s|\s(?:is|should be|must be|equals))|\bi meant"
    r"|\bmake (?:it|that))\s(.+)"
)

# ---- the parts of a value

#: What may stand before it: "the answer is indeed 7".
_ADVERBS = _pattern(
    r"(?:"
    + _words(
        "indeed",
        "actually",
        "really",
        "simply",
        "just",
        "exactly",
        "therefore",
        "thus",
        "in fact",
        "still",
        "equal to",
    )
    + r"[\s,]{1,3}){0,3}"
)
#: Where it ends and its reason begins.
_REASON = _pattern(
    r",\s|;|\s"
    + _words(
        "because",
        "since",
        "as",
        "which",
        "so",
        "not",
        "instead",
        "rather",
        "for",
        "when",
        "and not",
        "from",
        "by",
        "after",
        "in total",
    )
    + r"\b"
)
_NOT = _pattern(r"not?\b")
_MATHEMATICS = re.compile(r"[0-9$\\]")
_LETTER = _pattern(r"(?:(?:option|choice) )?\(?[a-z]\)?")
_LATEX_TEXT = re.compile(r"\\[a-zA-Z]+(?:\{[^{}]{0,99}\})?")
_WORD = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}")

_NUMBER = r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?"
_PRICE = rf"(?:\\?\$)?{_NUMBER}"
_PRODUCT = rf"{_PRICE}(?:\s?(?:\*|\\times|\\cdot|[x\u00d7\u00b7]|times)\s?{_PRICE})*"
_UNIT = r"%?(?:\s?\\text\{[^{}]*\}|\s[a-z]+){0,3}"
#: A number, or numbers that are to be added and multiplied, with their unit.
_NUMERAL = _pattern(rf"(?:[a-z]\s?=\s?)?([+-]?\s?{_PRODUCT}(?:\s?[+-]\s?{_PRODUCT})*){_UNIT}")
_TERM = _pattern(rf"([+-]?)\s?({_PRODUCT})")

_SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")
_AROUND = " \t*$_`()[]\\.,;:-\u2014"


class Retraction(NamedTuple):
    """An answer that is taken back, and the one in its place; None where none is stated."""

    answer: str | None


class _Sentence(NamedTuple):
    """A sentence of what follows an answer.

    Args:
        text: Without the signs around it.
        is_reply: Whether a question stands before it: "Is there another? No."
        is_hesitant: Whether nothing but a hesitation stands before it: "Hmm. That is wrong."
    """

    text: str
    is_reply: bool
    is_hesitant: bool

    @property
    def denial(self) -> re.Match[str] | None:
        """The beginning that denies the answer; None in a reply, or where nothing denies it."""
        if self.is_reply:
            return None
        return _TAKES_BACK.match(self.text) or _DENIES.match(self.text)

    @property
    def takes_back(self) -> bool:
        """Whether it takes the answer back without another one."""
        if _ADMITS.search(self.text) is not None:
            return True
        if self.is_reply:
            return False
        wrong = _IS_WRONG.match(self.text)
        says_so = wrong is not None and (bool(wrong["hesitation"]) or self.is_hesitant)
        return says_so or _TAKES_BACK.match(self.text) is not None

    @property
    def doubts(self) -> bool:
        """Whether it doubts the answer."""
        return _DOUBTS.match(self.text) is not None

    @property
    def confirms(self) -> bool:
        """Whether it confirms what was in doubt."""
        return self.denial is None and _CONFIRMS.search(self.text) is not None


def find_retraction(text: str, stated: str = "") -> Retraction | None:
    """The last retraction in what follows an answer; None if the answer stands.

    Args:
        text: What follows the answer.
        stated: The answer. A sum or product of its value explains it, and takes nothing back.

    >>> find_retraction(". Actually no, the answer is 8.")
    Retraction(answer='8')
    >>> find_retraction(". Wait, I made a mistake.")
    Retraction(answer=None)
    >>> find_retraction(". A common mistake is to say that the answer is 8.")
    >>> find_retraction(". No, nothing else is paid. It is 3 + 5.", "8")
    """
    found: Retraction | None = None
    sentences_left = 0  # in which another answer may be stated
    is_denied = False  # the answer was denied, and not doubted alone

    for sentence in _sentences(text):
        sentences_left -= 1
        if sentence.denial is not None or sentence.takes_back:
            is_denied = True
            sentences_left = _SENTENCES_OF_DOUBT
        elif sentence.doubts:
            is_denied = is_denied and sentences_left > 0
            sentences_left = _SENTENCES_OF_DOUBT
        if sentences_left <= 0:
            continue

        answer = _answer_after_denial(sentence) if is_denied else _answer_after_doubt(sentence)
        if answer is not None and not _explains(answer, stated):
            found = Retraction(answer)
        elif sentence.takes_back:
            found = Retraction(None)
        elif found == Retraction(None) and sentence.confirms:
            found = None

    return found


def _sentences(text: str) -> Iterator[_Sentence]:
    """The sentences that may be about the answer."""
    next_question = _NEXT_QUESTION.search(text)
    if next_question is not None:
        text = text[: next_question.start()]

    before = ""
    for raw in _SENTENCE_BREAK.split(text):
        said = raw.replace("\u2019", "'").strip(_AROUND)
        if not said:
            continue
        is_reply = before.endswith("?")
        is_hesitant = _HESITATES.fullmatch(before) is not None
        before = raw.strip()

        is_question = before.endswith("?")
        if is_question or len(said) > _MAX_SENTENCE or _SUPPOSES.search(raw):
            yield _Sentence("", is_reply, is_hesitant)  # it does nothing, and counts as one
        else:
            yield _Sentence(said, is_reply, is_hesitant)


def _answer_after_denial(sentence: _Sentence) -> str | None:
    """The answer that a sentence states in place of one that was denied; None if it states none."""
    text = sentence.text
    if match := _ANSWER_IS.search(text):
        return _value(match[1], may_be_words=True)
    if match := _IS_THE_ANSWER.match(text) or _IS_RIGHT.match(text) or _IT_IS.search(text):
        return _value(match[1])
    denial = sentence.denial
    return None if denial is None else _value(text[denial.end() :])


def _answer_after_doubt(sentence: _Sentence) -> str | None:
    """The answer that a sentence states while another one is in doubt; None if it states none.

    "Actually, it is 8" corrects; "actually, it is 3 groups of 4" and "it is 3 + 5" explain.
    """
    text = sentence.text
    if match := _ANSWER_IS.search(text) or _IS_THE_ANSWER.match(text):
        return _value(match[1])
    match = _IT_IS.search(text)
    if match is None or _plain_words(match[1]):
        return None

    value = _value(match[1])
    return None if value is None or _is_unworked(value) else value


def _value(text: str, *, may_be_words: bool = False) -> str | None:
    """The value at the beginning of `text`, without the reason behind it; None if there is none.

    Args:
        text: What follows "the answer is".
        may_be_words: Whether a word or two without a digit are a value, as "west" is.
    """
    text = text.strip(" *:,.;!-\u2014")
    adverbs = _ADVERBS.match(text)
    text = text[adverbs.end() :] if adverbs else text
    value = _REASON.split(text, maxsplit=1)[0].strip(" *.:!")
    if not value or _NOT.match(value) or _CONFIRMS.search(value):
        return None

    words = len(_plain_words(value))
    if _MATHEMATICS.search(value) or _LETTER.fullmatch(value):
        return value if words <= _MAX_WORDS else None
    return value if may_be_words and words < _MAX_WORDS else None


def _plain_words(text: str) -> list[str]:
    """The words of two letters or more that are no LaTeX."""
    return _WORD.findall(_LATEX_TEXT.sub("", text))


def _is_unworked(value: str) -> bool:
    """Whether a value is a sum or product of numbers, which explains and is no answer."""
    numeral = _numeral(value)
    return numeral is not None and len(re.findall(_NUMBER, numeral)) > 1


def _explains(value: str, stated: str) -> bool:
    """Whether a value is a sum or product that comes to the stated number."""
    number = _numeral(stated)
    total = _numeral(value)
    if number is None or total is None or not _is_unworked(value):
        return False
    return _sum(total) == _sum(number)


def _numeral(text: str) -> str | None:
    """The numbers of a short text that has nothing else beside a unit; None if it has."""
    if len(text) > _MAX_SENTENCE:
        return None
    match = _NUMERAL.fullmatch(text.strip(_AROUND.replace("-", "")))
    return match and match[1]


def _sum(numeral: str) -> Fraction:
    """The value of a `_numeral`."""
    total = Fraction(0)
    for sign, product in _TERM.findall(numeral):
        factors = [Fraction(number.replace(",", "")) for number in re.findall(_NUMBER, product)]
        total += Fraction(f"{sign}1") * math.prod(factors)
    return total
