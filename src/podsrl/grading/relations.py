"""Equations, inequalities and sets of real numbers: are two of them the same?

Only the grading processes import this: it may take any time and any memory.
"""

import sympy

from podsrl.grading.expressions import parse, provably_equal
from podsrl.grading.notation import Node, UnreadableError

_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "=": "=", "\\ne": "\\ne"}
_RELATIONS = {
    "<": sympy.StrictLessThan,
    ">": sympy.StrictGreaterThan,
    "\\le": sympy.LessThan,
    "\\ge": sympy.GreaterThan,
    "=": sympy.Eq,
    "\\ne": sympy.Ne,
}


def same_relation(gold: Node, answer: Node) -> bool:
    """Do two relations say the same? One equation may be a multiple of the other.

    A chain, a < x < b, is compared by the set of numbers that it allows.
    """
    if len(gold.children) == len(answer.children) == 2:
        a, b = _difference(gold), _difference(answer)
        flipped = _FLIPPED[answer.label]
        if gold.label == answer.label and _multiple(a, b, gold.label in ("=", "\\ne")):
            return True
        if gold.label == flipped and _multiple(a, -b, gold.label in ("=", "\\ne")):
            return True
        if "=" in (gold.label, answer.label):
            return False
    return same_real_set(gold, answer)


def same_real_set(gold: Node, answer: Node) -> bool:
    """Are an interval, a union of intervals, or an inequality of one variable the same set?"""
    (a, first), (b, second) = _real_set(gold), _real_set(answer)
    if first and second and first != second:
        return False
    return bool(a.symmetric_difference(b).is_empty)


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
        if not (start.is_extended_real and end.is_extended_real):
            raise UnreadableError("an interval whose ends are not numbers")
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
