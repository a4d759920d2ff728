"""What docs/theory.md predicts, beside what was measured: `python -m benchmarks.evidence.foreseen`.

The two variances, and the pass rates of the embedded model, are those of `variances`. Nothing here
is fitted to the tables that are predicted. Writes results/foreseen.md in 2 seconds.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from benchmarks.evidence.harness import NEAR, RESULTS
from benchmarks.evidence.rows_settings import SETTINGS
from benchmarks.evidence.variances import RESULT as VARIANCES
from podslab.recommend.choice import Cell, best, grid
from podslab.recommend.costs import Costs, Line, Sizes
from podslab.recommend.populations import MeasuredRates, Population, parse_pass_rates
from podslab.recommend.signal import Variances
from podsrl.rollout_log.files import write_whole

PAGE = RESULTS / "foreseen.md"
#: From this heading on the page is written by hand.
TAIL = "## Where it is wrong"
#: Of the authors: seconds per step, and accuracy every half hour, mean over 10 runs, 5 repeats.
PUBLISHED = Path(__file__).parent / "published_scaling.json"
#: Share of the way from the untrained accuracy to the lowest peak of all arms compared.
LEVEL = 0.95
HOURS = 0.5  # between two published checkpoints


@dataclass(frozen=True)
class Arm:
    """One way to spend a step, and what came of it: of each outcome more is better."""

    sizes: Sizes
    measured: Mapping[str, float]


@dataclass(frozen=True)
class Table:
    """Arms that were trained side by side, at these seconds per step, on prompts like these."""

    what: str
    arms: Sequence[Arm]
    seconds: Callable[[Sizes], float]
    population: Population
    variances: Variances

    def cells(self) -> list[Cell]:
        """The predictions, arm by arm."""
        free = Costs(Line(0.0, 0.0), Line(0.0, 0.0))
        sizes = (arm.sizes for arm in self.arms)
        cells = grid(self.population, free, sizes, variances=self.variances)
        return [replace(cell, phases={"step": self.seconds(cell.sizes)}) for cell in cells]


def accuracy(mean: float, end: float) -> dict[str, float]:
    """Answers right, in percent."""
    return {"mean accuracy": mean, "accuracy at the end": end}


#: A probe that came before the theory: `config: evidence`, two seeds, each arm at its better rate.
#: 50 s of training at 16 rows, 120 s at 128.
ROWS_16 = [
    Arm(Sizes(1, 16, 16), accuracy(49.7, 63.5)),
    Arm(Sizes(2, 8, 8), accuracy(50.2, 64.8)),
    Arm(Sizes(4, 4, 4), accuracy(50.5, 61.5)),
    Arm(Sizes(8, 2, 2), accuracy(41.1, 54.4)),
    Arm(Sizes(1, 64, 16), accuracy(48.4, 60.8)),
    Arm(Sizes(4, 16, 4), accuracy(49.3, 64.7)),
    Arm(Sizes(8, 8, 2), accuracy(57.6, 73.3)),
    Arm(Sizes(8, 4, 2), accuracy(56.0, 70.8)),
    Arm(Sizes(8, 16, 2), accuracy(49.0, 65.2)),
]
ROWS_128 = [
    Arm(Sizes(8, 16, 16), accuracy(63.2, 75.5)),
    Arm(Sizes(32, 4, 4), accuracy(69.0, 80.2)),
    Arm(Sizes(8, 64, 16), accuracy(49.7, 68.9)),
    Arm(Sizes(64, 8, 2), accuracy(63.7, 83.5)),
]
#: Seconds per step by rollouts, of results: 16 rows. Those of 128 rows made 50 and 31 steps.
SECONDS_16 = {16: 0.175, 32: 0.199, 64: 0.267, 128: 0.383}
SECONDS_128 = {128: 120 / 50, 512: 120 / 31}
#: How often the authors' model is right on GSM8K while it learns: 60 % to 82 %, most prompts sure.
GSM8K = "beta:0.7,0.3"
#: Methods that were trained side by side; CPPO keeps 16 of 64 rollouts. GRPO spares idle passes.
_BOTH = {"grpo-2": Sizes(8, 2, 2), "top_advantage": Sizes(8, 8, 2)}
_BOTH |= {"best-4": Sizes(16, 4, 1)}
_SETS = _BOTH | {"pods-32": Sizes(2, 32, 8)}
OF_SETTINGS = {f"answers-{one}": _SETS for one in ("easy", "middle", "hard")}
OF_SETTINGS["mixed-16"] = _BOTH | {
    "grpo-filter-rest": Sizes(2, 8, 8),
    "balanced": Sizes(4, 16, 4),
    "pods": Sizes(1, 64, 16),
}


def tables(root: Path) -> list[Table]:
    """The probes, the pretrained model, and the published scaling of n and of m."""
    sums, small = measured(root / VARIANCES)
    seconds_of, arms = published()
    gsm8k = parse_pass_rates(GSM8K)
    by_n = [arm for arm in arms if arm.sizes.m == 16]
    by_m = [arm for arm in arms if arm.sizes.n == 64]
    beside = {name: side_by_side(root, name) for name in OF_SETTINGS}
    of_mixed = beside.pop("mixed-16")
    sets = {name: measured(root / RESULTS / f"variances-{name}.json") for name in beside}
    return [
        Table("sums, 16 rows", ROWS_16, lambda s: SECONDS_16[s.rollouts], sums, small),
        Table("sums, 128 rows", ROWS_128, lambda s: SECONDS_128[s.rollouts], sums, small),
        Table("sums, 16 rows, methods side by side", *of_mixed, sums, small),
        *(Table(SETTINGS[name].what, *beside[name], *own) for name, own in sets.items()),
        Table("GSM8K of the authors, n at m = 16", by_n, seconds_of.__getitem__, gsm8k, small),
        Table("GSM8K of the authors, m at n = 64", by_m, seconds_of.__getitem__, gsm8k, small),
    ]


def measured(file: Path) -> tuple[Population, Variances]:
    """Pass rates and variances of a file that `benchmarks.evidence.variances` wrote."""
    found = json.loads(file.read_text())
    right = tuple(found["right_of_each_prompt"])
    rates = MeasuredRates(right, (found["generated"],) * len(right))
    return rates, Variances(found["between"][0], found["within"][0])


def side_by_side(root: Path, setting: str) -> tuple[list[Arm], Callable[[Sizes], float]]:
    """Outcomes and seconds per step of the methods of a setting, as results/methods.json."""
    found = json.loads((root / RESULTS / "methods.json").read_text())[setting]["methods"]
    arms, seconds = [], {}
    for method, sizes in OF_SETTINGS[setting].items():
        if method not in found:
            continue
        right, end = 100 * float(np.mean(found[method]["over_run"])), 100 * found[method]["end"]
        arms.append(Arm(sizes, accuracy(right, end)))
        seconds[sizes] = SETTINGS[setting].seconds / found[method]["steps"]
    return arms, seconds.__getitem__


def published() -> tuple[dict[Sizes, float], list[Arm]]:
    """Seconds per step and outcomes of the authors' settings on one L40S, one prompt per step."""
    given = json.loads(PUBLISHED.read_text())
    curves = {Sizes(1, one["n"], one["m"]): one["accuracy"] for one in given["settings"]}
    untrained = given["untrained"]
    goal = untrained + LEVEL * (min(map(max, curves.values())) - untrained)
    arms = []
    for sizes, curve in curves.items():
        hours = np.interp(goal, *_rising([untrained, *curve]))
        arms.append(
            Arm(
                sizes,
                {
                    "speed to 95 % of the way, per hour": 1 / float(hours),
                    "mean gain in accuracy": 100 * (float(np.mean(curve)) - untrained),
                },
            )
        )
    seconds = {Sizes(1, one["n"], one["m"]): one["seconds_per_step"] for one in given["settings"]}
    return seconds, arms


def _rising(curve: Sequence[float]) -> tuple[list[float], list[float]]:
    """The accuracies that were new records, and their hours, for interpolation."""
    records = [i for i, value in enumerate(curve) if value > max(curve[:i], default=-1.0)]
    return [curve[i] for i in records], [HOURS * i for i in records]


def page(root: Path = Path()) -> str:
    """All tables, and how often the choice is near the best; what the page says of it stays."""
    text = (root / PAGE).read_text()
    found = json.loads((root / VARIANCES).read_text())
    lines: list[str] = []
    near: list[bool] = []
    all_near: list[float] = []  # share of the arms that are as near
    for table in tables(root):
        cells = table.cells()
        choice = best(cells)
        outcomes = list(table.arms[0].measured)
        lines += [f"## {table.what}\n", "| | worth of a step | seconds | learned per second |"]
        lines[-1] += "".join(f" {outcome} |" for outcome in outcomes)
        lines.append("|---|---|---|---|" + "---|" * len(outcomes))
        for cell, arm in zip(cells, table.arms, strict=True):
            name = f"**{cell.sizes}**" if cell == choice else str(cell.sizes)
            lines.append(
                f"| {name} | {cell.worth:.3f} | {cell.seconds:.3g} |"
                f" {cell.per_second / cells[0].per_second:.2f} |"
                + "".join(f" {arm.measured[outcome]:.3g} |" for outcome in outcomes)
            )
        lines.append("")
        for outcome in outcomes:
            values = [arm.measured[outcome] for arm in table.arms]
            share = values[cells.index(choice)] / max(values)
            near.append(share >= NEAR)
            all_near.append(float(np.mean(np.array(values) >= NEAR * max(values))))
            rank = spearmanr([cell.per_second for cell in cells], values).statistic
            top = table.arms[int(np.argmax(values))].sizes
            lines.append(
                f"* By {outcome}: rank correlation {rank:.2f}; best is {top}, and the choice has"
                f" {share:.0%} of it."
            )
        lines.append("")
    between, within = found["between"], found["within"]
    return "\n".join(
        [
            HEAD.format(
                prompts=found["prompts"],
                kept=found["kept"],
                generated=found["generated"],
                between=f"{between[0]:.0f} ({between[1]:.0f} to {between[2]:.0f})",
                within=f"{within[0]:.0f} ({within[1]:.0f} to {within[2]:.0f})",
                halves=found["cosine_of_halves"],
                across=found["cosine_of_prompts"],
                near=sum(near),
                counted=len(near),
                chance=sum(all_near),
                gsm8k=GSM8K,
            ),
            *lines,
            text[text.index(TAIL) :],
        ]
    )


HEAD = """# Foreseen: prompts, n and m by the model, and as measured

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
