"""The option that an answer to a multiple-choice question picks."""

import re
from collections.abc import Sequence

from podsgrading.math.normalise import clean, words

_LEADS = (
    r"(?:the\s)?(?:(?:correct|right|final|best)\s)?(?:answer|option|choice|letter)?"
    r"(?:\s?(?:is|:))?(?:\s(?:option|choice|letter))?"
)


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
