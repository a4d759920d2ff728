"""Chemical equations: read, and check that atoms and charge balance."""

import re
from collections import Counter
from typing import NamedTuple

from podsgrading.extract import closing_braces
from podsrl.errors import InvalidInputError

#: A longer text is no equation.
MAX_EQUATION = 1_000
_MAX_COUNT = 6  # digits of a coefficient or a subscript

_SUBSCRIPTS = {0x2080 + digit: str(digit) for digit in range(10)}
_SUPERSCRIPT = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]*[\u207a\u207b]")
_PLAIN = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b", "0123456789+-"
)
_ARROW = re.compile(
    r"\\xrightarrow(?:\[[^\[\]]*\])?\{[^{}]*\}"
    r"|\\(?:longrightarrow|rightarrow|Rightarrow|to|rightleftharpoons|leftrightarrow)(?![a-zA-Z])"
    r"|<?[-=]+>|<=>|[\u2192\u27f6\u21cc\u21c4\u2794\u21d2]|=+"
)
_LEAD = re.compile(
    r"(?:the )?(?:(?:correct|correctly|final|balanced|chemical) )*"
    r"(?:equation|reaction|answer|balanced)(?: is)?\s?:?\s",
    re.IGNORECASE,
)
_STATE = re.compile(
    r"_?\{?\((?:aq|s|l|g|ppt|conc|dil|cr|liq|solid|gas)\.?\)\}?|[\u2191\u2193]|\\(?:up|down)arrow",
    re.IGNORECASE,
)
_WRAPPER = re.compile(r"\\(?:ce|mathrm|text|mathbf|textbf)\s?\{")
_CHARGE = re.compile(r"\(?\{([0-9]{0,3})([+-])([0-9]{0,3})\}\)?$")
_CARET = re.compile(r"\^\s?\{?\s?([0-9]{0,3})\s?([+-])\s?([0-9]{0,3})\s?\}?")
_TIMES = re.compile(rf"([0-9]{{0,{_MAX_COUNT}}})(.*)", re.DOTALL)
_ELEMENT = re.compile(r"([A-Z][a-z]?)([0-9]*)")
_FORMULA = re.compile(r"(?:[A-Z][a-z]?[0-9]*)+")
_GROUP = re.compile(rf"[(\[]([^()\[\]]*)[)\]]([0-9]{{0,{_MAX_COUNT}}})")


class Species(NamedTuple):
    """One substance: its formula without state and spaces, its atoms and its charge."""

    formula: str
    atoms: tuple[tuple[str, int], ...]
    charge: int


class Equation(NamedTuple):
    """The two sides of an equation: (coefficient, species) in the order written."""

    left: tuple[tuple[int, Species], ...]
    right: tuple[tuple[int, Species], ...]


class NotAnEquationError(InvalidInputError):
    """The text is no chemical equation."""


def read_equation(text: str) -> Equation:
    """The equation that a text states, in plain notation, LaTeX or mhchem.

    Charges stand in braces or after a caret (Ag{+}, SO4{2-}, SO4^{2-}), a hydrate's water after
    "*" or a dot; states such as (aq) are left out.

    Raises:
        NotAnEquationError: it is none, or its coefficients are not positive integers.

    >>> read_equation("2H2(g) + O2 -> 2H2O").left[0]
    (2, Species(formula='H2', atoms=(('H', 2),), charge=0))
    """
    if len(text) > MAX_EQUATION:
        raise NotAnEquationError("too long for an equation")
    sides = _ARROW.split(_plain(text))
    if len(sides) != 2 or not all(side.strip() for side in sides):
        raise NotAnEquationError("an equation has two sides with one '=' or arrow between them")
    left, right = (tuple(_term(term) for term in _terms(side)) for side in sides)
    return Equation(left, right)


def is_balanced(equation: Equation) -> bool:
    """Are there as many atoms of each kind on both sides, and the same charge?

    >>> is_balanced(read_equation("Ag{+} + Cl{-} = AgCl")), is_balanced(read_equation("H2 = H"))
    (True, False)
    """
    total: Counter[str] = Counter()
    charge = 0
    for sign, side in ((1, equation.left), (-1, equation.right)):
        for coefficient, species in side:
            charge += sign * coefficient * species.charge
            for element, count in species.atoms:
                total[element] += sign * coefficient * count
    return charge == 0 and not any(total.values())


def balances(answer: str, gold: str) -> bool:
    """Does `answer` balance the reaction that `gold` is about: the same substances on each side?

    Any balanced multiple is right, and any order within a side. Where the gold equation itself is
    not balanced (a few in published data), its own coefficients are the only right ones.

    Raises:
        NotAnEquationError: the gold text is no equation.
    """
    wanted = read_equation(gold)
    try:
        given = read_equation(answer)
    except NotAnEquationError:
        return False
    if not is_balanced(wanted):
        return [sorted(side) for side in wanted] == [sorted(side) for side in given]
    substances = [[sorted(one for _, one in side) for side in both] for both in (wanted, given)]
    return is_balanced(given) and substances[0] == substances[1]


def _plain(text: str) -> str:
    text = text.strip()
    text = text[lead.end() :] if (lead := _LEAD.match(text)) else text
    text = re.sub(r"\\[()\[\]]", "", text).strip().rstrip(".").strip("$`*").strip().rstrip(".")
    while match := _WRAPPER.search(text):
        start = match.end() - 1
        end = closing_braces(text, start).get(start, -1)
        if end < 0:
            break
        text = text[: match.start()] + text[start + 1 : end] + text[end + 1 :]
    text = _SUPERSCRIPT.sub(lambda m: "{" + m[0].translate(_PLAIN) + "}", text)
    text = text.translate(_SUBSCRIPTS).replace("\u00b7", "*").replace("\\cdot", "*")
    text = _CARET.sub(lambda m: f"{{{m[1] or m[3]}{m[2]}}}", _STATE.sub("", text))
    text = re.sub(r"_\{?([0-9]+)\}?", r"\1", text)
    return re.sub(r"\\[,;!: ]|\\(?:left|right|quad)(?![a-zA-Z])", " ", text)


def _terms(side: str) -> list[str]:
    spaced = re.split(r"\s\+\s", side)
    terms = spaced if len(spaced) > 1 else re.split(r"\+(?![^{]*\})", side)
    return [term.strip() for term in terms]


def _term(term: str) -> tuple[int, Species]:
    match = re.match(rf"([0-9]{{1,{_MAX_COUNT}}})\s*(?![0-9/.])", term)
    coefficient = int(match[1]) if match else 1
    formula = re.sub(r"\s", "", term[match.end() :] if match else term)
    if coefficient < 1 or not formula:
        raise NotAnEquationError(f"{term!r} is not a number of some substance")
    return coefficient, _species(formula)


def _species(formula: str) -> Species:
    if closing_braces(formula, pair="()").get(0) == len(formula) - 1:
        formula = formula[1:-1]
    charge, body = 0, formula
    if match := _CHARGE.search(formula):
        charge = int(f"{match[2]}{match[1] or match[3] or 1}")
        body = formula[: match.start()]
    if body == "e-":
        body, charge = "e", -1
    atoms: Counter[str] = Counter()
    for part in body.split("*") if body != "e" else ():
        digits, rest = _TIMES.fullmatch(part).groups()  # type: ignore[union-attr] # always matches
        for element, count in _atoms(rest).items():
            atoms[element] += int(digits or 1) * count
    return Species(body, tuple(sorted(atoms.items())), charge)


def _atoms(formula: str) -> Counter[str]:
    """Atoms of a formula without charge; brackets of both kinds may nest."""
    while match := _GROUP.search(formula):
        inside, times = _atoms(match[1]), _count(match[2])
        flat = "".join(f"{element}{times * count}" for element, count in inside.items())
        formula = f"{formula[: match.start()]}{flat}{formula[match.end() :]}"
    if not _FORMULA.fullmatch(formula):
        raise NotAnEquationError(f"{formula!r} is not a formula")
    total: Counter[str] = Counter()
    for element, digits in _ELEMENT.findall(formula):
        total[element] += _count(digits)
    return total


def _count(digits: str) -> int:
    if digits and int(digits) < 1:
        raise NotAnEquationError("a formula has no zero")
    return int(digits or 1)
