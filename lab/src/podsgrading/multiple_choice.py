"""The option that an answer to a multiple-choice question picks."""

import re
from collections.abc import Sequence

from podsgrading.extract import declarations
from podsgrading.math.normalise import clean, words

_LEADS = (
    r"(?:the\s)?(?:(?:correct|right|final|best)\s)?(?:answer|option|choice|letter)?"
    r"(?:\s?(?:is|:))?(?:\s(?:option|choice|letter))?"
)

#: What stands between the labels of an answer that names several, or denies one.
_BETWEEN_LABELS = re.compile(
    r"[\s().,;:/&*]|\b(?:and|or|both|either|n[eo]ither|nor|not|only|options?|choices?|the|is|isn't)\b",
    re.IGNORECASE,
)


def declared_choice(
    completion: str, labels: str = "ABCDEFGHIJ", texts: Sequence[str] = ()
) -> str | None:
    r"""The choice that a completion declares, as it stands; None if it declares none.

    A box that names no option is passed over, for "Answer: D" beside it. One that names several,
    or denies one, is not: it is the answer, and a wrong one.

    >>> declared_choice(r"\boxed{E < 0}. **Answer: D**")
    'D'
    >>> declared_choice(r"\boxed{A or D}. **Answer: D**")
    'A or D'
    """
    answers = declarations(completion)
    for answer in answers:
        if read_choice(answer, labels, texts) or _names_options(answer, labels):
            return answer
    return answers[0] if answers else None


def _names_options(answer: str, labels: str) -> bool:
    """Is the answer about options by their labels, whatever it says of them?"""
    text = words(clean(answer))
    if re.match(rf"\(?[{labels}][).:]", text):
        return True  # "B) 4.2", whose text is another option's

    without_labels = re.sub(rf"(?<![a-zA-Z])[{labels}](?![a-zA-Z])", "", text)
    return without_labels != text and not _BETWEEN_LABELS.sub("", without_labels)


def is_letter(gold: str) -> bool:
    r"""Is a gold answer one letter, as that of an option?

    >>> is_letter(r"\text{(C)}"), is_letter("C"), is_letter("x")
    (True, True, False)
    """
    return re.fullmatch(r"\(?[A-J]\)?", words(clean(gold)).strip()) is not None


def read_choice(answer: str, labels: str = "ABCDEFGHIJ", texts: Sequence[str] = ()) -> str | None:
    """The label that an answer picks, or None: none, several, or something else.

    Args:
        answer: what a completion declares: "B", "(B)", "b.", "Option B", "B) 4.2", "4.2".
        labels: the labels there are, one letter each.
        texts: what the options say, in the order of the labels; an answer may quote one. One that
            states both must be consistent.

    >>> read_choice("(B)"), read_choice("The answer is C."), read_choice("A or B")
    ('B', 'C', None)
    >>> read_choice("B) 4.2", "ABCD", ["1", "4.2", "4", "2"]), read_choice("B) 1", "AB", ["1", "2"])
    ('B', None)
    """
    options = dict(zip(labels, texts, strict=False))

    # An answer that quotes one option. "A" is a label, even where an option's text is "A".
    quoted = [label for label, option in options.items() if _same(option, answer)]
    if len(quoted) == 1 and answer.strip().upper() not in ("", *labels):
        return quoted[0]

    text = words(clean(answer)).strip(" \"'\u201c\u201d")
    match = re.fullmatch(
        rf"{_LEADS}\s*[(\[]?\s?\**(?P<label>[{labels}{labels.lower()}])\**\s?[)\].:]?\**"
        r"(?:(?:[\s.:,)]|-(?=\s))+(?P<rest>.*))?",  # a minus belongs to what follows
        text,
        re.IGNORECASE | re.DOTALL,
    )
    if match is None:
        return None

    label = match["label"].upper()
    rest = (match["rest"] or "").strip()
    if not rest:
        return label
    is_consistent = label in options and _same(options[label], rest)
    return label if is_consistent else None


def _same(option: str, text: str) -> bool:
    """Whether the two are one text, except for white space and what stands around it."""
    return _trimmed(option) == _trimmed(text)


def _trimmed(text: str) -> str:
    # Brackets and other signs stay: an option may be a molecule's SMILES.
    return " ".join(text.split()).strip(" .\"'`$")
