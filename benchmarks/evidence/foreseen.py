"""What docs/theory.md predicts, beside what was measured: `python -m benchmarks.evidence.foreseen`.

The two variances, and the pass rates of the embedded model, are those of `variances`. Nothing here
is fitted to the tables that are predicted. Writes results/foreseen.md in 2 seconds.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.markdown import table
from benchmarks.series import RESULTS
from podslab.recommend.choice import Cell, best, grid
from podslab.recommend.costs import Costs, Line, Sizes
from podslab.recommend.populations import MeasuredRates, Population, parse_pass_rates
from podslab.recommend.signal import Variances
from podsrl.rollout_log.files import write_whole

PAGE = RESULTS / "foreseen.md"
#: From this heading on the page is written by hand.
WRITTEN_BY_HAND = "## Where it is wrong"
#: How near to the best measured a choice is counted as right.
NEAR = 0.9

#: Of the authors: seconds per step, and accuracy every half hour, mean over 10 runs, 5 repeats.
PUBLISHED = Path(__file__).parent / "published_scaling.json"
_HOURS = 0.5  # between two published checkpoints
#: Share of the way from the untrained accuracy to the lowest peak of all arms compared.
_LEVEL = 0.95
#: How often the authors' model is right on GSM8K while it learns: 60 % to 82 %, most prompts sure.
GSM8K = "beta:0.7,0.3"


@dataclass(frozen=True)
class Arm:
    """One way to spend a step, and what came of it.

    Args:
        sizes: Prompts, rollouts generated and kept.
        seconds: The seconds of a step, measured.
        outcomes: What was measured, by what it is; of each more is better.
    """

    sizes: Sizes
    seconds: float
    outcomes: Mapping[str, float]


@dataclass(frozen=True)
class Table:
    """Arms that were trained side by side on prompts like these."""

    title: str
    arms: Sequence[Arm]
    population: Population
    variances: Variances

    def predictions(self) -> list[Cell]:
        """What the model says of each arm, at its measured seconds."""
        sizes = [arm.sizes for arm in self.arms]
        no_costs = Costs(Line(0.0, 0.0), Line(0.0, 0.0))
        cells = grid(self.population, no_costs, sizes, variances=self.variances)

        predictions = []
        for cell, arm in zip(cells, self.arms, strict=True):
            predictions.append(replace(cell, phases={"step": arm.seconds}))
        return predictions


# ---- what was measured --------------------------------------------------------------------------


def _accuracies(mean: float, end: float) -> dict[str, float]:
    """Answers right, in percent."""
    return {"mean accuracy": mean, "accuracy at the end": end}


#: Seconds of a step of 16 rows, by the number of rollouts generated.
_SECONDS_16 = {16: 0.175, 32: 0.199, 64: 0.267, 128: 0.383}
#: 120 s of training at 128 rows were 50 steps, and 31 where four times as much is generated.
_SECONDS_128 = {128: 120 / 50, 512: 120 / 31}


def _sums_16(sizes: Sizes, mean: float, end: float) -> Arm:
    return Arm(sizes, _SECONDS_16[sizes.rollouts], _accuracies(mean, end))


def _sums_128(sizes: Sizes, mean: float, end: float) -> Arm:
    return Arm(sizes, _SECONDS_128[sizes.rollouts], _accuracies(mean, end))


#: A probe that came before the theory: `config: evidence`, two seeds, each arm at its better rate.
#: 50 s of training at 16 rows, 120 s at 128.
SUMS_16 = [
    _sums_16(Sizes(1, 16, 16), mean=49.7, end=63.5),
    _sums_16(Sizes(2, 8, 8), mean=50.2, end=64.8),
    _sums_16(Sizes(4, 4, 4), mean=50.5, end=61.5),
    _sums_16(Sizes(8, 2, 2), mean=41.1, end=54.4),
    _sums_16(Sizes(1, 64, 16), mean=48.4, end=60.8),
    _sums_16(Sizes(4, 16, 4), mean=49.3, end=64.7),
    _sums_16(Sizes(8, 8, 2), mean=57.6, end=73.3),
    _sums_16(Sizes(8, 4, 2), mean=56.0, end=70.8),
    _sums_16(Sizes(8, 16, 2), mean=49.0, end=65.2),
]
SUMS_128 = [
    _sums_128(Sizes(8, 16, 16), mean=63.2, end=75.5),
    _sums_128(Sizes(32, 4, 4), mean=69.0, end=80.2),
    _sums_128(Sizes(8, 64, 16), mean=49.7, end=68.9),
    _sums_128(Sizes(64, 8, 2), mean=63.7, end=83.5),
]

#: The sizes of the methods that were trained side by side. CPPO keeps 16 of 64 rollouts, and GRPO
#: spares idle passes.
_EVERYWHERE = {
    "grpo-2": Sizes(8, 2, 2),
    "top_advantage": Sizes(8, 8, 2),
    "best-4": Sizes(16, 4, 1),
}
_ON_SUMS = {
    **_EVERYWHERE,
    "grpo-filter-rest": Sizes(2, 8, 8),
    "balanced": Sizes(4, 16, 4),
    "pods": Sizes(1, 64, 16),
}
_ON_ANSWERS = {**_EVERYWHERE, "pods-32": Sizes(2, 32, 8)}
#: The seconds that each run of a setting was given.
_SECONDS_OF_RUN = {
    "mixed-16": 40,
    "answers-easy": 60,
    "answers-middle": 80,
    "answers-hard": 150,
}


def tables() -> list[Table]:
    """The probes, the pretrained model, and the published scaling of n and of m."""
    sums, variances = read_measured(RESULTS / "variances.json")
    side_by_side = json.loads((RESULTS / "methods.json").read_text(encoding="utf-8"))

    on_sums = _side_by_side(side_by_side, "mixed-16", _ON_SUMS)
    found = [
        Table("sums, 16 rows", SUMS_16, sums, variances),
        Table("sums, 128 rows", SUMS_128, sums, variances),
        Table("sums, 16 rows, methods side by side", on_sums, sums, variances),
    ]

    for setting in ("answers-easy", "answers-middle", "answers-hard"):
        title = side_by_side[setting]["what"]
        arms = _side_by_side(side_by_side, setting, _ON_ANSWERS)
        found.append(Table(title, arms, *read_measured(RESULTS / f"variances-{setting}.json")))

    gsm8k = parse_pass_rates(GSM8K)
    published = read_published()
    by_n = [arm for arm in published if arm.sizes.m == 16]
    by_m = [arm for arm in published if arm.sizes.n == 64]
    return [
        *found,
        Table("GSM8K of the authors, n at m = 16", by_n, gsm8k, variances),
        Table("GSM8K of the authors, m at n = 64", by_m, gsm8k, variances),
    ]


def read_measured(file: Path) -> tuple[Population, Variances]:
    """Pass rates and variances of a file that `benchmarks.evidence.variances` wrote."""
    found = json.loads(file.read_text(encoding="utf-8"))
    right = tuple(found["right_of_each_prompt"])
    generated = (found["generated"],) * len(right)
    variances = Variances(between=found["between"][0], within=found["within"][0])
    return MeasuredRates(right, generated), variances


def _side_by_side(
    all_settings: Mapping[str, Any], setting: str, sizes_of: Mapping[str, Sizes]
) -> list[Arm]:
    """The methods of a setting, of those that results/methods.json has there."""
    methods = all_settings[setting]["methods"]
    arms = []
    for method, sizes in sizes_of.items():
        if method in methods:
            measured = methods[method]
            mean = 100 * float(np.mean(measured["over_run"]))
            seconds = _SECONDS_OF_RUN[setting] / measured["steps"]
            arms.append(Arm(sizes, seconds, _accuracies(mean, 100 * measured["end"])))
    return arms


def read_published() -> list[Arm]:
    """The authors' settings on one L40S, one prompt per step."""
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    untrained = published["untrained"]
    lowest_peak = min(max(setting["accuracy"]) for setting in published["settings"])
    goal = untrained + _LEVEL * (lowest_peak - untrained)

    arms = []
    for setting in published["settings"]:
        accuracies = setting["accuracy"]
        gain = float(np.mean(accuracies)) - untrained
        outcomes = {
            "speed to 95 % of the way, per hour": 1 / _hours_to(goal, [untrained, *accuracies]),
            "mean gain in accuracy": 100 * gain,
        }
        sizes = Sizes(1, setting["n"], setting["m"])
        arms.append(Arm(sizes, setting["seconds_per_step"], outcomes))
    return arms


def _hours_to(goal: float, accuracies: Sequence[float]) -> float:
    """When a curve reaches an accuracy, between its records on a straight line."""
    # Interpolation needs rising values, so checkpoints below an earlier one are left out.
    records: list[float] = []
    hours: list[float] = []
    for number, accuracy in enumerate(accuracies):
        if not records or accuracy > records[-1]:
            records.append(accuracy)
            hours.append(_HOURS * number)
    return float(np.interp(goal, records, hours))


# ---- the page -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """The model's choice beside what was measured, by one outcome.

    Args:
        outcome: What was measured.
        share: What the choice has of the best, by this outcome.
        near: The share of the arms that have at least `NEAR` of the best.
        rank_correlation: Of what is predicted and what was measured, over the arms.
        best: The sizes of the best arm.
    """

    outcome: str
    share: float
    near: float
    rank_correlation: float
    best: Sizes

    @property
    def is_right(self) -> bool:
        """Whether the choice is near the best."""
        return self.share >= NEAR

    def __str__(self) -> str:
        return (
            f"* By {self.outcome}: rank correlation {self.rank_correlation:.2f}; best is"
            f" {self.best}, and the choice has {self.share:.0%} of it."
        )


def agreements(compared: Table) -> list[Agreement]:
    """How the choice of the model does, by each outcome of the table."""
    predictions = compared.predictions()
    chosen = predictions.index(best(predictions))
    predicted = [cell.per_second for cell in predictions]

    found = []
    for outcome in compared.arms[0].outcomes:
        measured = np.array([arm.outcomes[outcome] for arm in compared.arms])
        highest = measured.max()
        found.append(
            Agreement(
                outcome=outcome,
                share=float(measured[chosen] / highest),
                near=float(np.mean(measured >= NEAR * highest)),
                rank_correlation=spearmanr(predicted, measured).statistic,
                best=compared.arms[int(np.argmax(measured))].sizes,
            )
        )
    return found


def section(compared: Table) -> list[str]:
    """The lines of a table, with what its numbers say of the choice."""
    predictions = compared.predictions()
    choice = best(predictions)
    per_second_of_first = predictions[0].per_second
    outcomes = list(compared.arms[0].outcomes)

    rows = []
    for cell, arm in zip(predictions, compared.arms, strict=True):
        name = f"**{cell.sizes}**" if cell == choice else str(cell.sizes)
        predicted = [
            f"{cell.worth:.3f}",
            f"{cell.seconds:.3g}",
            f"{cell.per_second / per_second_of_first:.2f}",
        ]
        measured = [f"{arm.outcomes[outcome]:.3g}" for outcome in outcomes]
        rows.append([name, *predicted, *measured])

    heads = ["", "worth of a step", "seconds", "learned per second", *outcomes]
    sentences = [str(agreement) for agreement in agreements(compared)]
    return [f"## {compared.title}", "", *table(heads, rows), "", *sentences, ""]


def page() -> str:
    """All tables, and how often the choice is near the best; what is written by hand stays."""
    all_agreements = []
    sections = []
    for compared in tables():
        all_agreements += agreements(compared)
        sections += section(compared)

    found = json.loads((RESULTS / "variances.json").read_text(encoding="utf-8"))
    head = _HEAD.format(
        prompts=found["prompts"],
        kept=found["kept"],
        generated=found["generated"],
        between=_with_interval(found["between"]),
        within=_with_interval(found["within"]),
        halves=found["cosine_of_halves"],
        across=found["cosine_of_prompts"],
        near=sum(agreement.is_right for agreement in all_agreements),
        counted=len(all_agreements),
        chance=sum(agreement.near for agreement in all_agreements),
        gsm8k=GSM8K,
    )

    before = PAGE.read_text(encoding="utf-8")
    by_hand = before[before.index(WRITTEN_BY_HAND) :]
    return "\n".join([head, *sections, by_hand])


def _with_interval(variance: Sequence[float]) -> str:
    value, low, high = variance
    return f"{value:.0f} ({low:.0f} to {high:.0f})"


_HEAD = """# Foreseen: prompts, n and m by the model, and as measured

`python -m benchmarks.evidence.variances` (2 minutes) measured the two numbers of [the
model](../docs/theory.md), and `python -m benchmarks.evidence.foreseen` writes this page.

**The two numbers**, of the embedded model before training, from {prompts} prompts with {kept} of
{generated} rollouts kept. The variance between prompts is {between}, that within a prompt
{within} (95 % intervals over prompts). The gradients of two halves of a prompt's rows have a
mean cosine of {halves:.2f}, those of two prompts {across:.3f}.

**How often the choice is within 10 % of the best measured: {near} of {counted} times.** An arm
drawn at random would be {chance:.1f} times. In each table the choice is bold. *Learned per
second* is predicted, relative to the first line; the seconds are measured. For GSM8K pass rates
of `{gsm8k}` are assumed, and the variances are those of the embedded model. The pretrained
model has [its own](language-model.md#more-prompts-or-more-rollouts-of-each).
"""


if __name__ == "__main__":
    write_whole(PAGE, page().encode())
    print(PAGE)
