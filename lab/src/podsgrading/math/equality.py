"""Comparing, first part: two expressions, two relations, or two sets of real numbers, in sympy.

Two are equal only if that is proved: no tolerance, no floats. Only the grading processes import
this: it may take any time and any memory.
"""

import sympy

from podsgrading.math.expressions import parse
from podsgrading.math.numbers import read_number
from podsgrading.math.structure import Node, UnreadableError

_POINTS = [sympy.Rational(*p) for p in ((17, 7), (-23, 11), (5, 13), (-2, 9), (31, 10), (7, 3))]
#: Numeric agreement is never taken as a proof; a difference above this is one of inequality.
_DIGITS, _TOLERANCE = 40, sympy.Float("1e-25")
_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "=": "=", "\\ne": "\\ne"}
_RELATIONS = {
    "<": sympy.StrictLessThan,
    ">": sympy.StrictGreaterThan,
    "\\le": sympy.LessThan,
    "\\ge": sympy.GreaterThan,
    "=": sympy.Eq,
    "\\ne": sympy.Ne,
}


def equal_expressions(gold: str, answer: str) -> bool:
    """Is `answer` provably equal to `gold`, and worked out as far as `gold` is?"""
    if read_number(gold) is not None:
        return False  # numbers are compared as they are stated; this one was not stated
    a, b = parse(gold), parse(answer)
    return not _not_worked_out(a, b) and provably_equal(a, b)


def provably_equal(a: sympy.Expr, b: sympy.Expr) -> bool:
    """Is a - b zero? Tested with numbers first, proved with `simplify`; not provable is False."""
    if a == b:
        return True
    if _differ_somewhere(a, b):
        return False
    difference = a - b
    proofs = (sympy.expand, lambda d: sympy.expand(sympy.radsimp(d)), sympy.cancel, sympy.simplify)
    return any(prove(difference) == 0 for prove in proofs) or difference.equals(0) is True


def _differ_somewhere(a: sympy.Expr, b: sympy.Expr) -> bool:
    symbols = sorted(a.free_symbols | b.free_symbols, key=str)
    for shift in range(3 if symbols else 1):
        point = {s: _POINTS[(i + shift) % len(_POINTS)] for i, s in enumerate(symbols)}
        x, y = (sympy.N(e.subs(point), _DIGITS) for e in (a, b))
        distance, size = abs(x - y), abs(x)
        if not (distance.is_comparable and size.is_comparable):
            continue  # infinite, or an operation without a numerical value
        if distance > _TOLERANCE * max(1, size):
            return True
    return False


def _not_worked_out(gold: sympy.Expr, answer: sympy.Expr) -> bool:
    """Does the answer leave an operation on constants undone that the gold answer does not?

    It keeps a completion from being right by repeating the question, "\\sin 30" for 1/2.
    """

    def undone(expression: sympy.Expr) -> set[type]:
        operations = (sympy.Function, sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit)
        return {
            type(part)
            for part in expression.atoms(*operations, sympy.Derivative)
            if not (
                (part.free_symbols and isinstance(part, sympy.Function)) or part.func is sympy.exp
            )
        }

    return bool(undone(answer) - undone(gold))


def same_relation(gold: Node, answer: Node) -> bool:
    """Do two relations say the same? One equation may be a multiple of the other.

    A chain, a < x < b, is compared by the set of numbers that it allows. Where the gold answer is
    solved, x < 3, the answer must be, too: 2x + 5 < 11 may be the question.
    """
    if _solved(gold) and not _solved(answer):
        return False
    if len(gold.children) == len(answer.children) == 2:
        a, b = _difference(gold), _difference(answer)
        any_sign = gold.label in ("=", "\\ne")
        if gold.label == answer.label and _multiple(a, b, any_sign):
            return True
        if gold.label == _FLIPPED[answer.label] and _multiple(a, -b, any_sign):
            return True
        if "=" in (gold.label, answer.label):
            return False
    return same_real_set(gold, answer)


def same_real_set(gold: Node, answer: Node) -> bool:
    """Are an interval, a union of them, or a solved inequality of one variable the same set?"""
    if _solved(gold) and not _solved(answer):
        return False
    (a, first), (b, second) = _real_set(gold), _real_set(answer)
    if first and second and first != second:
        return False
    return bool(a.symmetric_difference(b).is_empty)


def _solved(node: Node) -> bool:
    """Are its relations between one symbol, alone, and numbers?"""
    if node.kind == "union":
        return all(map(_solved, node.children))
    if node.kind != "relation":
        return True
    open_parts = [part for part in map(_leaf, node.children) if part.free_symbols]
    return len(open_parts) == 1 and open_parts[0].is_Symbol


def _multiple(a: sympy.Expr, b: sympy.Expr, any_sign: bool) -> bool:
    """Is a = c b with a constant c, positive unless `any_sign`?"""
    if a == 0 or b == 0:
        return False
    ratio = sympy.cancel(a / b)
    if ratio.free_symbols:
        ratio = sympy.simplify(ratio)
    if ratio.free_symbols or ratio == 0 or not ratio.is_finite:
        return False
    return (any_sign or bool(ratio > 0)) and provably_equal(a, ratio * b)


def _difference(node: Node) -> sympy.Expr:
    left, right = (_leaf(child) for child in node.children)
    return left - right


def _leaf(node: Node) -> sympy.Expr:
    if node.kind != "leaf":
        raise UnreadableError("a relation between something else than expressions")
    return parse(node.label)


def _real_set(node: Node) -> tuple[sympy.Set, sympy.Symbol | None]:
    """The set of real numbers, and the variable's name if it has one."""
    if node.kind == "union":
        return sympy.Union(*(_real_set(child)[0] for child in node.children)), None
    if node.kind == "set":
        return sympy.FiniteSet(*map(_leaf, node.children)), None
    if node.kind == "tuple" and len(node.children) == 2:
        start, end = map(_leaf, node.children)
        if not (start.is_extended_real and end.is_extended_real) or not start < end:
            raise UnreadableError("an interval whose ends are not numbers in their order")
        return sympy.Interval(start, end, node.label[0] == "(", node.label[1] == ")"), None
    if node.kind == "relation":
        parts = [_leaf(child) for child in node.children]
        symbols = set().union(*(part.free_symbols for part in parts))
        if len(symbols) != 1:
            raise UnreadableError("not an inequality of one variable")
        operators = node.label.split()
        relations = [
            _RELATIONS[operator](a, b)
            for operator, a, b in zip(operators, parts[:-1], parts[1:], strict=True)
        ]
        return sympy.And(*relations).as_set(), symbols.pop()
    raise UnreadableError("not a set of real numbers")
