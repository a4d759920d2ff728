"""Comparing, first part: two expressions, two relations, or two sets of real numbers, in sympy.

Two are equal only if that is proved: no tolerance, no floats. What is too large to be worked out is
compared as `large` says. Only the grading processes import this: it may take any time and any
memory.
"""

import sympy

from podsgrading.math.expressions import parse
from podsgrading.math.large import is_large, same_remainders
from podsgrading.math.numbers import read_number
from podsgrading.math.structure import Node, UnreadableError

#: Where expressions are evaluated: no two symbols have the same value, and none a special one.
_POINTS = [
    sympy.Rational(17, 7),
    sympy.Rational(-23, 11),
    sympy.Rational(5, 13),
    sympy.Rational(-2, 9),
    sympy.Rational(31, 10),
    sympy.Rational(7, 3),
]
_DIGITS = 40
#: Numeric agreement is never taken as a proof; a difference above this is one of inequality.
_TOLERANCE = sympy.Float("1e-25")
_OPERATIONS = (
    sympy.Function,
    sympy.Sum,
    sympy.Product,
    sympy.Integral,
    sympy.Limit,
    sympy.Derivative,
)
#: What a relation is when its sides are exchanged.
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

    gold_expression = parse(gold)
    answer_expression = parse(answer)
    if _is_less_worked_out(answer_expression, gold_expression):
        return False
    return provably_equal(gold_expression, answer_expression)


def provably_equal(a: sympy.Expr, b: sympy.Expr) -> bool:
    """Is a - b zero? Tested with numbers first, proved with `simplify`; not provable is False."""
    if a == b:
        return True
    if is_large(a) or is_large(b):
        return same_remainders(a, b)
    if _differ_somewhere(a, b):
        return False

    # From the cheapest to the most expensive; most differences are zero after the first.
    difference = a - b
    return (
        sympy.expand(difference) == 0
        or sympy.expand(sympy.radsimp(difference)) == 0
        or sympy.cancel(difference) == 0
        or sympy.simplify(difference) == 0
        or difference.equals(0) is True
    )


def _differ_somewhere(a: sympy.Expr, b: sympy.Expr) -> bool:
    """Do they surely differ at one of a few points?"""
    symbols = sorted(a.free_symbols | b.free_symbols, key=str)

    for shift in range(3 if symbols else 1):
        point = {
            symbol: _POINTS[(place + shift) % len(_POINTS)] for place, symbol in enumerate(symbols)
        }
        x = sympy.N(a.subs(point), _DIGITS)
        y = sympy.N(b.subs(point), _DIGITS)
        distance = abs(x - y)
        size = abs(x)
        if not (distance.is_comparable and size.is_comparable):
            continue  # infinite, or an operation without a numerical value
        if distance > _TOLERANCE * max(1, size):
            return True

    return False


def _is_less_worked_out(answer: sympy.Expr, gold: sympy.Expr) -> bool:
    """Does the answer leave an operation on constants undone that the gold answer does not?

    It keeps a completion from being right by repeating the question, "\\sin 30" for 1/2.
    """
    return bool(_undone_operations(answer) - _undone_operations(gold))


def _undone_operations(expression: sympy.Expr) -> set[type]:
    """The kinds of operations that could be carried out: not sin(x), nor a power of e."""
    undone: set[type] = set()
    for part in expression.atoms(*_OPERATIONS):
        is_function_of_symbols = part.free_symbols and isinstance(part, sympy.Function)
        if not is_function_of_symbols and part.func is not sympy.exp:
            undone.add(type(part))
    return undone


def turned_round(node: Node) -> Node:
    """A relation read from right to left: 3 > x for x < 3."""
    operators = [_FLIPPED[operator] for operator in reversed(node.label.split())]
    return Node("relation", node.children[::-1], " ".join(operators))


def same_relation(gold: Node, answer: Node) -> bool:
    """Do two relations say the same? One equation may be a multiple of the other.

    A chain, a < x < b, is compared by the set of numbers that it allows. Where the gold answer is
    solved, x < 3, the answer must be, too: 2x + 5 < 11 may be the question.
    """
    if _is_solved(gold) and not _is_solved(answer):
        return False

    if len(gold.children) == len(answer.children) == 2:
        gold_difference = _difference(gold)
        answer_difference = _difference(answer)
        any_sign = gold.label in ("=", "\\ne")
        if gold.label == answer.label and _is_multiple(
            gold_difference, answer_difference, any_sign=any_sign
        ):
            return True
        if gold.label == _FLIPPED[answer.label] and _is_multiple(
            gold_difference, -answer_difference, any_sign=any_sign
        ):
            return True
        if "=" in (gold.label, answer.label):
            return False

    return same_real_set(gold, answer)


def same_real_set(gold: Node, answer: Node) -> bool:
    """Are intervals, unions of them, or solved inequalities of one variable the same set?"""
    if _is_solved(gold) and not _is_solved(answer):
        return False

    gold_set, gold_symbol = _real_set(gold)
    answer_set, answer_symbol = _real_set(answer)
    if gold_symbol and answer_symbol and gold_symbol != answer_symbol:
        return False
    return bool(gold_set.symmetric_difference(answer_set).is_empty)


def _is_solved(node: Node) -> bool:
    """Are its relations between one symbol, or its absolute value, and numbers?"""
    if node.kind in ("union", "both", "difference"):
        return all(map(_is_solved, node.children))
    if node.kind != "relation":
        return True

    open_parts = [part for part in map(_leaf, node.children) if part.free_symbols]
    if len(open_parts) != 1:
        return False
    (part,) = open_parts
    # |x| < 2 says as plainly as -2 < x < 2 what x may be.
    return part.is_Symbol or (isinstance(part, sympy.Abs) and part.args[0].is_Symbol)


def _is_multiple(a: sympy.Expr, b: sympy.Expr, *, any_sign: bool) -> bool:
    """Is a = c b with a constant c, positive unless `any_sign`?"""
    if a == 0 or b == 0:
        return False

    ratio = sympy.cancel(a / b)
    if ratio.free_symbols:
        ratio = sympy.simplify(ratio)
    if ratio.free_symbols or ratio == 0 or not ratio.is_finite:
        return False

    if not any_sign and not ratio > 0:
        return False
    return provably_equal(a, ratio * b)


def _difference(node: Node) -> sympy.Expr:
    """The left side of a relation less its right side."""
    left, right = node.children
    return _leaf(left) - _leaf(right)


def _leaf(node: Node) -> sympy.Expr:
    """The expression of a leaf."""
    if node.kind != "leaf":
        raise UnreadableError("a relation between something else than expressions")

    expression = parse(node.label)
    if is_large(expression):
        raise UnreadableError("too large for a relation or a set; its parts were compared before")
    return expression


def _real_set(node: Node) -> tuple[sympy.Set, sympy.Symbol | None]:
    """The set of real numbers, and the variable's name if it has one."""
    if node.kind == "union":
        sets, symbol = _real_sets(node.children)
        return sympy.Union(*sets), symbol
    if node.kind == "both":
        sets, symbol = _real_sets(node.children)
        return sympy.Intersection(*sets), symbol
    if node.kind == "difference":
        sets, symbol = _real_sets(node.children)
        return sympy.Complement(*sets), symbol
    if node.kind == "set":
        return sympy.FiniteSet(*map(_leaf, node.children)), None
    if node.kind == "tuple" and len(node.children) == 2:
        return _interval(node), None
    if node.kind == "relation":
        return _solutions(node)
    raise UnreadableError("not a set of real numbers")


def _real_sets(nodes: tuple[Node, ...]) -> tuple[list[sympy.Set], sympy.Symbol | None]:
    """The set of each node, and the variable that they share if one has a variable."""
    pairs = [_real_set(node) for node in nodes]
    symbols = {symbol for _, symbol in pairs if symbol}
    if len(symbols) > 1:
        raise UnreadableError("conditions of different variables")
    return [found for found, _ in pairs], symbols.pop() if symbols else None


def _interval(node: Node) -> sympy.Interval:
    start, end = map(_leaf, node.children)
    are_real = start.is_extended_real and end.is_extended_real
    if not are_real or not start < end:
        raise UnreadableError("an interval whose ends are not numbers in their order")

    opening = node.label[0]
    closing = node.label[1]
    return sympy.Interval(start, end, left_open=opening == "(", right_open=closing == ")")


def _solutions(node: Node) -> tuple[sympy.Set, sympy.Symbol]:
    """The solutions of a chain of relations, a < x < b, and its one variable."""
    parts = [_leaf(child) for child in node.children]
    symbols = set().union(*(part.free_symbols for part in parts))
    if len(symbols) != 1:
        raise UnreadableError("not an inequality of one variable")

    links = zip(node.label.split(), parts[:-1], parts[1:], strict=True)
    relations = [_RELATIONS[operator](left, right) for operator, left, right in links]
    condition = sympy.And(*relations)
    # -\infty < x is true of every real number, and sympy takes it so.
    allowed = sympy.S.Reals if condition == sympy.true else condition.as_set()
    return allowed, symbols.pop()
