"""Values from sympy in many notations: what `answer_pairs` makes its pairs of.

Each kind has four functions: make a value, write it in some notation, change it, and say whether
two values are equal.
"""

from collections.abc import Callable
from typing import Any

import sympy
from sympy import I, Integer, Interval, Matrix, Rational, Symbol, latex, oo, pi, sqrt

X, Y, A = (Symbol(name, real=True) for name in "xya")
POINT = {X: Rational(13, 7), Y: Rational(-5, 3), A: Rational(11, 17)}
R = Any  # random.Random, or the one that hypothesis drives


def integer(r: R, size: int = 40) -> Integer:
    return Integer(r.randint(-size, size))


def rational(r: R) -> Rational:
    return Rational(r.randint(-60, 60), r.choice([1, 1, 2, 3, 4, 5, 7, 8, 12, 25]))


def surd(r: R) -> sympy.Expr:
    return rational(r) + Rational(r.choice([-3, -1, 1, 2, 5]), r.choice([1, 1, 2, 3])) * sqrt(
        r.choice([2, 3, 5, 6, 7, 10])
    )


def constant(r: R) -> sympy.Expr:
    a = rational(r) or Rational(1, 3)
    choices = [
        a * pi,
        a + pi,
        sympy.Integer(r.randint(2, 9)) ** Rational(1, r.choice([3, 4])),
        a / pi,
    ]
    return r.choice([*choices, sympy.log(r.randint(2, 9)) * a, sympy.exp(r.randint(1, 4)) * a])


def polynomial(r: R) -> sympy.Expr:
    made = sum((integer(r, 9) * X**k for k in range(r.randint(2, 4))), integer(r, 9) * Y)
    return made if made.free_symbols else X


def rational_function(r: R) -> sympy.Expr:
    return (integer(r, 6) * X + r.randint(1, 5)) / (X**2 + r.randint(1, 9))


def complex_number(r: R) -> sympy.Expr:
    return rational(r) + (integer(r, 9) or 1) * I


def write_number(value: Rational, r: R) -> str:
    p, q = abs(value.p), value.q
    sign = "-" if value < 0 else ""
    forms = [rf"{sign}\frac{{{p}}}{{{q}}}", f"{sign}{p}/{q}", rf"{sign}\dfrac{{{p}}}{{{q}}}"]
    k = r.randint(2, 5)
    forms += [rf"\frac{{{value.p * k}}}{{{q * k}}}", f"x = {sign}{p}/{q}"]
    if q == 1:
        forms = [str(value), f"{sign}{p:,}", f"{value}.0", rf"{value} \text{{ cm}}", f"x={value}"]
        forms += [
            f"{value * k}/{k}",
            rf"{p}.00 \times 10^0" if p < 10 and value > 0 else f"{value}",
        ]
    elif p > q:
        forms += [rf"{sign}{p // q}\frac{{{p % q}}}{{{q}}}", f"{sign}{p // q} {p % q}/{q}"]
    if 1000 % q == 0:
        decimals = f"{p * (1000 // q) // 1000}.{p * (1000 // q) % 1000:03d}"
        forms += [sign + decimals, (sign + decimals).rstrip("0").rstrip("."), f"{sign}{decimals}00"]
        forms += [rf"{float(value * 100):g}\%"] if abs(value) < 1 else []
    return wrap(r.choice(forms), r)


def wrap(text: str, r: R) -> str:
    choices = [text, text, text, f"${text}$", f"  {text}", rf"\({text}\)", f"{text}."]
    return str(r.choice(choices))


def write_expression(value: sympy.Expr, r: R) -> str:
    forms: list[Callable[[], Any]] = [
        lambda: value,
        lambda: sympy.expand(value),
        lambda: sympy.factor(value),
        lambda: sympy.together(value),
        lambda: sympy.radsimp(value),
        lambda: sympy.apart(value) if value.free_symbols == {X} else value,
    ]
    made = r.choice(forms)()
    style = r.randint(0, 5)
    if style == 0 and not made.has(I, sympy.E, sympy.exp, sympy.log):
        return wrap(str(made), r)
    if style == 1:
        return wrap(latex(made, fold_short_frac=True), r)
    if style == 2:
        return wrap(
            latex(made).replace("frac", "dfrac").replace(r"\left", "").replace(r"\right", ""), r
        )
    if style == 3 and isinstance(made, sympy.Add):
        terms = list(made.args)
        r.shuffle(terms)
        text = " + ".join(latex(term) for term in terms)
        return wrap(text.replace("+ -", "- "), r)
    if style == 4:
        return wrap(latex(made, mul_symbol="dot"), r)
    return wrap(latex(made), r)


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


def sequence(r: R) -> tuple[sympy.Expr, ...]:
    return tuple(r.choice([integer, rational, surd])(r) for _ in range(r.randint(2, 4)))


def write_items(items: tuple[sympy.Expr, ...], r: R) -> str:
    def one(item: sympy.Expr) -> str:
        return write_number(item, PlainChoice(r)) if item.is_Rational else latex(item)

    return r.choice([", ", ","]).join(one(item) for item in items)


class PlainChoice:
    """A source of randomness for numbers inside brackets: no wrapping, no comma, no name."""

    def __init__(self, r: R) -> None:
        self._r = r

    def choice(self, options: list[Any]) -> Any:
        bad = ("x", ",", "$", "%", "text", "\\(")
        fine = [
            o for o in options if not any(b in str(o) for b in bad) and not str(o).endswith(".")
        ]
        return self._r.choice([o.strip() if isinstance(o, str) else o for o in fine] or ["0"])

    def randint(self, a: int, b: int) -> int:
        return int(self._r.randint(a, b))


def write_tuple(value: tuple[sympy.Expr, ...], r: R) -> str:
    return wrap(
        r.choice(["({})", r"\left( {} \right)", r"\left({}\right)"]).format(write_items(value, r)),
        r,
    )


def change_items(value: tuple[sympy.Expr, ...], r: R) -> tuple[sympy.Expr, ...]:
    items = list(value)
    how = r.randint(0, 3)
    at = r.randrange(len(items))
    if how == 0:
        items[at] += r.choice([1, Rational(1, 10**9)])
    elif how == 1:
        items[0], items[-1] = items[-1], items[0]
    elif how == 2:
        items.append(integer(r))
    else:
        items[at] = -items[at]
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
    forms = [rf"\{{{text}\}}", rf"\left\{{ {text} \right\}}"] + ([text] if len(items) > 1 else [])
    return wrap(r.choice(forms), r)


def same_set(a: tuple[sympy.Expr, ...], b: tuple[sympy.Expr, ...]) -> bool:
    left = list(b)
    for item in a:
        match = next((other for other in left if same_expression(item, other)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def interval(r: R) -> Interval:
    ends = sorted({rational(r), rational(r), integer(r, 20) + 61})
    start = -oo if r.random() < 0.2 else ends[0]
    return Interval(start, oo if r.random() < 0.2 else ends[-1], r.random() < 0.5, r.random() < 0.5)


def write_interval(value: Interval, r: R) -> str:
    start, end = latex(value.start), latex(value.end)
    left, right = "(" if value.left_open else "[", ")" if value.right_open else "]"
    forms = [f"{left}{start}, {end}{right}", rf"\left{left} {start},{end} \right{right}"]
    forms.append(rf"x \in {left}{start}, {end}{right}")
    lower, upper = ("<" if o else r"\le " for o in (value.left_open, value.right_open))
    if value.start != -oo and value.end != oo:
        forms.append(f"{start} {lower} x {upper} {end}")
    elif value.end == oo and value.start != -oo:
        forms.append(f"x {'>' if value.left_open else '>='} {start}")
    return wrap(r.choice(forms), r)


def change_interval(value: Interval, r: R) -> Interval:
    start, end, left, right = value.args
    how = r.randint(0, 3)
    if how == 0 and start != -oo:
        return Interval(start, end, not left, right)
    if how == 1 and end != oo:
        return Interval(start, end, left, not right)
    if how == 2 and start != -oo:
        return Interval(start - 1, end, left, right)
    return Interval(start if start == -oo else start - Rational(1, 7), end + 1, left, right)


def matrix(r: R) -> Matrix:
    rows, columns = r.randint(1, 3), r.randint(1, 3)
    return Matrix(rows, columns, [rational(r) for _ in range(rows * max(columns, 1))])


def write_matrix(value: Matrix, r: R) -> str:
    body = r" \\ ".join(
        " & ".join(write_number(x, PlainChoice(r)) for x in value.row(i)) for i in range(value.rows)
    )
    name = r.choice(["pmatrix", "bmatrix"])
    return rf"\begin{{{name}}} {body} \end{{{name}}}"


def change_matrix(value: Matrix, r: R) -> Matrix:
    changes = [value.T, -value, value + Matrix.ones(*value.shape), 2 * value]
    return r.choice(changes)


def same_matrix(a: Matrix, b: Matrix) -> bool:
    return a.shape == b.shape and a == b


def equation(r: R) -> sympy.Expr:
    return integer(r, 9) * X + (integer(r, 9) or 1) * Y + (integer(r, 9) or 2)


def write_equation(value: sympy.Expr, r: R) -> str:
    value = value * r.choice([1, 1, 2, -1, Rational(1, 2)])
    parts = [value.coeff(X) * X, value.coeff(Y) * Y]
    right = r.choice([0, 1])
    left = value if right == 0 else sum(parts)
    return wrap(f"{latex(left)} = {0 if right == 0 else latex(-(value - sum(parts)))}", r)


def same_equation(a: sympy.Expr, b: sympy.Expr) -> bool:
    ratio = sympy.simplify(a / b) if b != 0 else sympy.nan
    return bool(ratio.is_number and ratio.is_finite and ratio != 0)


def change_equation(value: sympy.Expr, r: R) -> sympy.Expr:
    return r.choice([value + 1, value + X, value.subs(X, 2 * X), value - 2 * Y, value.subs(Y, -Y)])


EXPRESSION = (write_expression, change_expression, same_expression)
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
