r"""Parsing, second part: lists, tuples, intervals, sets, unions, matrices and relations.

`read_structure` splits an answer into nodes whose leaves are single expressions in LaTeX, which
`podsgrading.math.expressions` parses.
"""

import re
from dataclasses import dataclass

from podsgrading.math.normalise import clean, words
from podsgrading.math.units import SUPERSCRIPTS, read_unit
from podsrl.errors import InvalidInputError

# What an answer is split at.
_OR = re.compile(r"\\text\s?\{\s?or\s?\}|(?<![a-zA-Z\\])or(?![a-zA-Z])")
_AND = re.compile(r",?\s?(?:\\text\s?\{\s?(?:and|or)\s?\}|(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z]))")
_ITEM = re.compile(r"[,;]")
_CUP = re.compile(r"\\cup(?![a-zA-Z])")
_MINUS_SET = re.compile(r"\\(?:setminus|smallsetminus|backslash)(?![a-zA-Z])")
_BOTH = re.compile(
    r"\\(?:text|mbox)\s?\{\s?and\s?\}|(?<![a-zA-Z\\])and(?![a-zA-Z])|\\(?:land|wedge)(?![a-zA-Z])"
)
_RELATION = re.compile(r"\\(?:le|ge|ne)(?![a-zA-Z])|[<>=]")
_INEQUALITY = re.compile(r"[<>]|\\(?:le|ge)(?![a-zA-Z])")
_MATRIX = re.compile(r"^\\begin\{([pb]?matrix)\}(.*)\\end\{\1\}$", re.DOTALL)
_ROW_END = re.compile(r"\\\\(?:\[[^\]]*\])?")
_PM = re.compile(r"\\(?:pm|mp)(?![a-zA-Z])\s?")

# What is rewritten, or left out.
_THOUSANDS = re.compile(r"(?<![0-9.,])([0-9]{1,3}(?:,[0-9]{3})+)(?![0-9,])")
#: The set of all real numbers, in signs and in words.
_REALS = re.compile(
    r"\\(?:mathbb|Bbb)\s?(?:\{\s?R\s?\}|R)|\\(?:R|Reals|reals)|\u211d"
    r"|(?:[Tt]he set of )?(?:[Aa]ll )?(?:the )?(?:[Rr]eal numbers|[Rr]eals)"
)
_REALS_WITHOUT = re.compile(rf"({_REALS.pattern})\s?-\s?(?=\\\{{)")
#: "x \\mid" or "x \\in \\mathbb{R} :" at the beginning of a set that a condition makes.
_SUCH_THAT = re.compile(
    rf"(?P<name>[a-zA-Z])\s?(?:\\in(?![a-zA-Z])\s?(?:{_REALS.pattern})\s?)?(?:\||:|\\(?:mid|vert)(?![a-zA-Z]))"
)
_MEMBER = re.compile(r"^[a-zA-Z]\s?\\in(?![a-zA-Z])\s?")
_TEXT_VARIABLE = re.compile(r"\\(?:text|mbox)\s?\{\s?([a-zA-Z])\s?\}")
_UNIT = re.compile(
    r"(?:\s?\\(?:text|mbox|hbox|textrm)\s?\{[^{}]*\}|(?:\s(?:square|sq|cubic))?\s[a-zA-Z]{2,20})"
    r"(?:\s?\^\s?\{?[23]\}?)?$"
)
_UNNAMED_UNIT = re.compile(r"(?:(?:square|sq|cubic) )?units?(?:\s?\^\s?\{?[23]\}?)?")

# The left side of "x = 5".
_VARIABLE = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])")
_PLAIN_NAME = re.compile(r"[a-zA-Z]|\\[a-z]+")
_NAME = re.compile(r"\\?[a-zA-Z]+(?:_\{?\w+\}?)?(?:\([a-zA-Z](?:,[a-zA-Z])*\))?")

_BRACKET = re.compile(r"\\[{}]|\\[lr]angle(?![a-zA-Z])|\\.|[()\[\]{}]")
_OPENING = ("(", "[", "{", "\\{", "\\langle")
_CLOSING = (")", "]", "}", "\\}", "\\rangle")
#: The brackets that hold a tuple, an interval or a set; a plain brace is LaTeX's own.
_PAIRS = {"\\{": "\\}", "\\langle": "\\rangle", "(": ")", "[": "]"}
_MAX_DEPTH = 12


class UnreadableError(InvalidInputError):
    """The notation is not one that is understood."""


@dataclass(frozen=True)
class Node:
    """One part of an answer.

    kind: "leaf", "list", "tuple", "set", "union", "both" (conditions that hold together),
        "difference" (of two sets), "matrix", "row", or "relation". All real numbers are the tuple
        from minus to plus infinity.
    children: the parts, in order.
    label: a leaf's LaTeX; a tuple's two brackets; a relation's operators, separated by spaces.
    """

    kind: str
    children: tuple["Node", ...] = ()
    label: str = ""


def read_structure(text: str) -> Node:
    r"""The structure of an answer.

    Raises:
        UnreadableError: unbalanced brackets, nothing between commas, or too deeply nested.

    >>> read_structure(r"x \in (-\infty, 2]").label
    '(]'
    >>> [part.label for part in read_structure(r"1 \pm \sqrt{2}").children]
    ['1 +\\sqrt{2}', '1 -\\sqrt{2}']
    """
    text = _REALS_WITHOUT.sub(r"\1 \\setminus ", clean(text))
    if text.startswith("\\{") and _SUCH_THAT.match(text[2:].lstrip()):
        return _read(text, 0)  # what is "or" in its condition joins no answers

    alternatives = _OR.split(text)
    if len(alternatives) > 1 and _are_inequalities_of_one_variable(alternatives):
        return Node("union", tuple(_read(part, 1) for part in alternatives))

    conditions = _BOTH.split(text)
    if len(conditions) > 1 and _are_inequalities_of_one_variable(conditions):
        return Node("both", tuple(_read(part.strip(" ,"), 1) for part in conditions))

    text = _AND.sub(",", text)
    if not _is_bracketed(text):  # (1,000) is a pair
        text = _THOUSANDS.sub(lambda match: match[1].replace(",", ""), text)
    while (unit := _UNIT.search(text)) and _is_unit(unit[0]):
        text = text[: unit.start()].strip()
    text = _TEXT_VARIABLE.sub(r"\1", text)
    text = text.replace("\u00b0", "")
    return _read(text, 0)


def _are_inequalities_of_one_variable(parts: list[str]) -> bool:
    """Are all parts inequalities of the same single letter, as in "x < 1 or x > 2"?"""
    letters_of_parts = {frozenset(_VARIABLE.findall(part)) for part in parts}
    if len(letters_of_parts) != 1:
        return False
    (letters,) = letters_of_parts
    return len(letters) == 1 and all(_INEQUALITY.search(part) for part in parts)


def names_reals(text: str) -> bool:
    r"""Is it the set of all real numbers, in signs or in words?

    >>> names_reals(r"\text{All real numbers}"), names_reals("R")
    (True, False)
    """
    return _REALS.fullmatch(words(clean(text))) is not None


def stated_unit(text: str) -> str:
    r"""The known unit at the end of an expression, in its canonical spelling; "" without one.

    >>> stated_unit(r"24\pi \text{ cm}^3"), stated_unit(r"24\pi"), stated_unit("24 pi sq ft")
    ('centimeter^3', '', 'foot^2')
    """
    unit = _UNIT.search(clean(text))
    return _unit(unit[0]) if unit else ""


def _unit(text: str) -> str:
    r"""The known unit in "\text{ cm}^3" or " cm^3"; "" without one."""
    content = words(text).strip()
    name, _, power = re.sub(r"[{}]", "", content).partition("^")
    superscript = SUPERSCRIPTS.get(power.strip(), "")
    # Between guillemets, so that one letter is a unit and no variable.
    return read_unit(f"\u00ab{name.strip()}\u00bb{superscript}") or ""


def _is_unit(text: str) -> bool:
    """Is it a known unit, or "square units"?"""
    return bool(_UNNAMED_UNIT.fullmatch(words(text).strip()) or _unit(text))


def _is_bracketed(text: str) -> bool:
    return text[:1] in ("(", "[", "\\") and ("(" in text or "[" in text or "\\{" in text)


def _read(text: str, depth: int) -> Node:
    """The node of a part, tried as what splits it first: a list, a union, a relation, brackets."""
    text = text.strip()
    if not text:
        raise UnreadableError("nothing where an expression should be")
    if depth > _MAX_DEPTH:
        raise UnreadableError("too deep")

    text = _MEMBER.sub("", text)
    if names_reals(text):
        return Node("tuple", (Node("leaf", label="-\\infty"), Node("leaf", label="\\infty")), "()")
    if matrix := _MATRIX.match(text):
        return _matrix(matrix[2], depth)

    items = _split(text, _ITEM)
    if len(items) > 1:
        return Node("list", _flat(_read_all(items, depth + 1)))
    sets = _split(text, _CUP)
    if len(sets) > 1:
        return _union(_flat(_read_all(sets, depth + 1)))
    minuend_and_rest = _split(text, _MINUS_SET)
    if len(minuend_and_rest) == 2 and all(part.strip() for part in minuend_and_rest):
        return Node("difference", _read_all(minuend_and_rest, depth + 1))
    sides = _split(text, _RELATION)
    if len(sides) > 1:
        operators = [text[start:end].strip() for start, end in _places(text, _RELATION)]
        return _relation(_read_all(sides, depth + 1), operators)

    if text in ("\\emptyset", "\\varnothing"):
        return Node("set")
    return _bracketed(text, depth) or _leaf(text, depth)


def _read_all(parts: list[str], depth: int) -> tuple[Node, ...]:
    return tuple(_read(part, depth) for part in parts)


def _union(parts: tuple[Node, ...]) -> Node:
    """The union of sets; of finite ones it is the set of all their items."""
    if all(part.kind == "set" for part in parts):
        return Node("set", tuple(item for part in parts for item in part.children))
    return Node("union", parts)


def _relation(sides: tuple[Node, ...], operators: list[str]) -> Node:
    if operators == ["="]:
        left, right = sides
        is_name_on_the_right = re.fullmatch("[a-zA-Z]", right.label)
        if is_name_on_the_right and not re.match(r"\\?[a-zA-Z]", left.label):
            sides = (right, left)  # 5 = x
    return Node("relation", sides, " ".join(operators))


def _flat(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Two values from a plus-minus sign in a list are two items of the list."""
    items: list[Node] = []
    for node in nodes:
        if node.kind == "list":
            items += node.children
        else:
            items.append(node)
    return tuple(items)


def _leaf(text: str, depth: int) -> Node:
    """A single expression; one with a plus-minus sign is a list of two."""
    signs = _PM.findall(text)
    if not signs:
        return Node("leaf", label=text)
    if len(signs) > 1:
        raise UnreadableError("more than one plus-minus sign")

    plus = _PM.sub("+", text).removeprefix("+")
    minus = _PM.sub("-", text)
    return Node("list", _read_all([plus, minus], depth + 1))


def _bracketed(text: str, depth: int) -> Node | None:
    """A tuple, an interval or a set, if one pair of brackets holds everything."""
    if text.startswith("{") and _matching(text, 1) == len(text) - 1:
        items = _split(text[1:-1], _ITEM)
        # A set in plain text; with one item it is LaTeX's grouping.
        return Node("set", _read_all(items, depth + 1)) if len(items) > 1 else None

    opening = next((bracket for bracket in _PAIRS if text.startswith(bracket)), None)
    closing = next((bracket for bracket in _PAIRS.values() if text.endswith(bracket)), None)
    if opening is None:
        return None
    end = _matching(text, len(opening))
    if closing is None or end != len(text) - len(closing):
        return None

    inside = text[len(opening) : end]
    if opening == "\\{":
        return _set(inside, closing, depth)

    items = _split(inside, _ITEM)
    if len(items) > 1:
        # The ends of an interval may differ, [0, 1).
        brackets = "()" if opening == "\\langle" else opening + closing
        return Node("tuple", _read_all(items, depth + 1), brackets)
    if (opening, closing) == ("(", ")"):
        return _read(inside, depth + 1)
    return None


def _set(inside: str, closing: str, depth: int) -> Node:
    if closing != "\\}":
        raise UnreadableError("a set that is not closed")
    if not inside.strip():
        return Node("set")
    if such_that := _SUCH_THAT.match(inside.strip()):
        return _condition(inside.strip()[such_that.end() :], such_that["name"])
    content = _read(inside, depth + 1)
    return Node("set", content.children if content.kind == "list" else (content,))


def _condition(text: str, name: str) -> Node:
    """The condition in a set-builder: inequalities of its one variable."""
    alternatives = _OR.split(text)
    conditions = _BOTH.split(text)
    parts = alternatives if len(alternatives) > 1 else conditions
    if set(_VARIABLE.findall(text)) != {name} or not _are_inequalities_of_one_variable(parts):
        raise UnreadableError("a set whose condition is no inequality of its variable")

    nodes = tuple(_read(part, 1) for part in parts)
    if any(node.kind != "relation" for node in nodes):
        raise UnreadableError("a set whose condition is no inequality")
    if len(nodes) == 1:
        return nodes[0]
    return Node("union" if len(alternatives) > 1 else "both", nodes)


def _matrix(inside: str, depth: int) -> Node:
    rows = [row for row in _ROW_END.split(inside) if row.strip()]
    if "\\begin" in inside or not rows:
        raise UnreadableError("a matrix inside a matrix, or an empty one")

    cells = [_read_all(row.split("&"), depth + 1) for row in rows]
    if len({len(row) for row in cells}) > 1:
        raise UnreadableError("a matrix whose rows differ in length")
    return Node("matrix", tuple(Node("row", row) for row in cells))


def _depth_changes(text: str, start: int = 0) -> list[tuple[int, int]]:
    """Each bracket's place, and 1 if it opens or -1 if it closes; an escaped brace is one."""
    changes: list[tuple[int, int]] = []
    for match in _BRACKET.finditer(text[start:]):
        if match[0] in _OPENING:
            changes.append((match.start() + start, 1))
        elif match[0] in _CLOSING:
            changes.append((match.start() + start, -1))
    return changes


def _matching(text: str, start: int) -> int:
    """Where the bracket opened just before `start` is closed; any closing bracket will do."""
    depth = 1
    for position, change in _depth_changes(text, start):
        depth += change
        if depth == 0:
            return position
    raise UnreadableError("a bracket that is not closed")


def _places(text: str, separator: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where `separator` stands outside all brackets: start and end of each."""
    places: list[tuple[int, int]] = []
    depth = 0
    position = 0

    end_of_text = (len(text), 0)
    for bracket, change in [*_depth_changes(text), end_of_text]:
        if depth == 0:
            places += [match.span() for match in separator.finditer(text, position, bracket)]
        depth += change
        position = bracket + 1
        if depth < 0:
            raise UnreadableError("a bracket that was not opened")

    if depth > 0:
        raise UnreadableError("a bracket that is not closed")
    return places


def _split(text: str, separator: re.Pattern[str]) -> list[str]:
    """`text` split at each `separator` that is outside all brackets."""
    parts: list[str] = []
    position = 0
    for start, end in _places(text, separator):
        parts.append(text[position:start])
        position = end
    return [*parts, text[position:]]


def assigned_name(node: Node) -> str | None:
    """The name on the left of "name = ..." ("f(x) = ...", "(x, y) = ..."), or None."""
    if node.kind != "relation" or set(node.label.split()) != {"="}:
        return None

    left = node.children[0]
    if left.kind == "tuple":
        names = [child.label for child in left.children]
        are_names = all(_PLAIN_NAME.fullmatch(name) for name in names)
        # (y, x) = (1, 2) may be meant against the order of a gold answer without names.
        in_usual_order = names == sorted(names, key=lambda name: name.strip("\\"))
        return f"({','.join(names)})" if are_names and in_usual_order else None

    name = words(left.label).replace(" ", "")
    return name if _NAME.fullmatch(name) else None
