r"""Real gold answers against deliberate variants: equivalent forms are right, altered values wrong.

    python -m grading_checks.real_data --data FOLDER --pairs 4000 --seed 0

FOLDER holds gsm8k/test.jsonl, math500/test.jsonl, amc23/test.jsonl, sciknoweval/*.jsonl, or some
of them, as their authors publish them. Each variant keeps or changes the value by its
construction, so that no second grader has to say which. What is graded otherwise is printed.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from podsgrading.multiple_choice import is_letter
from podslab.tasks import Task, get_task


class Pair(NamedTuple):
    """A completion, the row that it answers, and what is known of it."""

    task: str
    variant: str
    row: dict[str, Any]
    completion: str
    is_right: bool


#: A change of an answer's text; None where it does not apply.
Change = Callable[[str, random.Random], str | None]

# ---- ways to state an answer, none of which changes it

STATED: dict[str, Callable[[str], str]] = {
    "a tag": lambda answer: f"<think>\nwork\n</think>\n<answer>\n{answer}\n</answer>",
    "a box": lambda answer: rf"So we get $\boxed{{{answer}}}$.",
    "a box in a tag": lambda answer: rf"<answer>$\boxed{{{answer}}}$</answer>",
    "an earlier wrong box": lambda answer: rf"\boxed{{-77123}}? No. Then \[\boxed{{{answer}}}\]",
    "a box, and a check": lambda answer: rf"$\boxed{{{answer}}}$ Let me check. That is correct.",
    "a sentence": lambda answer: f"We add. The final answer is ${answer}$.",
    "bold type": lambda answer: rf"**Answer:** $\boxed{{{answer}}}$",
}
TAKEN_BACK: dict[str, Callable[[str], str]] = {
    "taken back": lambda answer: rf"$\boxed{{{answer}}}$. Actually no, the answer is -77123.",
    "an earlier answer": lambda answer: rf"First $\boxed{{{answer}}}$, then \boxed{{-77123}}.",
    "cut off": lambda answer: rf"\boxed{{{answer}}} and then \boxed{{{answer}",
}


def _integer(text: str) -> int | None:
    is_integer = re.fullmatch(r"-?(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})", text)
    return int(text.replace(",", "")) if is_integer else None


def _fraction(text: str) -> Fraction | None:
    match = re.fullmatch(r"(-?)\\[dt]?frac\{([0-9]{1,6})\}\{([0-9]{1,6})\}", text)
    if match is None or not int(match[3]):
        return None
    return Fraction(int(match[1] + match[2]), int(match[3]))


def _of_integer(change: Callable[[int], str | None]) -> Change:
    def changed(text: str, _: random.Random) -> str | None:
        number = _integer(text)
        return None if number is None else change(number)

    return changed


def _of_fraction(change: Callable[[Fraction], str | None]) -> Change:
    def changed(text: str, _: random.Random) -> str | None:
        value = _fraction(text)
        return None if value is None else change(value)

    return changed


def _with_commas(number: int) -> str | None:
    return f"{number:,}" if abs(number) >= 1_000 else None


def _terminating(value: Fraction) -> str | None:
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return None
    text = f"{float(value):.10f}".rstrip("0")
    return text if Fraction(text) == value else None


def _shuffled_list(text: str, chance: random.Random) -> str | None:
    """The items of a plain list in another order."""
    if _integer(text) is not None:  # "58,500" is one number
        return None
    items = [item.strip() for item in text.split(",")]
    if len(items) < 2 or any(_integer(item) is None for item in items):
        return None
    return ", ".join(chance.sample(items, len(items)))


def _changed_digit(text: str, chance: random.Random) -> str | None:
    """One digit of the text is another one; digits of exponents and bases are digits, too."""
    places = [match.start() for match in re.finditer(r"[1-9]", text)]
    if not places:
        return None
    place = chance.choice(places)
    other = chance.choice([digit for digit in "123456789" if digit != text[place]])
    return text[:place] + other + text[place + 1 :]


SAME: dict[str, Change] = {
    "as it stands": lambda text, _: text,
    "with spaces": lambda text, _: f"  {text}  ",
    "with a full stop": lambda text, _: f"{text}.",
    "thousands": _of_integer(_with_commas),
    "a decimal zero": _of_integer(lambda number: f"{number}.0"),
    "a sum": _of_integer(lambda number: f"{number - 3} + 3 = {number}"),
    "a whole fraction": _of_integer(lambda number: rf"\frac{{{2 * number}}}{{2}}"),
    "a named value": _of_integer(lambda number: f"x = {number}"),
    "a plus": _of_integer(lambda number: f"+{number}" if number > 0 else None),
    "text": _of_integer(lambda number: rf"\text{{{number}}}"),
    "a slash": _of_fraction(lambda value: f"{value.numerator}/{value.denominator}"),
    "not reduced": _of_fraction(
        lambda value: rf"\frac{{{3 * value.numerator}}}{{{3 * value.denominator}}}"
    ),
    "a decimal": _of_fraction(_terminating),
    "both signs": _of_fraction(
        lambda value: rf"-\frac{{{-value.numerator}}}{{{value.denominator}}}"
    ),
    "dfrac": lambda text, _: text.replace(r"\frac", r"\dfrac") if r"\frac" in text else None,
    "tfrac": lambda text, _: text.replace(r"\frac", r"\tfrac") if r"\frac" in text else None,
    "without left and right": lambda text, _: (
        text.replace(r"\left", "").replace(r"\right", "") if r"\left(" in text else None
    ),
    "with left and right": lambda text, _: (
        text.replace("(", r"\left(").replace(")", r"\right)")
        if "(" in text and "\\left" not in text
        else None
    ),
    "another order": _shuffled_list,
    "degrees left out": lambda text, _: text.replace(r"^\circ", "") if r"^\circ" in text else None,
    "times one": lambda text, _: rf"1 \cdot \sqrt{text[5:]}" if text.startswith(r"\sqrt") else None,
}
ALTERED: dict[str, Change] = {
    "one more": _of_integer(lambda number: str(number + 1)),
    "one less": _of_integer(lambda number: str(number - 1)),
    "another sign": _of_integer(lambda number: str(-number) if number else None),
    "ten times": _of_integer(lambda number: str(10 * number) if number else None),
    "a hundredth more": _of_integer(lambda number: f"{number}.01"),
    "about": _of_integer(lambda number: f"more than {number}"),
    "one of two": _of_integer(lambda number: f"{number} or {number + 2}"),
    "a pair": _of_integer(lambda number: f"({number}, {number})"),
    "power": _of_integer(lambda number: f"{number}^2" if number not in (0, 1) else None),
    "factorial": _of_integer(lambda number: rf"({number})!" if number > 2 else None),
    "upside down": _of_fraction(
        lambda value: (
            rf"\frac{{{value.denominator}}}{{{value.numerator}}}" if abs(value) != 1 else None
        )
    ),
    "rounded": _of_fraction(
        lambda value: f"{float(value):.2f}" if Fraction(f"{float(value):.2f}") != value else None
    ),
    "one more below": _of_fraction(
        lambda value: rf"\frac{{{value.numerator}}}{{{value.denominator + 1}}}"
    ),
    "another digit": _changed_digit,
    "plus one": lambda text, _: (
        f"{text} + 1" if re.fullmatch(r"[0-9a-z\\{}^ +*-]+", text) and "=" not in text else None
    ),
    "nothing": lambda text, _: "?",
}

#: In a grade-school answer "(40)!" is 40 with an exclamation mark.
_NOT_TOLD = {("gsm8k", "factorial")}

# ---- chemistry

_TERM = re.compile(r"^([0-9]*)\s*(.+)$")


def _equation_sides(equation: str) -> list[list[str]] | None:
    sides = [side.split(" + ") for side in equation.split(" = ")]
    return [[term.strip() for term in side] for side in sides] if len(sides) == 2 else None


def _joined(sides: list[list[str]], arrow: str = " = ") -> str:
    return arrow.join(" + ".join(side) for side in sides)


def _one_more(term: str) -> str:
    match = _TERM.match(term)
    return f"{int(match[1] or 1) + 1}{match[2]}" if match else term


def chemistry_variants(
    row: dict[str, Any], chance: random.Random
) -> Iterator[tuple[str, str, bool]]:
    """Variants of the answer of a row: name, text, whether it is right."""
    gold = str(row["answer"])
    if row["choices"]:
        labels = "ABCDEFGHIJ"[: len(row["choices"])]
        text = row["choices"][labels.index(gold)]
        others = [label for label in labels if label != gold]
        other = chance.choice(others)
        yield from ((f"option {form}", form.format(gold), True) for form in ("{}", "({})", "{})"))
        yield "option and text", f"{gold}) {text}", True
        yield "text alone", str(text), row["choices"].count(text) == 1
        yield "another option", other, False
        yield "another text", f"{other}) {row['choices'][labels.index(other)]}", False
        yield "two options", f"{gold} or {other}", False
        return

    sides = _equation_sides(gold)
    if sides is None:
        return
    turned = [side[::-1] for side in sides]
    yield "another order", _joined(turned), True
    yield "an arrow", _joined(sides, " -> "), True
    yield "LaTeX's arrow", _joined(sides, r" \rightarrow "), True
    broken = [list(side) for side in sides]
    side = chance.randrange(2)
    term = chance.randrange(len(broken[side]))
    broken[side][term] = _one_more(broken[side][term])
    yield "one more molecule", _joined(broken), False
    if len(sides[0]) > 1:
        yield "a substance left out", _joined([sides[0][1:], sides[1]]), False


# ---- pairs


def pairs_of(task: str, row: dict[str, Any], chance: random.Random) -> list[Pair]:
    """All pairs of a row."""
    if task == "sciknoweval":
        return [
            Pair(task, variant, row, f"<answer>\n{text}\n</answer>", is_right)
            for variant, text, is_right in chemistry_variants(row, chance)
        ]

    gold = str(row["answer"])
    pairs = []
    for is_right, changes in ((True, SAME), (False, ALTERED)):
        for name, change in changes.items():
            answer = change(gold, chance)
            if answer is None or (task, name) in _NOT_TOLD:
                continue
            if is_right or answer != gold:
                how, stated = chance.choice(list(STATED.items()))
                pairs.append(Pair(task, f"{name}, in {how}", row, stated(answer), is_right))

    # A later box that names no option is passed over where the gold answer is a letter.
    later = {name: stated for name, stated in TAKEN_BACK.items() if not is_letter(gold)}
    pairs += [Pair(task, how, row, stated(gold), False) for how, stated in later.items()]
    return pairs


def drawn_pairs(data: Path, count: int, seed: int) -> list[Pair]:
    """So many pairs, a quarter of them of each task or all that a small one has."""
    chance = random.Random(seed)
    by_task = []
    for name, split in (
        ("gsm8k", "test"),
        ("math500", "math500"),
        ("amc23", "amc23"),
        ("sciknoweval", "test"),
    ):
        if not (data / name).is_dir():
            continue
        task = "math" if name in ("math500", "amc23") else name
        rows = get_task(task).load(split, str(data / name))
        by_task.append([pair for row in rows for pair in pairs_of(task, row, chance)])

    pairs: list[Pair] = []
    for number, of_task in enumerate(sorted(by_task, key=len)):
        share = (count - len(pairs)) // (len(by_task) - number)
        pairs += chance.sample(of_task, min(share, len(of_task)))
    return pairs


def graded(pairs: list[Pair]) -> list[bool | None]:
    """The verdict on each pair; None: it could not be scored."""
    tasks: dict[str, Task] = {name: get_task(name) for name in {pair.task for pair in pairs}}
    verdicts: list[bool | None] = [None] * len(pairs)
    for name, task in tasks.items():
        places = [place for place, pair in enumerate(pairs) if pair.task == name]
        grades = task.grade_batch(
            [pairs[place].completion for place in places], [pairs[place].row for place in places]
        )
        for place, grade in zip(places, grades, strict=True):
            verdicts[place] = grade.answer
    return verdicts


def main() -> None:
    """Grade, and print each pair on which the grader is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    pairs = drawn_pairs(args.data, args.pairs, args.seed)
    counts: Counter[tuple[str, bool, bool | None]] = Counter()
    for pair, verdict in zip(pairs, graded(pairs), strict=True):
        counts[pair.task, pair.is_right, verdict] += 1
        if verdict is not pair.is_right:
            print(f"{pair.task}: {pair.variant}: gold {pair.row['answer']!r}: {verdict}")
            print(f"    {pair.completion!r}")
    for (task, is_right, verdict), count in sorted(counts.items(), key=str):
        print(f"{task}: {count} that are {is_right} are graded {verdict}")


if __name__ == "__main__":
    main()
