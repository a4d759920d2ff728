r"""Comparing, second part: does an answer say what the gold answer says?

Two steps. `compare_quickly` reads numbers, words and identical notation in linear time, in this
process; it decides whenever the gold answer is a number or a word. Everything else is for
`equal_structures`, which calls sympy and belongs into a grading process.
"""

import re
from collections.abc import Sequence

from podsgrading.extract import MAX_ANSWER
from podsgrading.math.normalise import clean, statement, without_clause, words
from podsgrading.math.numbers import read_number, same_number, split_modulus, states_number
from podsgrading.math.structure import (
    Node,
    UnreadableError,
    assigned_name,
    names_reals,
    read_structure,
    stated_unit,
)
from podsgrading.multiple_choice import read_choice
from podsgrading.pool import GradingPool

#: The kinds of nodes that may be a set of real numbers.
_REAL_SETS = {"relation", "tuple", "union", "set", "both", "difference"}
_FUNCTION = "podsgrading.math.answers:equal_structures"
_LETTER = re.compile(r"\(?([A-Z])\)?")
_ALL_TEXT = re.compile(r"\\(?:text|mbox|textbf)\s?\{[^{}]*\}")
_PLAIN_WORDS = re.compile(r"(?:[A-Za-z]{4,}|(?i:yes|no|odd))(?:[ -][A-Za-z]+)*(?: [0-9]+)?")
_PUNCTUATION = re.compile(r"[\s.,!\"'()*-]+")
_ARTICLE = re.compile(r"^(?:the|an?) (?=.)")
_VARIABLE = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])")

# Two spellings of one sign, where an answer is compared as a text.
_DOTS = re.compile(r"\\(?:[lc]?dots|dots[cb])(?![a-zA-Z])|\u2026|\.{3}")
_BAR = re.compile(r"\\(?:mid|vert|lvert|rvert)(?![a-zA-Z])")
_BRACES_OF_ONE = re.compile(r"(?<!\\)\{(\w)\}")


def compare_quickly(gold: str, answer: str) -> bool | None:
    r"""True or False where that can be said in linear time, else None.

    >>> compare_quickly("1,000", r"\$1000.00"), compare_quickly("4", "2 + 2")
    (True, False)
    >>> compare_quickly(r"\text{Evelyn}", "evelyn"), compare_quickly(r"\sqrt{8}", r"2\sqrt{2}")
    (True, None)
    """
    verdict = _compare_as_it_stands(gold, answer)
    if verdict:
        return True

    gold_claim = without_clause(gold)
    answer_claim = without_clause(answer)
    if gold_claim.domain and answer_claim.domain and gold_claim.domain != answer_claim.domain:
        return False  # all integers are not all real numbers
    if (gold, answer) != (gold_claim.value, answer_claim.value):
        return compare_quickly(gold_claim.value, answer_claim.value)

    # "The area is 12" may be right where its text, as it stands, is wrong.
    value = statement(answer)
    return verdict if value is None else _compare_as_it_stands(gold, value)


def _compare_as_it_stands(gold: str, answer: str) -> bool | None:
    if not answer.strip() or len(answer) > MAX_ANSWER:
        return False

    number = read_number(gold)
    text = _as_words(gold)
    begins_with_a_word = text is not None and text[:1].isalpha()
    if number is not None and not begins_with_a_word:  # "June 20" is not 20
        return states_number(number, answer)

    if text is not None:
        letter = _LETTER.fullmatch(text)
        if letter is not None:
            return read_choice(answer) == letter[1]
        if names_reals(gold):
            return None  # an interval may say it, too
        return _folded(words(clean(answer))) == _folded(text)

    return True if _spaceless(gold) == _spaceless(answer) else None


def grade_answers(pairs: Sequence[tuple[str, ...]], pool: GradingPool) -> list[bool | None]:
    """Grade (gold, answer[, question]): quick ones here, others in the pool; None: unscorable."""
    verdicts = [compare_quickly(pair[0], pair[1]) for pair in pairs]

    undecided = [place for place, verdict in enumerate(verdicts) if verdict is None]
    found_in_pool = pool.run(_FUNCTION, [pairs[place] for place in undecided])
    for place, verdict in zip(undecided, found_in_pool, strict=True):
        verdicts[place] = verdict
    return verdicts


def same_text(gold: str, answer: str) -> bool:
    r"""Are two answers the same text, once their notation is brought to one form?

    So an answer is judged where the gold answer can't be read: the same is right, others are wrong.

    >>> same_text(r"1, 2, \ldots, n", "1,2,...,n"), same_text(r"1, 2, \ldots, n", "1, 3, ..., n")
    (True, False)
    """
    gold_text = _as_text(gold)
    return gold_text in (_as_text(answer), _as_text(statement(answer) or answer))


def _as_text(text: str) -> str:
    text = _DOTS.sub(r"\\ldots", text)  # before `clean`, which takes full stops away
    text = _BAR.sub("|", clean(text))
    return _spaceless(_BRACES_OF_ONE.sub(r"\1", text))


def equal_structures(gold: str, answer: str, question: str = "") -> bool:
    """Are the two equal, part by part? An answer that can't be read, or repeats, is wrong.

    A gold answer that can't be read is compared as a text.
    """
    gold = without_clause(gold).value
    answer = without_clause(answer).value
    try:
        gold_node = read_structure(gold)
        _check_readable(gold_node)
    except UnreadableError:
        return same_text(gold, answer)

    try:
        answer = statement(answer) or answer
        answer_node = read_structure(answer)

        units = {stated_unit(gold), stated_unit(answer)} - {""}
        if len(units) > 1:
            return False

        gold_name, gold_value = _without_name(gold_node)
        answer_name, answer_value = _without_name(answer_node)
        if gold_name and answer_name and gold_name != answer_name:
            return _equal(gold_node, answer_node)
        # "y = x + 1" is a value with a name; as a relation it is "y - x = 1", too.
        equal = _equal(gold_value, answer_value) or _equal(gold_node, answer_node)
    except UnreadableError:
        return False

    if not equal:
        return False
    if _is_condition(answer, answer_node) and _says(question, answer, answer_node):
        # What the question says is no answer, unless it says the gold answer, too.
        return _plain_text(gold) in _plain_text(question)
    return not _repeats_question(gold_value, answer_value, question)


def _is_condition(answer: str, node: Node) -> bool:
    """Is an answer something still to be worked out: a relation, or sets put together?"""
    return node.kind in ("relation", "both", "difference", "union") or "\\cup" in clean(answer)


def _says(question: str, answer: str, node: Node) -> bool:
    """Does the question say what the answer says, from left to right or from right to left?"""
    text = _plain_text(question)
    if _plain_text(answer) in text:
        return True
    if node.kind != "relation" or any(child.kind != "leaf" for child in node.children):
        return False

    from podsgrading.math import equality

    turned = equality.turned_round(node)
    sides = [child.label for child in turned.children]
    parts = [sides[0]]
    for operator, side in zip(turned.label.split(), sides[1:], strict=True):
        parts += [operator, side]
    return _plain_text(" ".join(parts)) in text


def _plain_text(text: str) -> str:
    """`text` without spaces, and with one sign for an absolute value."""
    return _BAR.sub("|", _spaceless(text))


def _repeats_question(gold: Node, answer: Node, question: str) -> bool:
    """Is an answer that is equal to the gold answer no more than what the question gives?

    Only single expressions can be; a number is worked out, whatever the question says.
    """
    if not question or gold.kind != "leaf" or answer.kind != "leaf":
        return False
    if read_number(gold.label) or read_number(answer.label):
        return False

    from podsgrading.math import repetition

    return repetition.repeats(gold.label, answer.label, question)


def _check_readable(node: Node) -> None:
    """Raise `UnreadableError` if a leaf is no expression."""
    from podsgrading.math import expressions

    if node.kind == "leaf" and read_number(node.label) is None:
        expression, _ = split_modulus(node.label)
        expressions.parse(expression)
    for child in node.children:
        _check_readable(child)


def _without_name(node: Node) -> tuple[str | None, Node]:
    """x and 5 of "x = 5"; also of a list, "x = 5, 6", that names no other variable than x."""
    name = assigned_name(node)
    if name is not None:
        return name, node.children[-1]
    if node.kind != "list":
        return None, node

    values: list[Node] = []
    names: set[str] = set()
    for child in node.children:
        child_name = assigned_name(child)
        values.append(child.children[-1] if child_name else child)
        if child_name:
            names.add(child_name)
    return (names.pop(), Node("list", tuple(values))) if len(names) == 1 else (None, node)


def _equal(gold: Node, answer: Node) -> bool:
    """Are two nodes equal, each by the rule of its kind?"""
    from podsgrading.math import equality

    if gold.kind == answer.kind == "leaf":
        return _equal_leaves(gold.label, answer.label)

    kinds = {gold.kind, answer.kind}
    if kinds <= {"list", "set"}:
        return _same_items(_items(gold), _items(answer))
    if kinds == {"union"} and _same_items(gold.children, answer.children):
        return True

    if gold.kind == answer.kind and gold.kind not in ("union", "both", "difference"):
        if _same_parts(gold, answer):
            return True
        if gold.kind != "relation":
            return False
        return _same_parts(gold, equality.turned_round(answer)) or equality.same_relation(
            gold, answer
        )

    # x < 3 and (-\infty, 3) may be the same set. A point and a finite set are compared above.
    if kinds <= _REAL_SETS and not kinds <= {"tuple", "set"}:
        return equality.same_real_set(gold, answer)
    return False


def _same_parts(gold: Node, answer: Node) -> bool:
    """Two of one form, whose parts are equal in their order."""
    same_form = gold.label == answer.label and len(gold.children) == len(answer.children)
    return same_form and all(map(_equal, gold.children, answer.children))


def _equal_leaves(gold: str, answer: str) -> bool:
    from podsgrading.math import equality

    gold_number = read_number(gold)
    answer_number = read_number(answer)
    if gold_number is not None and answer_number is not None:
        return same_number(gold_number, answer_number)

    gold, gold_modulus = split_modulus(gold)
    answer, answer_modulus = split_modulus(answer)
    if gold_modulus and answer_modulus and gold_modulus != answer_modulus:
        return False
    if answer_modulus and answer_number is None:
        letters = _VARIABLE.findall(answer)
        if not letters or answer_modulus[0] in letters:
            return False  # "2^{10} (mod 7)" and "n + 1 (mod n)" are not worked out

    if answer_number is not None:  # "1.5" or "150%", as the parser reads it
        value = answer_number.value
        if answer_number.percent:
            value /= 100
        answer = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    return equality.equal_expressions(gold, answer)


def _same_items(gold: Sequence[Node], answer: Sequence[Node]) -> bool:
    """Equal except for the order."""
    if len(gold) != len(answer):
        return False

    unmatched = list(answer)
    for item in gold:
        match = next((other for other in unmatched if _equal(item, other)), None)
        if match is None:
            return False
        unmatched.remove(match)
    return True


def _items(node: Node) -> list[Node]:
    """The items of a list; those of a set, equal ones once."""
    if node.kind == "list":
        return list(node.children)

    kept: list[Node] = []
    for item in node.children:
        if not any(_equal(item, other) for other in kept):
            kept.append(item)
    return kept


def _as_words(text: str) -> str | None:
    r"""The words of a gold answer that is all \text{}, or plain words of four letters or more."""
    cleaned = clean(text)
    plain = words(cleaned)
    if _ALL_TEXT.fullmatch(cleaned):
        return plain.strip()
    return plain if _PLAIN_WORDS.fullmatch(plain) else None


def _folded(text: str) -> str:
    """Words without case, punctuation and a leading article."""
    plain = _PUNCTUATION.sub(" ", text).strip().casefold()
    return _ARTICLE.sub("", plain)


def _spaceless(text: str) -> str:
    return re.sub(r"\s", "", clean(text))
