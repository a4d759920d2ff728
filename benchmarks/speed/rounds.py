"""What rounds save: the share of rollouts by simulation, and the seconds of a step, measured.

python -m benchmarks.speed.rounds --page results/rounds.md    # a quarter of an hour on a CPU
"""

import argparse
import statistics
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import podsrl
from benchmarks.markdown import table
from benchmarks.own_process import import_once, in_own_process
from benchmarks.speed.numbers import in_turns
from benchmarks.speed.trainers import Setting, build
from podslab.models.tiny import get_model
from podslab.models.tiny.settings import SMALL
from podsrl.rollout_log.files import write_whole

GROUPS = 20_000
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

#: The arms of a step: how many rollouts of a prompt are generated at a time.
N, M = 32, 8
ARMS: dict[str, dict[str, Any]] = {
    "all at once": {},
    "rounds of 8": {"rollouts_per_round": 8},
    "rounds of 16": {"rollouts_per_round": 16},
}
PROMPTS = (2, 16)
#: Right or wrong alone; how an answer is written does not count.
RIGHT_ALONE = {"reward_weights": [1.0, 0.0, 0.0]}
#: Written and committed before anything was measured: the seconds of generating and scoring with
#: rounds, as a share of those of all at once, by the number of prompts in a step.
FORECAST = {
    "rounds of 8": {2: 2.0, 16: 1.1},
    "rounds of 16": {2: 1.4, 16: 1.1},
}
_SECONDS = 1800.0
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

{n} → {m} on one thread of a CPU that others used, too, with the embedded model of {steps} steps of
each arm after the first one; arms took turns, each in a process of its own, {repetitions} times.
The reward is 1 for a right answer and 0 for another one. Medians. *Generating*:
`pods/seconds_generate` and `pods/seconds_score`. *Forecast*: the ratio that was written down
before.

"""

#: A measurement that was not repeated, as it is.
_FIRST = """
## With a reward of several parts

The first measurement, of 2026-11-28, had the reward of the task itself, where a wrong answer gets a
part for its form. So few rewards are at the bounds that **no prompt was ever decided**: everything
was generated, in more calls. Forecast, and the rest, as above.

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
    """What the steps of a trainer took, as medians.

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


def steps_of(prompts: int, arm: str, steps: int) -> Steps:
    """The steps of a trainer after its first one, in this process."""
    warnings.simplefilter("ignore")
    setting = Setting(
        arm,
        model=str(get_model(SMALL)),
        columns=SMALL.max_columns,
        rows=prompts * M,
        micro_batch=prompts * M,
        n=N,
        m=M,
        rule="max_variance",
        max_completion_length=32,
        options={**RIGHT_ALONE, **ARMS[arm]},
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer: Any = build(setting, folder)
        trainer.args.max_steps = 1 + steps
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


def measured(prompts: Sequence[int], steps: int, repetitions: int) -> list[str]:
    """The table of seconds."""
    import_once([__spec__.name])
    rows = []
    for number in prompts:
        found: dict[str, list[Steps]] = {arm: [] for arm in ARMS}
        for arm in in_turns(list(ARMS), repetitions):
            name = f"{__spec__.name}:steps_of"
            found[arm].append(in_own_process(name, number, arm, steps, seconds=_SECONDS))
            print(".", end="", flush=True)

        at_once = statistics.median(of.generating for of in found["all at once"])
        for arm, of_arm in found.items():
            generating = statistics.median(of.generating for of in of_arm)
            whole = statistics.median(of.whole for of in of_arm)
            ratio = generating / at_once
            forecast = FORECAST.get(arm, {}).get(number)
            rows.append(
                [
                    f"{number}",
                    arm,
                    f"{statistics.mean(of.share for of in of_arm):.2f}",
                    f"{statistics.median(of.rounds for of in of_arm):.1f}",
                    f"{generating:.3f}",
                    f"**{ratio:.2f}**",
                    "" if forecast is None else f"{forecast:.2f}",
                    f"{whole:.3f}",
                ]
            )
    print()
    heads = [
        "prompts",
        "arm",
        "share generated",
        "rounds",
        "generating, s",
        "ratio",
        "forecast",
        "step, s",
    ]
    return table(heads, rows, align_right=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate and measure, print the page, and write it where that is wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.rounds", description=__doc__)
    parser.add_argument("--steps", type=int, default=5, help="that count (5)")
    parser.add_argument("--repetitions", type=int, default=3, help="of each trainer (3)")
    parser.add_argument("--quick", action="store_true", help="small: just to see that it works")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page to a file")
    args = parser.parse_args(argv)
    steps, repetitions = (1, 1) if args.quick else (args.steps, args.repetitions)

    shares, error = simulated()
    seconds = measured(PROMPTS[:1] if args.quick else PROMPTS, steps, repetitions)
    head = _HEAD.format(date=datetime.now(UTC).date(), groups=GROUPS, error=error)
    text = head + "\n".join(shares) + "\n"
    text += (
        _STEP.format(n=N, m=M, steps=steps, repetitions=repetitions)
        + "\n".join(seconds)
        + "\n"
        + _FIRST
    )
    print(text)
    if args.page:
        write_whole(args.page, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
