r"""Where a completion takes its answer back: "Actually no, the answer is 8."

A sentence takes it back if it denies the answer in words of the first person ("I made a mistake"),
or if it doubts ("wait", "actually", "no,") and states another answer. What looks like it and is
none must be left alone, for a right answer would be refused: a check that ends with the same value,
a mistake that others make, a question, an "if". Every step takes time linear in the text.
"""

import re
from typing import NamedTuple

#: How many sentences after a doubt may state the new answer.
_SENTENCES_OF_DOUBT = 3
#: A longer sentence is no short correction, and is passed over.
_MAX_SENTENCE = 400
#: Words of two letters or more that a value may have beside it: "8 red apples".
_MAX_WORDS = 3

_SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")
_AROUND = " \t.,;:*$)(\\]}_`-\u2014"

#: The text goes on with another question, as base models do: the rest is not about this answer.
_NEXT_QUESTION = re.compile(
    r"^[#*\s]{0,9}(?:human|user|question|problem|exercise|example|q)\b"
    r"[ \t]?[0-9]{0,4}[*\s]{0,9}[:.]|<\|",
    re.IGNORECASE | re.MULTILINE,
)

# A sentence that begins so doubts what was said before.
_FILLER = r"(?:(?:oh|ah|um|so|and|but|ok|okay|well|hmm+)\b[\s,.!\u2026-]{0,9}){0,4}"
_HESITATION = r"(?:(?:actually|wait|sorry|hold on|hmm+|no|oops)[\s,.!\u2026-]{1,9})"
_DENIAL = re.compile(
    rf"{_FILLER}{_HESITATION}{{0,3}}"
    r"(?:no(?=[,.;:!\u2014-]|$|\s(?:wait|sorry|it(?:'s| is)|the (?:\w+ )?answer))"
    r"|nope\b|correction\b|scratch that\b|i (?:meant|misread|miscounted|miscalculated)\b|oops\b"
    r"|my (?:bad|mistake)\b|(?:sorry|apologies)(?=[,.!]|$)|i apologi[sz]e\b"
    r"|on second thoughts?\b|let me correct\b)",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    rf"{_FILLER}(?:(?:actually|wait|hold on|hmm+|no(?=[,.;:!\u2014-]|$))\b"
    r"|let me (?:re-?check|double|fix|redo|re-?consider)\b)",
    re.IGNORECASE,
)
#: A doubt, and "that is wrong". Without the doubt, "that" may be a value that is tried and refused.
_IS_WRONG = re.compile(
    rf"{_FILLER}(?P<doubt>{_HESITATION}{{0,3}})(?:that|this|it)(?:'s| is| was)"
    r" (?:wrong|incorrect|not (?:right|correct)|a mistake)\b",
    re.IGNORECASE,
)
_BARE_HESITATION = re.compile(rf"{_FILLER}{_HESITATION}{{1,3}}", re.IGNORECASE)
#: What leaves no answer, among those beginnings.
_TAKES_BACK = re.compile(r"scratch|mis(?:read|count|calc)|my (?:bad|mistake)", re.IGNORECASE)
#: What denies the answer wherever it stands in a sentence.
_ADMISSION = re.compile(
    r"\bi(?: have|'ve)? made (?:a|an|some) (?:\w+ ){0,2}(?:mistake|error)s?\b"
    r"|\bi was (?:wrong|mistaken)\b"
    r"|\b(?:my|the|this|that) (?:(?:above|previous|earlier|first|boxed|final) ){0,2}answer"
    r"(?: above| in the box)? (?:is|was) (?:wrong|incorrect|mistaken|not (?:right|correct))\b",
    re.IGNORECASE,
)
#: A sentence with one of these says what is not, or what others say.
_HYPOTHETICAL = re.compile(
    r"\b(?:if|unless|would|could|might|may|some|someone|people|others|common|students?|suppose"
    r"|one can|whether)\b|\?\s*$",
    re.IGNORECASE,
)
_CONFIRMS = re.compile(
    r"\b(?:correct|right|same|unchanged|stands|confirmed|verified|valid|holds|fine|consistent)\b",
    re.IGNORECASE,
)

# A sentence that states an answer.
_ANSWER_IS = re.compile(
    r"\b(?:answer|final result|(?:correct|right|best|final) (?:option|choice|value))\b"
    r"(?: \w+){0,4}? ?(?:\bis\b|=|:|\bequals\b|\b(?:should|must|has to) be\b)[\s:]{0,9}(.+)",
    re.IGNORECASE,
)
_IT_IS = re.compile(
    r"(?:\b(?:it|that|this)(?:'s|\s(?:is|should be|must be|equals))|\bi meant"
    r"|\bmake (?:it|that))\s(.+)",
    re.IGNORECASE,
)
_IS_THE_ANSWER = re.compile(
    r"(?:.*[\s,])?(\S{1,60}) (?:is|should be) (?:the )?(?:(?:correct|right|final|actual) ){0,2}"
    r"(?:answer|correct|right)\b",
    re.IGNORECASE,
)
#: Where a value ends and its reason begins.
_REASON = re.compile(
    r",\s|;|\s(?:because|since|as|which|so|not|instead|rather|for|when|and not|from|by|after|in"
    r" total)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{2,}")
_LETTER = re.compile(r"(?:(?:option|choice) )?\(?[a-zA-Z]\)?", re.IGNORECASE)
_LATEX_TEXT = re.compile(r"\\[a-zA-Z]+(?:\{[^{}]{0,99}\})?")
_ADVERBS = re.compile(
    r"(?:(?:indeed|actually|really|simply|just|exactly|therefore|thus|in fact|still|equal to)"
    r"[\s,]{1,3}){0,3}",
    re.IGNORECASE,
)


class Retraction(NamedTuple):
    """An answer that is taken back, and the one in its place; None where none is stated."""

    answer: str | None


def find_retraction(text: str) -> Retraction | None:
    """The last retraction in what follows an answer; None if the answer stands.

    >>> find_retraction(". Actually no, the answer is 8.")
    Retraction(answer='8')
    >>> find_retraction(". Wait, I made a mistake.")
    Retraction(answer=None)
    >>> find_retraction(". A common mistake is to say that the answer is 8.")
    """
    next_question = _NEXT_QUESTION.search(text)
    if next_question:
        text = text[: next_question.start()]

    found: Retraction | None = None
    sentences_left = 0
    is_denied = False
    sentence_before = ""

    for raw in _SENTENCE_BREAK.split(text):
        sentence = raw.replace("\u2019", "'").strip(" \t*$_`()[]\\.,;:-\u2014")
        if not sentence:
            continue
        is_reply = sentence_before.endswith("?")  # "Is there another? No."
        is_hesitation_before = _BARE_HESITATION.fullmatch(sentence_before) is not None
        sentence_before = raw.strip()
        sentences_left -= 1
        if len(sentence) > _MAX_SENTENCE or _HYPOTHETICAL.search(raw):
            continue

        denial = None if is_reply else _DENIAL.match(sentence)
        wrong = _IS_WRONG.match(sentence)
        admission = _ADMISSION.search(sentence) or (
            wrong and (wrong["doubt"] or is_hesitation_before) and not is_reply
        )
        if denial or admission:
            is_denied = True
            sentences_left = _SENTENCES_OF_DOUBT
        elif _DOUBT.match(sentence):
            is_denied = is_denied and sentences_left > 0
            sentences_left = _SENTENCES_OF_DOUBT
        if sentences_left <= 0:
            continue

        answer = _restated(sentence, denial, is_denied=is_denied)
        if answer is not None:
            found = Retraction(answer)
        elif admission or (denial and _TAKES_BACK.search(denial[0])):
            found = Retraction(None)
        elif found == Retraction(None) and _CONFIRMS.search(sentence) and not denial:
            found = None

    return found


def _restated(sentence: str, denial: re.Match[str] | None, *, is_denied: bool) -> str | None:
    """The answer that a doubting sentence states; None if it states none."""
    if match := _ANSWER_IS.search(sentence):
        return _value(match[1], words=is_denied)
    if match := _IS_THE_ANSWER.match(sentence):
        return _value(match[1], words=False)
    if not is_denied:
        # "Actually, it is 3 groups of 4" explains; "actually, it is 8" corrects.
        match = _IT_IS.search(sentence)
        is_alone = match and not _WORD.search(_LATEX_TEXT.sub("", match[1]))
        return _value(match[1], words=False) if match and is_alone else None
    if match := _IT_IS.search(sentence):
        return _value(match[1], words=False)
    if denial:
        return _value(sentence[denial.end() :], words=False)
    return None


def _value(text: str, *, words: bool) -> str | None:
    """The value at the beginning of `text`, without the reason behind it; None if there is none.

    words: a value may be a word or two without a digit, as "west" is.
    """
    text = text.strip(" *:,.;!-\u2014")
    adverbs = _ADVERBS.match(text)
    text = text[adverbs.end() :] if adverbs else text
    value = _REASON.split(text, maxsplit=1)[0].strip(" *.:!")
    if not value or re.match(r"not?\b", value, re.IGNORECASE) or _CONFIRMS.search(value):
        return None

    plain_words = _WORD.findall(_LATEX_TEXT.sub("", value))
    is_mathematical = re.search(r"[0-9$\\]", value) or _LETTER.fullmatch(value)
    if is_mathematical:
        return value if len(plain_words) <= _MAX_WORDS else None
    return value if words and len(plain_words) <= _MAX_WORDS - 1 else None
