"""The rates at which a comparison calls equal arms different, and finds a true difference.

    python -m benchmarks.false_alarms --page results/false-alarms.md    # some minutes of one core

Made-up studies: their runs are drawn and not trained. All else is the laboratory's own: the looks
of `pods compare train.py`, and the verdicts of every comparison.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.markdown import table
from podslab.engine.looks import Looks, train_in_looks
from podslab.own_script.plan import LOOKS
from podslab.statistics.curves import Floats
from podslab.statistics.differences import BETTER, OPEN, verdicts
from podsrl.rollout_log.files import write_whole

REFERENCE = "reference"


@dataclass(frozen=True)
class MadeUp:
    """A made-up study: how its runs are drawn.

    A question is right with a probability of its own, around the mean of its run. The mean of a
    run is that of its arm and a part of its seed's own.

    Args:
        name: What it is.
        arms: The number of arms beside the reference.
        lead: How far the first of them is ahead of the reference; the others are equal to it.
        between_seeds: The standard deviation of a run's mean over seeds.
        questions: The number of questions.
        answers: The number of answers to each.
        looks: After how many seeds the runs are looked at.
    """

    name: str
    arms: int = 3
    lead: float = 0.0
    between_seeds: float = 0.02
    questions: int = 128
    answers: int = 4
    looks: Looks = LOOKS

    def values(self, draw: np.random.Generator, mean: float, difficulty_Q: Floats) -> Floats:
        """The share of right answers of each question, of one run."""
        of_run = mean + self.between_seeds * draw.standard_normal()
        right_Q = 1 / (1 + np.exp(-(np.log(of_run / (1 - of_run)) + difficulty_Q)))
        shares: Floats = draw.binomial(self.answers, right_Q) / self.answers
        return shares


@dataclass(frozen=True)
class Found:
    """The findings of many made-up studies of a kind.

    Args:
        any_alarm: The share of studies that called an equal arm better or worse.
        lead: The share that called the arm better that is ahead; None where none is.
        seeds: The mean number of seeds.
    """

    any_alarm: float
    lead: float | None
    seeds: float


def study(made_up: MadeUp, seed: int) -> tuple[dict[str, str], int]:
    """The verdict on each arm of one made-up study, and its number of seeds."""
    draw = np.random.default_rng(seed)
    difficulty_Q = draw.standard_normal(made_up.questions)
    means = {REFERENCE: 0.4, **{f"arm-{place}": 0.4 for place in range(made_up.arms)}}
    means["arm-0"] += made_up.lead
    values: dict[str, list[Floats]] = {arm: [] for arm in means}

    def train(seeds: Sequence[int]) -> None:
        for _ in seeds:
            for arm, mean in means.items():
                values[arm].append(made_up.values(draw, mean, difficulty_Q))

    def judged(level: float) -> dict[str, str]:
        arrays = {arm: np.array(of_seeds) for arm, of_seeds in values.items()}
        return {found.arm: found.says for found in verdicts(arrays, REFERENCE, level)}

    looked = train_in_looks(
        made_up.looks,
        train,
        is_decided=lambda seeds, level: OPEN not in judged(level).values(),
        has_time=lambda seeds: True,
    )
    return judged(looked.level), looked.seeds


def many(made_up: MadeUp, studies: int) -> Found:
    """Make up so many studies, each from a seed of its own."""
    alarms = leads = 0
    seeds = []
    for number in range(studies):
        said, trained = study(made_up, number)
        seeds.append(trained)
        leads += said.pop("arm-0") == BETTER if made_up.lead else 0
        alarms += any(verdict != OPEN for verdict in said.values())
    lead = leads / studies if made_up.lead else None
    return Found(alarms / studies, lead, float(np.mean(seeds)))


#: What is made up: equal arms first.
STUDIES = (
    MadeUp("3 equal arms, looks after 2, 4 and 8 seeds"),
    MadeUp("3 equal arms, seeds far apart", between_seeds=0.08),
    MadeUp("3 equal arms, seeds alike", between_seeds=0.0),
    MadeUp("3 equal arms, 16 questions", questions=16),
    MadeUp("11 equal arms, one look after 8 seeds", arms=11, looks=Looks((8,))),
    MadeUp("one equal arm, one look after 2 seeds", arms=1, looks=Looks((2,))),
    MadeUp("one arm of 3 ahead by 5 points", lead=0.05),
    MadeUp("one arm of 3 ahead by 10 points", lead=0.10),
    MadeUp("one arm of 3 ahead by 20 points", lead=0.20),
    MadeUp("one arm ahead by 10 points, one look after 8 seeds", 1, 0.10, looks=Looks((8,))),
)


def page(studies: int) -> str:
    """The page of all kinds."""
    rows = []
    for made_up in STUDIES:
        found = many(made_up, studies)
        lead = "" if found.lead is None else f"{found.lead:.1%}"
        rows.append([made_up.name, f"{found.any_alarm:.1%}", lead, f"{found.seeds:.1f}"])
    heads = ["made-up study", "an equal arm called different", "the lead found", "seeds, mean"]
    return "\n".join([_HEAD.format(studies=studies), *table(heads, rows), ""])


_HEAD = """# How often a comparison is wrong about equal arms

`python -m benchmarks.false_alarms --page results/false-alarms.md` makes this page from {studies}
made-up studies of each kind. Their runs are drawn and not trained: 128 questions with 4 answers
each, 40 % right with the reference, and a standard deviation of 2 points between seeds, unless the
name says otherwise. All else is what `pods compare` does: its looks, and its rule. An arm is called
different where its p by Student's t over seeds, adjusted by Holm for the number of arms, is below
the level of the look, and its bootstrap interval over seeds and questions lies on one side of 0.

The rule promises at most 5 % in the first column of numbers, over all arms and looks together.
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--studies", type=int, default=200)
    args = parser.parse_args()
    write_whole(args.page, page(args.studies).encode())


if __name__ == "__main__":
    main()
