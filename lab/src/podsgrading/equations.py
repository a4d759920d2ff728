"""Chemical equations: read, and check that atoms and charge balance."""

import re
from collections import Counter
from typing import NamedTuple

from podsgrading.extract import closing_braces
from podsrl.errors import InvalidInputError

#: A longer text is no equation.
MAX_EQUATION = 1_000
#: Digits of a coefficient or a subscript: more are no chemistry.
_MAX_COUNT = 6

# Unicode's small digits and signs, in ASCII.
_SUBSCRIPTS = {0x2080 + digit: str(digit) for digit in range(10)}
_SUPERSCRIPTS = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b", "0123456789+-"
)
_RAISED_CHARGE = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]*[\u207a\u207b]")

# How an equation is written as a whole.
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
_MATHEMATICS = re.compile(r"\\[()\[\]]")
_WRAPPER = re.compile(r"\\(?:ce|mathrm|text|mathbf|textbf)\s?\{")
_SPACE = re.compile(r"\\[,;!: ]|\\(?:left|right|quad)(?![a-zA-Z])")

# Marks on one substance.
_STATE = re.compile(
    r"_?\{?\((?:aq|s|l|g|ppt|conc|dil|cr|liq|solid|gas|)\.?\)\}?|[\u2191\u2193]|\\(?:up|down)arrow",
    re.IGNORECASE,
)
_CARET = re.compile(r"\^\s?\{?\s?([0-9]{0,3})\s?([+-])\s?([0-9]{0,3})\s?\}?")
_CHARGE = re.compile(r"\(?\{([0-9]{0,3})([+-])([0-9]{0,3})\}\)?$")
_SUBSCRIPT = re.compile(r"_\{?([0-9]+)\}?")

# A plus sign between spaces, or one that is in no charge's braces.
_SPACED_PLUS = re.compile(r"\s\+\s")
_PLUS = re.compile(r"\+(?![^{]*\})")
# "2 H2O", but not "2/3 H2O" nor "0.5 O2".
_COEFFICIENT = re.compile(rf"([0-9]{{1,{_MAX_COUNT}}})\s*(?![0-9/.])")

# The parts of a formula.
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

    left, right = sides
    return Equation(_side(left), _side(right))


def is_balanced(equation: Equation) -> bool:
    """Are there as many atoms of each kind on both sides, and the same charge?

    >>> is_balanced(read_equation("Ag{+} + Cl{-} = AgCl")), is_balanced(read_equation("H2 = H"))
    (True, False)
    """
    # The left side less the right one.
    excess_atoms: Counter[str] = Counter()
    excess_charge = 0

    for sign, side in ((1, equation.left), (-1, equation.right)):
        for coefficient, species in side:
            excess_charge += sign * coefficient * species.charge
            for element, count in species.atoms:
                excess_atoms[element] += sign * coefficient * count

    return excess_charge == 0 and not any(excess_atoms.values())


def balances(answer: str, gold: str) -> bool:
    """Does `answer` balance the reaction that `gold` is about: the same substances on each side?

    Any balanced multiple is right, and any order within a side. Where the gold equation itself is
    not balanced (a few in published data), its own coefficients are the only right ones.

    Raises:
        NotAnEquationError: the gold text is no equation.
    """
    gold_equation = read_equation(gold)
    try:
        equation = read_equation(answer)
    except NotAnEquationError:
        return False

    if not is_balanced(gold_equation):
        return [sorted(side) for side in equation] == [sorted(side) for side in gold_equation]
    return is_balanced(equation) and _substances(equation) == _substances(gold_equation)


def same_text(answer: str, gold: str) -> bool:
    """Are two equations the same text, whatever their arrows, spaces and signs of LaTeX?

    >>> same_text("KBr0 -> K", "KBr0 = K"), same_text("KBrO = K", "KBr0 = K")
    (True, False)
    """
    first, second = ("".join(_ARROW.sub("=", _plain(text)).split()) for text in (answer, gold))
    return first == second


def _substances(equation: Equation) -> tuple[list[Species], list[Species]]:
    """The substances of each side, without their coefficients and in one order."""
    left = sorted(species for _, species in equation.left)
    right = sorted(species for _, species in equation.right)
    return left, right


def _plain(text: str) -> str:
    """The equation in ASCII, its charges in braces; without sentence, states and LaTeX."""
    text = _without_wrappers(_without_sentence(text))

    text = _RAISED_CHARGE.sub(lambda match: f"{{{match[0].translate(_SUPERSCRIPTS)}}}", text)
    text = text.translate(_SUBSCRIPTS)
    text = text.replace("\u00b7", "*").replace("\\cdot", "*")

    text = _STATE.sub("", text)
    text = _CARET.sub(lambda match: f"{{{match[1] or match[3]}{match[2]}}}", text)
    text = _SUBSCRIPT.sub(r"\1", text)
    return _SPACE.sub(" ", text)


def _without_sentence(text: str) -> str:
    """`text` without "The balanced equation is", signs of mathematics and full stops."""
    text = text.strip()
    lead = _LEAD.match(text)
    if lead is not None:
        text = text[lead.end() :]

    text = _MATHEMATICS.sub("", text)
    # A full stop may stand inside or outside the dollar signs, or both.
    text = text.strip().rstrip(".").strip("$`*")
    return text.strip().rstrip(".")


def _without_wrappers(text: str) -> str:
    r"""`text` with what a \ce{} or \mathrm{} holds in its place."""
    while match := _WRAPPER.search(text):
        brace = match.end() - 1
        closed = closing_braces(text, brace)
        if brace not in closed:
            break
        end = closed[brace]
        text = text[: match.start()] + text[brace + 1 : end] + text[end + 1 :]
    return text


def _side(side: str) -> tuple[tuple[int, Species], ...]:
    """The coefficient and the substance of each term."""
    terms = _SPACED_PLUS.split(side)
    if len(terms) == 1:
        terms = _PLUS.split(side)
    return tuple(_term(term.strip()) for term in terms)


def _term(term: str) -> tuple[int, Species]:
    match = _COEFFICIENT.match(term)
    coefficient = int(match[1]) if match else 1
    formula = term[match.end() :] if match else term
    formula = "".join(formula.split())

    if coefficient < 1 or not formula:
        raise NotAnEquationError(f"{term!r} is not a number of some substance")
    return coefficient, _species(formula)


def _species(formula: str) -> Species:
    """The substance of a formula without spaces, such as "(SO4{2-})"."""
    in_brackets = closing_braces(formula, pair="()").get(0) == len(formula) - 1
    if in_brackets:
        formula = formula[1:-1]

    charge = 0
    if match := _CHARGE.search(formula):
        sign = match[2]
        size = match[1] or match[3] or "1"
        charge = int(sign + size)
        formula = formula[: match.start()]

    # An electron has a charge and no atoms.
    if formula == "e-":
        return Species("e", (), -1)
    if formula == "e":
        return Species("e", (), charge)

    atoms: Counter[str] = Counter()
    for part in formula.split("*"):  # a salt, and its water
        digits, part_formula = _TIMES.fullmatch(part).groups()  # type: ignore[union-attr] # always matches
        for element, count in _atoms(part_formula).items():
            atoms[element] += int(digits or 1) * count
    return Species(formula, tuple(sorted(atoms.items())), charge)


def _atoms(formula: str) -> Counter[str]:
    """Atoms of a formula without charge; brackets of both kinds may nest."""
    # The innermost group is written out, Ca(OH)2 as CaO2H2, until none is left.
    while match := _GROUP.search(formula):
        times = _count(match[2])
        group = "".join(f"{element}{times * count}" for element, count in _atoms(match[1]).items())
        formula = f"{formula[: match.start()]}{group}{formula[match.end() :]}"

    if not _FORMULA.fullmatch(formula):
        raise NotAnEquationError(f"{formula!r} is not a formula")

    atoms: Counter[str] = Counter()
    for element, digits in _ELEMENT.findall(formula):
        atoms[element] += _count(digits)
    return atoms


def _count(digits: str) -> int:
    if not digits:
        return 1
    if int(digits) < 1:
        raise NotAnEquationError("a formula has no zero")
    return int(digits)
