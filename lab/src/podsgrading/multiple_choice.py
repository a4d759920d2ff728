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
    text = words(clean(answer)).strip(" \"'\u201c\u201d")
    quoted = [label for label, option in zip(labels, texts, strict=False) if _same(option, answer)]
    if len(quoted) == 1 and answer.strip().upper() not in ("", *labels):
        return quoted[0]
    match = re.fullmatch(
        rf"{_LEADS}\s*[(\[]?\s?\**(?P<label>[{labels}{labels.lower()}])\**\s?[)\].:]?\**"
        r"(?:(?:[\s.:,)]|-(?=\s))+(?P<rest>.*))?",  # a minus belongs to what follows
        text,
        re.IGNORECASE | re.DOTALL,
    )
    if match is None:
        return None
    label, rest = match["label"].upper(), (match["rest"] or "").strip()
    if not rest:
        return label
    index = labels.index(label)
    return label if index < len(texts) and _same(texts[index], rest) else None


def _same(option: str, text: str) -> bool:
    # no more is cut off: an option may be a molecule's SMILES
    first, second = (" ".join(one.split()).strip(" .\"'`$") for one in (option, text))
    return first == second
