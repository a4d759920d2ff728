"""Values from sympy in many notations: what `answer_pairs` makes its pairs of.

Each kind has four functions: make a value, write it in some notation, change it, and say whether
two values are equal.
"""

from collections.abc import Callable
from typing import Any

import sympy
from sympy import I, Integer, Interval, Matrix, Rational, Symbol, latex, oo, pi, sqrt

#: random.Random, or the one that hypothesis drives. Draws keep their order, so that a seed that a
#: result names goes on giving the same pairs.
R = Any

X = Symbol("x", real=True)
Y = Symbol("y", real=True)
A = Symbol("a", real=True)
POINT = {X: Rational(13, 7), Y: Rational(-5, 3), A: Rational(11, 17)}


# Expressions


def integer(r: R, size: int = 40) -> Integer:
    return Integer(r.randint(-size, size))


def rational(r: R) -> Rational:
    return Rational(r.randint(-60, 60), r.choice([1, 1, 2, 3, 4, 5, 7, 8, 12, 25]))


def surd(r: R) -> sympy.Expr:
    summand = rational(r)
    factor = Rational(r.choice([-3, -1, 1, 2, 5]), r.choice([1, 1, 2, 3]))
    return summand + factor * sqrt(r.choice([2, 3, 5, 6, 7, 10]))


def constant(r: R) -> sympy.Expr:
    a = rational(r) or Rational(1, 3)
    choices = [
        a * pi,
        a + pi,
        Integer(r.randint(2, 9)) ** Rational(1, r.choice([3, 4])),
        a / pi,
        sympy.log(r.randint(2, 9)) * a,
        sympy.exp(r.randint(1, 4)) * a,
    ]
    return r.choice(choices)


def polynomial(r: R) -> sympy.Expr:
    powers = r.randint(2, 4)
    value = integer(r, 9) * Y
    for k in range(powers):
        value += integer(r, 9) * X**k
    return value if value.free_symbols else X


def rational_function(r: R) -> sympy.Expr:
    return (integer(r, 6) * X + r.randint(1, 5)) / (X**2 + r.randint(1, 9))


def complex_number(r: R) -> sympy.Expr:
    return rational(r) + (integer(r, 9) or 1) * I


def write_number(value: Rational, r: R) -> str:
    p = abs(value.p)
    q = value.q
    sign = "-" if value < 0 else ""
    k = r.randint(2, 5)

    forms = [
        rf"{sign}\frac{{{p}}}{{{q}}}",
        f"{sign}{p}/{q}",
        rf"{sign}\dfrac{{{p}}}{{{q}}}",
        rf"\frac{{{value.p * k}}}{{{q * k}}}",
        f"x = {sign}{p}/{q}",
    ]
    if q == 1:
        is_digit = p < 10 and value > 0
        forms = [
            str(value),
            f"{sign}{p:,}",
            f"{value}.0",
            rf"{value} \text{{ cm}}",
            f"x={value}",
            f"{value * k}/{k}",
            rf"{p}.00 \times 10^0" if is_digit else f"{value}",
        ]
    elif p > q:  # a mixed number
        whole, rest = divmod(p, q)
        forms += [rf"{sign}{whole}\frac{{{rest}}}{{{q}}}", f"{sign}{whole} {rest}/{q}"]

    if 1000 % q == 0:  # three decimals are exact
        whole, thousandths = divmod(p * (1000 // q), 1000)
        decimals = f"{sign}{whole}.{thousandths:03d}"
        forms += [decimals, decimals.rstrip("0").rstrip("."), f"{decimals}00"]
        if abs(value) < 1:
            forms.append(rf"{float(value * 100):g}\%")

    return wrap(r.choice(forms), r)


def wrap(text: str, r: R) -> str:
    """`text` as it is, mostly, or with what may stand around an answer."""
    choices = [text, text, text, f"${text}$", f"  {text}", rf"\({text}\)", f"{text}."]
    return str(r.choice(choices))


def write_expression(value: sympy.Expr, r: R) -> str:
    rewritings: list[Callable[[], Any]] = [
        lambda: value,
        lambda: sympy.expand(value),
        lambda: sympy.factor(value),
        lambda: sympy.together(value),
        lambda: sympy.radsimp(value),
        lambda: sympy.apart(value) if value.free_symbols == {X} else value,
    ]
    rewritten = r.choice(rewritings)()
    style = r.randint(0, 5)

    if style == 0 and not rewritten.has(I, sympy.E, sympy.exp, sympy.log):
        text = str(rewritten)
    elif style == 1:
        text = latex(rewritten, fold_short_frac=True)
    elif style == 2:
        text = latex(rewritten).replace("frac", "dfrac")
        text = text.replace(r"\left", "").replace(r"\right", "")
    elif style == 3 and isinstance(rewritten, sympy.Add):
        terms = list(rewritten.args)
        r.shuffle(terms)
        text = " + ".join(latex(term) for term in terms).replace("+ -", "- ")
    elif style == 4:
        text = latex(rewritten, mul_symbol="dot")
    else:
        text = latex(rewritten)

    return wrap(text, r)


def change_expression(value: sympy.Expr, r: R) -> sympy.Expr:
    small = Rational(1, 10 ** r.choice([3, 9, 15, 30]))
    changes = [
        value + 1,
        -value,
        value * 2,
        value + small,
        value * (1 + small),
        value / 2,
        value * 3,
    ]
    if value.free_symbols:
        changes += [value.subs(X, Y), value.subs(X, A), value.subs(X, -X), value + X, value.diff(X)]
    return r.choice(changes)


def same_expression(a: sympy.Expr, b: sympy.Expr) -> bool:
    at_a_point = sympy.N((a - b).subs(POINT), 60)
    if at_a_point.is_finite and abs(at_a_point) > 1e-45:
        return False  # surely: the changes are of 1e-30 at least, and simplifying takes long
    return sympy.simplify(a - b) == 0


# Lists, tuples and sets


def sequence(r: R) -> tuple[sympy.Expr, ...]:
    return tuple(r.choice([integer, rational, surd])(r) for _ in range(r.randint(2, 4)))


def write_items(items: tuple[sympy.Expr, ...], r: R) -> str:
    joint = r.choice([", ", ","])
    texts = [
        write_number(item, PlainChoice(r)) if item.is_Rational else latex(item) for item in items
    ]
    return str(joint.join(texts))


class PlainChoice:
    """A source of randomness for numbers inside brackets: no wrapping, no comma, no name."""

    def __init__(self, r: R) -> None:
        self._r = r

    def choice(self, options: list[Any]) -> Any:
        fine = [
            option.strip() if isinstance(option, str) else option
            for option in options
            if self._is_plain(str(option))
        ]
        return self._r.choice(fine or ["0"])

    @staticmethod
    def _is_plain(text: str) -> bool:
        signs = ("x", ",", "$", "%", "text", "\\(")
        return not text.endswith(".") and not any(sign in text for sign in signs)

    def randint(self, a: int, b: int) -> int:
        return int(self._r.randint(a, b))


def write_tuple(value: tuple[sympy.Expr, ...], r: R) -> str:
    brackets = r.choice(["({})", r"\left( {} \right)", r"\left({}\right)"])
    return wrap(brackets.format(write_items(value, r)), r)


def change_items(value: tuple[sympy.Expr, ...], r: R) -> tuple[sympy.Expr, ...]:
    items = list(value)
    change = r.randint(0, 3)
    place = r.randrange(len(items))

    if change == 0:
        items[place] += r.choice([1, Rational(1, 10**9)])
    elif change == 1:
        items[0], items[-1] = items[-1], items[0]
    elif change == 2:
        items.append(integer(r))
    else:
        items[place] = -items[place]
    return tuple(items)


def same_tuple(a: tuple[sympy.Expr, ...], b: tuple[sympy.Expr, ...]) -> bool:
    return len(a) == len(b) and all(map(same_expression, a, b))


def distinct(r: R) -> tuple[sympy.Expr, ...]:
    return tuple(dict.fromkeys(sequence(r)))


def change_distinct(value: tuple[sympy.Expr, ...], r: R) -> tuple[sympy.Expr, ...]:
    return tuple(dict.fromkeys(change_items(value, r)))


def write_set(value: tuple[sympy.Expr, ...], r: R) -> str:
    items = list(value)
    r.shuffle(items)
    text = write_items(tuple(items), r)

    forms = [rf"\{{{text}\}}", rf"\left\{{ {text} \right\}}"]
    if len(items) > 1:
        forms.append(text)
    return wrap(r.choice(forms), r)


def same_set(a: tuple[sympy.Expr, ...], b: tuple[sympy.Expr, ...]) -> bool:
    unmatched = list(b)
    for item in a:
        match = next((other for other in unmatched if same_expression(item, other)), None)
        if match is None:
            return False
        unmatched.remove(match)
    return not unmatched


# Intervals


def interval(r: R) -> Interval:
    ends = sorted({rational(r), rational(r), integer(r, 20) + 61})
    start = -oo if r.random() < 0.2 else ends[0]
    end = oo if r.random() < 0.2 else ends[-1]
    left_open = r.random() < 0.5
    right_open = r.random() < 0.5
    return Interval(start, end, left_open, right_open)


def write_interval(value: Interval, r: R) -> str:
    start = latex(value.start)
    end = latex(value.end)
    left = "(" if value.left_open else "["
    right = ")" if value.right_open else "]"

    forms = [
        f"{left}{start}, {end}{right}",
        rf"\left{left} {start},{end} \right{right}",
        rf"x \in {left}{start}, {end}{right}",
    ]
    if value.start != -oo and value.end != oo:
        lower = "<" if value.left_open else r"\le "
        upper = "<" if value.right_open else r"\le "
        forms.append(f"{start} {lower} x {upper} {end}")
    elif value.end == oo and value.start != -oo:
        forms.append(f"x {'>' if value.left_open else '>='} {start}")
    return wrap(r.choice(forms), r)


def change_interval(value: Interval, r: R) -> Interval:
    start, end, left_open, right_open = value.args
    change = r.randint(0, 3)

    if change == 0 and start != -oo:
        return Interval(start, end, not left_open, right_open)
    if change == 1 and end != oo:
        return Interval(start, end, left_open, not right_open)
    if change == 2 and start != -oo:
        return Interval(start - 1, end, left_open, right_open)
    new_start = start if start == -oo else start - Rational(1, 7)
    return Interval(new_start, end + 1, left_open, right_open)


# Matrices


def matrix(r: R) -> Matrix:
    rows = r.randint(1, 3)
    columns = r.randint(1, 3)
    return Matrix(rows, columns, [rational(r) for _ in range(rows * columns)])


def write_matrix(value: Matrix, r: R) -> str:
    rows: list[str] = []
    for i in range(value.rows):
        cells = [write_number(cell, PlainChoice(r)) for cell in value.row(i)]
        rows.append(" & ".join(cells))

    body = r" \\ ".join(rows)
    name = r.choice(["pmatrix", "bmatrix"])
    return rf"\begin{{{name}}} {body} \end{{{name}}}"


def change_matrix(value: Matrix, r: R) -> Matrix:
    changes = [value.T, -value, value + Matrix.ones(*value.shape), 2 * value]
    return r.choice(changes)


def same_matrix(a: Matrix, b: Matrix) -> bool:
    return a.shape == b.shape and a == b


# Equations, kept as what is equal to 0


def equation(r: R) -> sympy.Expr:
    return integer(r, 9) * X + (integer(r, 9) or 1) * Y + (integer(r, 9) or 2)


def write_equation(value: sympy.Expr, r: R) -> str:
    value = value * r.choice([1, 1, 2, -1, Rational(1, 2)])
    terms = value.coeff(X) * X + value.coeff(Y) * Y
    if r.choice([0, 1]) == 0:
        return wrap(f"{latex(value)} = 0", r)
    return wrap(f"{latex(terms)} = {latex(-(value - terms))}", r)


def same_equation(a: sympy.Expr, b: sympy.Expr) -> bool:
    ratio = sympy.simplify(a / b) if b != 0 else sympy.nan
    return bool(ratio.is_number and ratio.is_finite and ratio != 0)


def change_equation(value: sympy.Expr, r: R) -> sympy.Expr:
    return r.choice([value + 1, value + X, value.subs(X, 2 * X), value - 2 * Y, value.subs(Y, -Y)])


#: How most kinds are written, changed and compared.
EXPRESSION = (write_expression, change_expression, same_expression)
#: Of each kind: make a value, write it, change it, compare two.
KINDS: dict[str, tuple[Callable[..., Any], ...]] = {
    "number": (
        rational,
        write_number,
        lambda v, r: Rational(change_expression(v, r)),
        same_expression,
    ),
    "surd": (surd, *EXPRESSION),
    "constant": (constant, *EXPRESSION),
    "polynomial": (polynomial, *EXPRESSION),
    "rational function": (rational_function, *EXPRESSION),
    "complex": (complex_number, *EXPRESSION),
    "tuple": (sequence, write_tuple, change_items, same_tuple),
    "set": (distinct, write_set, change_distinct, same_set),
    "interval": (interval, write_interval, change_interval, lambda a, b: a == b),
    "matrix": (matrix, write_matrix, change_matrix, same_matrix),
    "equation": (equation, write_equation, change_equation, same_equation),
}
