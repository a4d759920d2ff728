"""Answer pairs in many notations, judged by sympy, against our grader of mathematical answers.

    cd lab && python -m grading_checks.answer_pairs --pairs 4000 --seed 0

Both answers of a pair are made from sympy objects, so whether they are equal is known without
reading a notation: the judge never sees the text that the grader sees. It prints, for each kind,
how often the grader errs, beside math-verify (extra `dev`) with --math_verify, and the first 60 of
each kind of error.
"""

import argparse
import random
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from grading_checks.notations import KINDS, R


@dataclass(frozen=True)
class Pair:
    """A gold answer, another answer, and whether they are equal."""

    kind: str
    gold: str
    answer: str
    equal: bool


def make_pair(r: R) -> Pair:
    """One pair: two notations of one value, of a changed value, or a broken notation."""
    kind = r.choice(sorted(KINDS))
    make, write, change, same = KINDS[kind]
    value = make(r)
    gold = write(value, r)

    # Half are equal, 38% probably differ, 12% are no mathematics.
    draw = r.random()
    if draw < 0.5:
        return Pair(kind, gold, write(value, r), True)
    if draw < 0.88:
        other = change(value, r)
        return Pair(kind, gold, write(other, r), same(value, other))
    return Pair(f"{kind}, malformed", gold, break_notation(write(value, r), r), False)


#: What makes an inequality.
ORDER = ("<", ">", "\\le", "\\ge", "≤", "≥")


def break_notation(text: str, r: R) -> str:
    """A text that is no mathematics any more."""
    how = r.choice(["open", "close", "operator", "fraction", "words", "double"])
    if how == "double" and any(sign in text for sign in ORDER):
        how = (
            "close"  # two inequalities with "or" between them are one set, and may be the right one
        )
    at = r.randint(0, len(text))
    return {
        "open": text[:at] + r.choice("({[") + text[at:] + r.choice(["", "{"]),
        "close": text + r.choice("})"),
        "operator": text + r.choice(["+", " - ", "^", "\\cdot", "="]),
        "fraction": text + r.choice(["\\frac{1}", "\\sqrt{", "\\left("]),
        "words": r.choice(["not ", "at least ", "I doubt that it is "]) + text,
        "double": f"{text} or {text}+1",
    }[how]


def grade_pairs(pairs: list[Pair]) -> list[bool | None]:
    """What the grader says of each pair."""
    from podsgrading.math.answers import grade_answers
    from podsgrading.pool import shared_pool

    pool = shared_pool(10.0, "podsgrading.math.warm")
    return grade_answers([(pair.gold, pair.answer) for pair in pairs], pool)


def math_verify_pairs(pairs: list[Pair]) -> list[bool | None]:
    """What math-verify says of each pair, both answers given to it between dollar signs."""
    from math_verify import parse, verify

    def read(text: str) -> list[Any]:
        text = text.strip().rstrip(".")  # within the signs of mathematics it takes no full stop
        return parse(text if "$" in text or r"\(" in text else f"${text}$")

    return [bool(verify(read(pair.gold), read(pair.answer))) for pair in pairs]


def outcome(pair: Pair, verdict: bool | None) -> str:
    """How a verdict agrees with sympy's."""
    if verdict is None:
        return "unscorable"
    if pair.equal == verdict:
        return "right" if verdict else "wrong"
    return "false positive" if verdict else "false negative"


def markdown(pairs: list[Pair], verdicts: dict[str, list[bool | None]]) -> str:
    """A table of each grader's errors by kind; those that are malformed are one kind.

    Args:
        pairs: all pairs.
        verdicts: the name of each grader, and what it says of each pair.
    """
    kinds = ["malformed" if "malformed" in pair.kind else pair.kind for pair in pairs]
    heading = "| answers | pairs (equal) |"
    rule = "|---|---|"
    for name in verdicts:
        heading += f" {name}: missed | accepted wrongly |"
        rule += "---|---|"

    lines = [heading, rule]
    for kind in [*sorted(set(kinds)), "all"]:
        chosen = [place for place, other in enumerate(kinds) if kind in (other, "all")]
        equal = sum(pairs[place].equal for place in chosen)
        line = f"| {kind} | {len(chosen)} ({equal}) |"
        for of_grader in verdicts.values():
            outcomes = Counter(outcome(pairs[place], of_grader[place]) for place in chosen)
            missed = outcomes["false negative"] + outcomes["unscorable"]
            line += f" {missed} | {outcomes['false positive']} |"
        lines.append(line)
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--math_verify", action="store_true", help="beside math-verify")
    arguments = parser.parse_args()

    r = random.Random(arguments.seed)
    pairs = [make_pair(r) for _ in range(arguments.pairs)]
    started = time.perf_counter()
    verdicts = grade_pairs(pairs)
    seconds = time.perf_counter() - started

    pairs_of_outcome: dict[str, list[Pair]] = defaultdict(list)
    for pair, verdict in zip(pairs, verdicts, strict=True):
        pairs_of_outcome[outcome(pair, verdict)].append(pair)

    print(f"{len(pairs)} pairs, {sum(pair.equal for pair in pairs)} equal, {seconds:.1f} s")
    for name in ("false positive", "unscorable", "false negative"):
        print(f"\n{name}: {len(pairs_of_outcome[name])}")
        for pair in pairs_of_outcome[name][:60]:
            print(f"  {pair.kind}: gold {pair.gold!r}, answer {pair.answer!r}")

    graders = {"podsrl": verdicts}
    if arguments.math_verify:
        graders["math-verify"] = math_verify_pairs(pairs)
    print(f"\n{markdown(pairs, graders)}")
    return 1 if pairs_of_outcome["false positive"] else 0


if __name__ == "__main__":
    sys.exit(main())
