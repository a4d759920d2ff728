"""README's script for 60 of its steps with SmolLM2-135M on a CPU, by GRPO and by PODS.

    python -m benchmarks.first_run train pods --rate 1e-5              # 60 steps
    python -m benchmarks.first_run train pods --rate 1e-5 --steps 16   # to choose a rate by
    python -m benchmarks.first_run figure                              # after all runs

The script itself is run; its model, its question and some settings are replaced. Each step is one
line of results/first-run/runs/NAME.jsonl as soon as it has ended. The protocol is in the README of
that folder, whose tables `python -m benchmarks.pages` writes.
"""

import argparse
import runpy
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks.folders import RESULTS, ROOT
from benchmarks.markdown import table
from podsrl.rollout_log.files import append_line, read_lines, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCRIPT = ROOT / "examples" / "first_run.py"
FOLDER = RESULTS / "first-run"
RUNS = FOLDER / "runs"
STEPS = 60  # of the script's 200
SEED = 42

#: GRPO has every help of ours that does not choose rows.
ARMS: dict[str, dict[str, Any]] = {
    "pods": {},
    "grpo": {"method": "grpo", "skip_zero_advantage": True, "read_prompts_once": True},
}
#: The name and the color of each in the figure.
LOOKS = {"pods": ("PODS, 32 → 8", "#d55e00"), "grpo": ("GRPO, 8 → 8", "#0072b2")}
#: Points of the curve are means over so many steps: 40 questions that were not seen before.
WINDOW = 10


def question(a: int, b: int) -> dict[str, Any]:
    """A question that so small a model answers rightly now and then, in the script's own form."""
    ask = f"Which number is larger, {a} or {b}? Answer with the number alone."
    return {"prompt": [{"role": "user", "content": ask}], "answer": str(max(a, b))}


def main() -> None:
    """Train once, or draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="one run of the script")
    training.add_argument("arm", choices=list(ARMS))
    training.add_argument("--rate", type=float, required=True)
    training.add_argument("--steps", type=int, default=STEPS)
    training.add_argument("--seed", type=int, default=SEED)
    commands.add_parser("figure", help="results/first-run/curve.png")
    args = parser.parse_args()

    if args.command == "train":
        train(args.arm, args.rate, args.steps, args.seed)
    else:
        from podslab.report.drawing import render

        write_whole(FOLDER / "curve.png", render(draw(), "png"))


def train(arm: str, rate: float, steps: int, seed: int) -> None:
    """Run the script with another model, and write down each step.

    Raises:
        FileExistsError: There is a run of that name; no run is overwritten.
    """
    from datasets import Dataset
    from transformers import TrainerCallback

    import podsrl.trl
    from podslab.models.smollm2 import get_model

    path = RUNS / f"{arm}-{rate:g}-{steps}-{seed}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(exist_ok=False)
    settings = {
        **ARMS[arm],
        "learning_rate": rate,
        "max_steps": steps,
        "seed": seed,
        "use_cpu": True,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "rollout_log": False,
    }

    class WriteDown(TrainerCallback):
        """A line for each step, written at once."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            append_line(path, {"step": state.global_step, **(logs or {})})

    config = podsrl.trl.PODSConfig

    class Trainer(podsrl.trl.PODSTrainer):
        """The script's trainer, with a model that needs no network, and questions for it."""

        def __init__(self, model: str, *args: Any, **kwargs: Any) -> None:
            questions = [question(a, b) for a in range(100, 160) for b in range(100, 160) if a != b]
            kwargs["train_dataset"] = Dataset.from_list(questions)
            super().__init__(str(get_model()), *args, **kwargs)
            self.add_callback(WriteDown())

    def with_settings(output_dir: str, **theirs: Any) -> podsrl.trl.PODSConfig:
        return config(tempfile.mkdtemp(), **{**theirs, **settings})  # two runs may train at once

    names: Any = podsrl.trl  # from which the script imports
    names.PODSConfig = with_settings
    names.PODSTrainer = Trainer
    runpy.run_path(str(SCRIPT), run_name="__main__")


@dataclass(frozen=True)
class Run:
    """A run of the script, as far as it came.

    Args:
        arm: "pods" or "grpo".
        rate: The learning rate.
        steps: The planned number of steps.
        right_T: The share of right answers among all rollouts of each step, before its update.
        seconds_T: The seconds of each step.
    """

    arm: str
    rate: float
    steps: int
    right_T: list[float]
    seconds_T: list[float]

    @classmethod
    def read(cls, path: Path) -> "Run":
        """The run of a file of `train`."""
        arm, numbers = path.stem.split("-", 1)
        rate, steps, _ = numbers.rsplit("-", 2)
        of_steps = [line for line in read_lines(path) if "reward" in line]  # the last one sums up
        return cls(
            arm=arm,
            rate=float(rate),
            steps=int(steps),
            right_T=[line["reward"] for line in of_steps],
            seconds_T=[line["step_time"] for line in of_steps],
        )

    def windows(self) -> list[float]:
        """The mean share of right answers of each `WINDOW` steps; the last may be shorter."""
        places = range(0, len(self.right_T), WINDOW)
        return [fmean(self.right_T[place : place + WINDOW]) for place in places]


def runs(whole: bool) -> list[Run]:
    """The runs of the whole script, or those for choosing rates, in the order of arms and rates."""
    found = [Run.read(path) for path in sorted(RUNS.glob("*.jsonl"))]
    chosen = [run for run in found if (run.steps == STEPS) == whole]
    return sorted(chosen, key=lambda run: (list(ARMS).index(run.arm), run.rate))


def rates() -> list[str]:
    """The table of the runs for choosing rates."""
    rows = []
    for run in runs(whole=False):
        last = run.right_T[-run.steps // 2 :]
        rows.append([run.arm, f"{run.rate:g}", f"{len(run.right_T)}", f"{100 * fmean(last):.1f} %"])
    return table(["", "rate", "steps", "right in the second half"], rows)


def curve() -> list[str]:
    """The table of the whole script's runs: right answers by steps, and the seconds of a step."""
    found = runs(whole=True)
    longest = max(len(run.windows()) for run in found)
    ends = [min((place + 1) * WINDOW, STEPS) for place in range(longest)]
    heads = ["", "rate", *[f"{end - WINDOW + 1} to {end}" for end in ends], "seconds of a step"]

    rows = []
    for run in found:
        shares = [f"{100 * share:.1f} %" for share in run.windows()]
        shares += [""] * (longest - len(shares))
        rows.append([run.arm, f"{run.rate:g}", *shares, f"{median(run.seconds_T):.1f}"])
    return table(heads, rows)


def draw() -> "Figure":
    """Right answers over steps, and over the minutes that these took; points are at the middles."""
    from matplotlib.figure import Figure

    from podslab.report.drawing import style

    with style():
        figure = Figure(figsize=(9.0, 3.6), layout="constrained")
        by_steps, by_time = figure.subplots(1, 2, sharey=True)
        for run in runs(whole=True):
            share = [100 * one for one in run.windows()]
            middles = [place * WINDOW + WINDOW // 2 for place in range(len(share))]
            minutes = [sum(run.seconds_T[:middle]) / 60 for middle in middles]
            name, color = LOOKS[run.arm]
            by_steps.plot(middles, share, color=color, marker="o", label=name)
            by_time.plot(minutes, share, color=color, marker="o")
        by_steps.set(xlabel="steps", ylabel="right answers of all rollouts, %", ylim=(0, None))
        by_time.set(xlabel="minutes on one core")
        by_steps.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
