"""Parsing numbers: what stands beside one, a unit of measure or a word that does no harm."""

import re

#: Each unit and its other spellings.
_UNITS = """
    dollar: dollars usd; cent: cents; euro: euros \u20ac; pound sterling: \xa3; yen: \xa5;
    %: percent percentage pct; degree: degrees \xb0 deg; radian: radians rad;
    millimeter: millimeters millimetre millimetres mm;
    centimeter: centimeters centimetre centimetres cm; meter: meters metre metres m;
    kilometer: kilometers kilometre kilometres km; inch: inches in; foot: feet ft;
    yard: yards yd; mile: miles mi; milligram: milligrams mg; gram: grams g;
    kilogram: kilograms kg; ounce: ounces oz; pound: pounds lb lbs; ton: tons tonne tonnes;
    milliliter: milliliters ml mL; liter: liters litre litres l L; gallon: gallons gal;
    second: seconds sec secs s; minute: minutes min mins; hour: hours hr hrs h; day: days;
    week: weeks; month: months; year: years yr yrs; mph:; am: AM a.m; pm: PM p.m
"""
_CANONICAL = {
    name: unit
    for unit, names in (entry.strip().split(":") for entry in _UNITS.split(";"))
    for name in (unit, *names.split())
}
_FUNCTION_NAMES = """
    pi sqrt sin cos tan cot csc log ln exp theta alpha beta gamma phi infty infinity inf oo arcsin
    arccos arctan sinh cosh tanh mod max gcd lcm frac cdot binom circ
"""
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
_NUMBER_WORDS = """
    zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
"""
NUMBERS = frozenset(_NUMBER_WORDS.split())
_PLAIN = frozenset(("an", "the", "is", "of", "or", "per", "sq", "cu", "by", "so", "for", "in"))
#: A raw word, and one that \text{} marks as a word.
_WORD = re.compile(r"(?P<marked>\u00ab[^\u00bb]*\u00bb)|[^\W\d_]+(?:['.\-/][^\W\d_]+)*")
#: How `read_number` hands over the power of a unit, so that it is not taken for a number.
SUPERSCRIPTS = {"2": "\ue002", "3": "\ue003"}
_POWER = re.compile("[\ue002\ue003]?")
_RATE = re.compile(r"/|\bper\b")
_LOOSE = re.compile(r"[\s.,:;!?*'\"()\[\]\u00b0$\u20ac\u00a3\u00a5%#]|\u201c|\u201d|`")
_POWERS = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}


def read_unit(text: str, prose: bool = False) -> str | None:
    """The known unit in what stands beside a number; "" without one, None if it is no unit.

    Args:
        text: what stands before or after the number; words from LaTeX text are in guillemets.
        prose: a single letter after a space is a unit, and any word is harmless.

    >>> read_unit(" square cm"), read_unit(" apples"), read_unit("x"), read_unit(" + 1")
    ('centimeter^2', '', None, None)
    """
    rate = _RATE.search(text)
    text = re.sub(r"(?<=[^\W\d_])-(?=\s|$)|(?:^|\s|\u00bb)/\s?(?=[^\W\d_\u00ab])", " ", text)
    found, power, rest, position = "", "", [], 0
    for match in _WORD.finditer(text):
        raw = match["marked"] is None
        if raw and not _harmless(match.group(), text[: match.start()], prose):
            return None
        squared = _POWER.match(text, match.end())
        for word in match.group().strip("\u00ab\u00bb").split() or [""]:
            name = word.strip(".,()")
            unit = _CANONICAL.get(name) or _CANONICAL.get(name.lower(), "")
            power = _POWERS.get(name.lower(), power)
            if unit and not found:
                superscript = squared.group() if squared else ""
                found = unit + ("^2" if superscript == SUPERSCRIPTS["2"] or power == "2" else "")
                found += "^3" if superscript == SUPERSCRIPTS["3"] or power == "3" else ""
            elif len(name) == 1 and not raw and not unit:
                return None
        rest.append(text[position : match.start()])
        position = squared.end() if squared and (found or "unit" in match.group()) else match.end()
    rest.append(text[position:])
    if not found and "%" in text:
        found = "%"
    if not found and "\u00b0" in text:
        found = "degree"
    if not all(_LOOSE.sub("", part) == "" for part in rest):
        return None
    return "" if rate else found  # a rate: compared by its number alone


def _harmless(word: str, before: str, prose: bool) -> bool:
    """Is a raw word a word, and not a product of variables or the name of a function?"""
    if word.lower() in _FUNCTIONS or before.endswith("\\"):
        return False
    if len(word) == 1:
        if before.strip():
            return word in ("a", "A", "I") or before[-1] in "'/"
        return prose and (word in _CANONICAL or word in "aAI") and before.endswith(" ")
    if prose or word in _CANONICAL or word.lower() in _PLAIN:
        return True
    spelled = word.lower() not in NUMBERS and re.search("[aeiouy]", word, re.IGNORECASE)
    return len(word) > 3 and bool(spelled)
