r"""Comparing, second part: does an answer say what the gold answer says?

Two steps. `compare_quickly` reads numbers, words and identical notation in linear time, in this
process; it decides whenever the gold answer is a number or a word. Everything else is for
`equal_structures`, which calls sympy and belongs into a grading process.
"""

import re
from collections.abc import Sequence

from podsgrading.extract import MAX_ANSWER
from podsgrading.math.normalise import clean, statement, words
from podsgrading.math.numbers import read_number, same_number, states_number
from podsgrading.math.structure import (
    Node,
    UnreadableError,
    assigned_name,
    read_structure,
    stated_unit,
)
from podsgrading.multiple_choice import read_choice
from podsgrading.pool import GradingPool

_FUNCTION = "podsgrading.math.answers:equal_structures"
_LETTER = re.compile(r"\(?([A-Z])\)?")


def compare_quickly(gold: str, answer: str) -> bool | None:
    r"""True or False where that can be said in linear time, else None.

    >>> compare_quickly("1,000", r"\$1000.00"), compare_quickly("4", "2 + 2")
    (True, False)
    >>> compare_quickly(r"\text{Evelyn}", "evelyn"), compare_quickly(r"\sqrt{8}", r"2\sqrt{2}")
    (True, None)
    """
    verdict = _compare_quickly(gold, answer)
    value = None if verdict else statement(answer)
    return verdict if value is None else _compare_quickly(gold, value)


def _compare_quickly(gold: str, answer: str) -> bool | None:
    if not answer.strip() or len(answer) > MAX_ANSWER:
        return False
    number, text = read_number(gold), _as_words(gold)
    if number is not None and not (text and text[0].isalpha()):  # "June 20" is not 20
        return states_number(number, answer)
    if text is not None:
        if letter := _LETTER.fullmatch(text):
            return read_choice(answer) == letter[1]
        return _folded(words(clean(answer))) == _folded(text)
    return True if _spaceless(gold) == _spaceless(answer) else None


def grade_answers(pairs: Sequence[tuple[str, ...]], pool: GradingPool) -> list[bool | None]:
    """Grade (gold, answer[, question]): quick ones here, others in the pool; None: unscorable."""
    quick = [compare_quickly(*pair[:2]) for pair in pairs]
    open_pairs = [pair for pair, verdict in zip(pairs, quick, strict=True) if verdict is None]
    slow = iter(pool.run(_FUNCTION, open_pairs))
    return [verdict if verdict is not None else next(slow) for verdict in quick]


def equal_structures(gold: str, answer: str, question: str = "") -> bool:
    """Are the two equal, part by part? An answer that can't be read, or repeats, is wrong.

    Raises:
        UnreadableError: the gold answer can't be read (then nothing can be right or wrong).
    """
    wanted = read_structure(gold)
    _check_readable(wanted)
    try:
        answer = statement(answer) or answer
        given = read_structure(answer)
        units = {stated_unit(gold), stated_unit(answer)} - {""}
        if len(units) > 1:
            return False
        (name, value), (other_name, other_value) = _unassigned(wanted), _unassigned(given)
        if name and other_name and name != other_name:
            return _equal(wanted, given)
        equal = _equal(value, other_value) or _equal(wanted, given)
    except UnreadableError:
        return False
    if equal and given.kind == "relation" and _spaceless(answer) in _spaceless(question):
        return _spaceless(gold) in _spaceless(question)
    parts = [node.label for node in (value, other_value) if node.kind == "leaf"]
    if not (equal and question and len(parts) == 2) or any(map(read_number, parts)):
        return equal
    from podsgrading.math import repetition

    return not repetition.repeats(parts[0], parts[1], question)


def _check_readable(node: Node) -> None:
    from podsgrading.math import expressions

    if node.kind == "leaf" and read_number(node.label) is None:
        expressions.parse(node.label)
    for child in node.children:
        _check_readable(child)


def _unassigned(node: Node) -> tuple[str | None, Node]:
    """x and 5 of "x = 5"; also of a list, "x = 5, 6", that names no other variable than x."""
    if name := assigned_name(node):
        return name, node.children[-1]
    if node.kind == "list":
        names = {assigned_name(child) for child in node.children} - {None}
        if len(names) == 1:
            parts = tuple(c.children[-1] if assigned_name(c) else c for c in node.children)
            return names.pop(), Node("list", parts)
    return None, node


def _equal(gold: Node, answer: Node) -> bool:
    from podsgrading.math import equality

    if gold.kind == answer.kind == "leaf":
        number, stated = read_number(gold.label), read_number(answer.label)
        if number is not None and stated is not None:
            return same_number(number, stated)
        label = answer.label
        if stated is not None:
            value = stated.value / (100 if stated.percent else 1)
            label = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
        return equality.equal_expressions(gold.label, label)
    kinds = {gold.kind, answer.kind}
    if kinds == {"set"}:
        return _same_items(_distinct(gold.children), _distinct(answer.children))
    if kinds <= {"list", "set"} or kinds == {"union"}:
        return _same_items(gold.children, answer.children)
    if gold.kind == answer.kind:
        same = gold.label == answer.label and len(gold.children) == len(answer.children)
        same = same and all(map(_equal, gold.children, answer.children))
        return same or (gold.kind == "relation" and equality.same_relation(gold, answer))
    if "relation" in kinds and kinds & {"tuple", "union"}:
        return equality.same_real_set(gold, answer)
    return False


def _same_items(gold: Sequence[Node], answer: Sequence[Node]) -> bool:
    """Equal except for the order."""
    if len(gold) != len(answer):
        return False
    left = list(answer)
    for item in gold:
        match = next((other for other in left if _equal(item, other)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _distinct(items: Sequence[Node]) -> list[Node]:
    kept: list[Node] = []
    for item in items:
        if not any(_equal(item, other) for other in kept):
            kept.append(item)
    return kept


def _as_words(text: str) -> str | None:
    r"""The words of a gold answer that is all \text{}, or plain words of four letters or more."""
    cleaned = clean(text)
    plain = words(cleaned)
    if re.fullmatch(r"\\(?:text|mbox|textbf)\s?\{[^{}]*\}", cleaned):
        return plain.strip()
    word_first = r"(?:[A-Za-z]{4,}|(?i:yes|no|odd))(?:[ -][A-Za-z]+)*(?: [0-9]+)?"
    return plain if re.fullmatch(word_first, plain) else None


def _folded(text: str) -> str:
    plain = re.sub(r"[\s.,!\"'()*-]+", " ", text).strip().casefold()
    return re.sub(r"^(?:the|an?) (?=.)", "", plain)


def _spaceless(text: str) -> str:
    return re.sub(r"\s", "", clean(text))
