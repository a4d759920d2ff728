"""What a step of each arm is foretold to be worth, by what the model answers before any training.

A group of m rows, of which a share q is right, has a gradient of √(q (1 - q)) times the difference
between the mean gradients of right and of wrong rows, when advantages are divided by their
deviation. From this come three formulas, which results/ratio and results/prompts explain:

* A is the ratio of the mean of √(q (1 - q)) to that of the reference.
* B allows for Adam, which divides by the size of gradients: each of A's means is divided by the
  root of the share of groups that are mixed.
* C is B times the root of the number of prompts in a step, divided by the root of the reference's.

Run from the root of the checkout; the first size is the reference, n → m of so many prompts:

    python -m benchmarks.studies.foretell sums-53 8:8:4 32:8:4 16:16:2
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, sqrt

import numpy as np

from benchmarks.markdown import table
from benchmarks.studies import outcome
from podslab.statistics.curves import Floats


@dataclass(frozen=True)
class Size:
    """How many rollouts of each prompt are generated and kept, and of how many prompts."""

    n: int
    m: int
    prompts: int

    def __str__(self) -> str:
        return f"{self.n} → {self.m}, {self.prompts} prompts"


@dataclass(frozen=True)
class Gradient:
    """What the kept groups of a size are expected to be.

    Attributes:
        size: The mean of √(q (1 - q)) over groups, where q is the share of right rows.
        mixed: The share of groups that have right and wrong rows.
    """

    size: float
    mixed: float


def expected(shares_P: Floats, size: Size) -> Gradient:
    """The groups to expect when a share `shares_P[p]` of the samples of question p is right."""
    length = 0.0
    mixed = 0.0
    for right in range(size.n + 1):
        chance_P = comb(size.n, right) * shares_P**right * (1 - shares_P) ** (size.n - right)
        kept = kept_right(right, size)
        q = kept / size.m

        length += float(chance_P.mean()) * sqrt(q * (1 - q))
        mixed += float(chance_P.mean()) * (0 < kept < size.m)
    return Gradient(length, mixed)


def kept_right(right: int, size: Size) -> int:
    """How many of the kept rows are right: as near to half of them as the rollouts allow."""
    wrong = size.n - right
    return min(max(size.m // 2, size.m - wrong), right)


def formulas(shares_P: Floats, reference: Size, size: Size) -> dict[str, float]:
    """The worth of a step of a size beside one of the reference, by each formula."""
    of_reference = expected(shares_P, reference)
    of_size = expected(shares_P, size)

    a = of_size.size / of_reference.size
    b = a * sqrt(of_reference.mixed / of_size.mixed)
    c = b * sqrt(size.prompts / reference.prompts)
    return {"A": a, "B": b, "C": c}


def shares_at_start(study: str) -> Floats:
    """The share of right samples of each question before training, over the runs of the reference.

    Args:
        study: A name in `benchmarks.studies.outcome.FOLDERS`.
    """
    samples_SPK = [curve.rewards_T_P_K[0] for curve in outcome.runs_of_reference(study)]
    return np.concatenate(samples_SPK, axis=1).mean(axis=1)


def _size(text: str) -> Size:
    n, m, prompts = (int(part) for part in text.split(":"))
    return Size(n, m, prompts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Foretell the worth of a step of each size.")
    parser.add_argument("study", choices=sorted(outcome.FOLDERS))
    parser.add_argument("sizes", type=_size, nargs="+", metavar="N:M:PROMPTS")
    chosen = parser.parse_args(arguments)

    shares_P = shares_at_start(chosen.study)
    reference, *sizes = chosen.sizes
    rows = []
    for size in sizes:
        by_formula = formulas(shares_P, reference, size)
        rows.append([str(size), *(f"{worth:.2f}" for worth in by_formula.values())])
    print(f"{100 * shares_P.mean():.1f} % right, of {len(shares_P)} questions")
    print(f"{100 * expected(shares_P, reference).mixed:.0f} % of the reference's groups are mixed")
    print("\n".join(table(["size", "A", "B", "C"], rows)))


if __name__ == "__main__":
    main()
