r"""Parsing, second part: lists, tuples, intervals, sets, unions, matrices and relations.

`read_structure` splits an answer into nodes whose leaves are single expressions in LaTeX, which
`podsgrading.math.expressions` parses.
"""

import re
from dataclasses import dataclass

from podsgrading.math.normalise import clean, words
from podsgrading.math.units import SUPERSCRIPTS, read_unit
from podsrl.errors import InvalidInputError

_MATRIX = re.compile(r"^\\begin\{([pb]?matrix)\}(.*)\\end\{\1\}$", re.DOTALL)
_RELATION = re.compile(r"\\(?:le|ge|ne)(?![a-zA-Z])|[<>=]")
_MEMBER = re.compile(r"^[a-zA-Z]\s?\\in(?![a-zA-Z])\s?")
_THOUSANDS = re.compile(r"(?<![0-9.,])([0-9]{1,3}(?:,[0-9]{3})+)(?![0-9,])")
_AND = re.compile(r",?\s?(?:\\text\s?\{\s?(?:and|or)\s?\}|(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z]))")
_UNIT = re.compile(
    r"(?:\s?\\(?:text|mbox|hbox|textrm)\s?\{[^{}]*\}|(?:\s(?:square|sq|cubic))?\s[a-zA-Z]{2,20})"
    r"(?:\s?\^\s?\{?[23]\}?)?$"
)
_OR = re.compile(r"\\text\s?\{\s?or\s?\}|(?<![a-zA-Z\\])or(?![a-zA-Z])")
_INEQUALITY = re.compile(r"[<>]|\\(?:le|ge)(?![a-zA-Z])")
_TEXT_VARIABLE = re.compile(r"\\(?:text|mbox)\s?\{\s?([a-zA-Z])\s?\}")
_PM = re.compile(r"\\(?:pm|mp)(?![a-zA-Z])\s?")
_OPENING, _CLOSING = "([{", ")]}"
_MAX_DEPTH = 12


class UnreadableError(InvalidInputError):
    """The notation is not one that is understood."""


@dataclass(frozen=True)
class Node:
    """One part of an answer.

    kind: "leaf", "list", "tuple", "set", "union", "matrix", "row", or "relation".
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
    text = clean(text)
    alternatives = _OR.split(text)
    if len(alternatives) > 1 and _of_one_variable(alternatives):
        return Node("union", tuple(_read(part, 1) for part in alternatives))
    text = _AND.sub(",", text)
    text = _THOUSANDS.sub(lambda m: m[1].replace(",", ""), text) if not _in_brackets(text) else text
    while (unit := _UNIT.search(text)) and _is_unit(unit.group()):
        text = text[: unit.start()].strip()
    return _read(_TEXT_VARIABLE.sub(r"\1", text).replace("\u00b0", ""), 0)


def _of_one_variable(parts: list[str]) -> bool:
    """Are all parts inequalities of the same single letter, as in "x < 1 or x > 2"?"""
    names = {frozenset(re.findall(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])", part)) for part in parts}
    one = len(names) == 1 and all(len(letters) == 1 for letters in names)
    return one and all(_INEQUALITY.search(part) for part in parts)


def stated_unit(text: str) -> str:
    r"""The known unit at the end of an expression, in its canonical spelling; "" without one.

    >>> stated_unit(r"24\pi \text{ cm}^3"), stated_unit(r"24\pi"), stated_unit("24 pi sq ft")
    ('centimeter^3', '', 'foot^2')
    """
    found = _UNIT.search(clean(text))
    return _unit(found.group()) if found else ""


def _unit(text: str) -> str:
    content = words(text).strip()
    plain, _, power = re.sub(r"[{}]", "", content).partition("^")
    return read_unit(f"\u00ab{plain.strip()}\u00bb{SUPERSCRIPTS.get(power.strip(), '')}") or ""


def _is_unit(text: str) -> bool:
    unknown = r"(?:(?:square|sq|cubic) )?units?(?:\s?\^\s?\{?[23]\}?)?"
    return bool(re.fullmatch(unknown, words(text).strip()) or _unit(text))


def _in_brackets(text: str) -> bool:
    return text[:1] in ("(", "[", "\\") and ("(" in text or "[" in text or "\\{" in text)


def _read(text: str, depth: int) -> Node:
    text = text.strip()
    if not text or depth > _MAX_DEPTH:
        raise UnreadableError("nothing where an expression should be" if not text else "too deep")
    text = _MEMBER.sub("", text)
    if matrix := _MATRIX.match(text):
        return _matrix(matrix[2], depth)
    for kind, separator in (("list", r"[,;]"), ("union", r"\\cup(?![a-zA-Z])")):
        parts = _split(text, re.compile(separator))
        if len(parts) > 1:
            return Node(kind, _flat(tuple(_read(part, depth + 1) for part in parts)))
    parts = _split(text, _RELATION)
    if len(parts) > 1:
        operators = [text[start:end].strip() for start, end in _places(text, _RELATION)]
        children = tuple(_read(part, depth + 1) for part in parts)
        if operators == ["="] and re.fullmatch("[a-zA-Z]", children[1].label):
            named = re.match(r"\\?[a-zA-Z]", children[0].label)
            children = children if named else children[::-1]  # 5 = x
        return Node("relation", children, " ".join(operators))
    if text in ("\\emptyset", "\\varnothing"):
        return Node("set")
    return _bracketed(text, depth) or _leaf(text, depth)


def _flat(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Two values from a plus-minus sign in a list are two items of the list."""
    return tuple(
        item for node in nodes for item in (node.children if node.kind == "list" else (node,))
    )


def _leaf(text: str, depth: int) -> Node:
    signs = _PM.findall(text)
    if not signs:
        return Node("leaf", label=text)
    if len(signs) > 1:
        raise UnreadableError("more than one plus-minus sign")
    both = (_PM.sub("+", text).removeprefix("+"), _PM.sub("-", text))
    return Node("list", tuple(_read(part, depth + 1) for part in both))


def _bracketed(text: str, depth: int) -> Node | None:
    """A tuple, an interval or a set, if one pair of brackets holds everything."""
    if text.startswith("{") and _matching(text, 1) == len(text) - 1:
        parts = _split(text[1:-1], re.compile(r"[,;]"))  # a set in plain text
        return Node("set", tuple(_read(p, depth + 1) for p in parts)) if len(parts) > 1 else None
    for opening, closing in (("\\{", "\\}"), ("\\langle", "\\rangle"), ("(", ")"), ("[", "]")):
        if not text.startswith(opening):
            continue
        end = _matching(text, len(opening))
        last = next((c for c in ("\\}", "\\rangle", ")", "]") if text.endswith(c)), None)
        if last is None or end != len(text) - len(last):
            return None
        inside = text[len(opening) : end]
        if opening == "\\{":
            if last != closing:
                raise UnreadableError("a set that is not closed")
            if not inside.strip():
                return Node("set")
            content = _read(inside, depth + 1)
            return Node("set", content.children if content.kind == "list" else (content,))
        parts = _split(inside, re.compile(r"[,;]"))
        if len(parts) > 1:
            brackets = "()" if opening == "\\langle" else opening + last
            return Node("tuple", tuple(_read(p, depth + 1) for p in parts), brackets)
        if opening == "(" and last == ")":
            return _read(inside, depth + 1)
    return None


def _matrix(inside: str, depth: int) -> Node:
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?", inside) if row.strip()]
    if "\\begin" in inside or not rows:
        raise UnreadableError("a matrix inside a matrix, or an empty one")
    cells = [tuple(_read(cell, depth + 1) for cell in row.split("&")) for row in rows]
    if len({len(row) for row in cells}) > 1:
        raise UnreadableError("a matrix whose rows differ in length")
    return Node("matrix", tuple(Node("row", row) for row in cells))


def _tokens(text: str, start: int = 0) -> list[tuple[int, int, str]]:
    """(position, change of depth, token) of each bracket; an escaped brace is one."""
    found = []
    for match in re.finditer(r"\\[{}]|\\[lr]angle(?![a-zA-Z])|\\.|[()\[\]{}]", text[start:]):
        token = match.group()
        if token in ("\\{", "\\langle") or token in _OPENING:
            found.append((match.start() + start, 1, token))
        elif token in ("\\}", "\\rangle") or token in _CLOSING:
            found.append((match.start() + start, -1, token))
    return found


def _matching(text: str, start: int) -> int:
    """Where the bracket opened just before `start` is closed; any closing bracket will do."""
    depth = 1
    for position, change, _ in _tokens(text, start):
        depth += change
        if depth == 0:
            return position
    raise UnreadableError("a bracket that is not closed")


def _places(text: str, separator: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where `separator` stands outside all brackets."""
    depth, spans, position = 0, [], 0
    for start, change, _ in [*_tokens(text), (len(text), 0, "")]:
        if depth == 0:
            spans += [m.span() for m in separator.finditer(text, position, start)]
        depth += change
        position = start + 1
        if depth < 0:
            raise UnreadableError("a bracket that was not opened")
    if depth:
        raise UnreadableError("a bracket that is not closed")
    return spans


def _split(text: str, separator: re.Pattern[str]) -> list[str]:
    parts, position = [], 0
    for start, end in _places(text, separator):
        parts.append(text[position:start])
        position = end
    return [*parts, text[position:]]


def assigned_name(node: Node) -> str | None:
    """The name on the left of "name = ..." ("f(x) = ...", "(x, y) = ..."), or None."""
    if node.kind != "relation" or set(node.label.split()) != {"="}:
        return None
    if node.children[0].kind == "tuple":
        names = [child.label for child in node.children[0].children]
        plain = all(re.fullmatch(r"[a-zA-Z]|\\[a-z]+", name) for name in names)
        # (y, x) = (1, 2) may be meant against the order of a gold answer without names.
        usual = names == sorted(names, key=lambda name: name.strip("\\"))
        return f"({','.join(names)})" if plain and usual else None
    left = words(node.children[0].label).replace(" ", "")
    named = re.fullmatch(r"\\?[a-zA-Z]+(?:_\{?\w+\}?)?(?:\([a-zA-Z](?:,[a-zA-Z])*\))?", left)
    return left if named else None
