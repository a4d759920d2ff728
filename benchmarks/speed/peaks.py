"""Where the peak of a step's memory is, while generating or in the update, and how long rows are.

python -m benchmarks.speed.peaks --page results/peaks.md    # about 3 minutes on two free cores
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.markdown import table
from benchmarks.speed import step
from benchmarks.speed.resources import peaks_of_training
from benchmarks.speed.trainers import Setting, build
from podslab.models.tiny import get_model
from podsrl.rollout_log.files import write_whole

_MB = 1e6
#: The first step also gets what stays, such as the optimiser's state.
_WARM_UP = 1
_HEAD = """# Where the peak of a step's memory is

`python -m benchmarks.speed.peaks`, {date}, {steps} steps of each arm after the first one, one
thread of a CPU, a model of 0.8 million parameters. Memory is resident, above that before the first
step. *Tokens of a row*: prompt and completion, padded to the longest row of the step. Medians, with
the least and the most.

"""
_FOOT = """
Where the last column is alike in two arms that train on as many rows at once, their peaks differ by
the length of their rows alone. Completions of one length were [measured on a GPU](sizes.md).
"""


@dataclass(frozen=True)
class Peaks:
    """The memory of one step, in bytes above that before the first step.

    Args:
        generating: The most until the rows of the update are there.
        updating: The most from then on.
        tokens: The length to which rows are padded, prompt and completion.
    """

    generating: int
    updating: int
    tokens: int


def peaks_of(setting: Setting, steps: int) -> list[Peaks]:
    """The peaks of so many steps of a trainer, in this process, whose memory is its own."""
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    tokens: list[int] = []

    def count_tokens(rows: Any) -> None:
        tokens.append(rows["prompt_ids"].shape[1] + rows["completion_ids"].shape[1])

    with tempfile.TemporaryDirectory() as folder:
        trainer: Any = build(setting, folder)
        trainer.args.max_steps = steps
        peaks = peaks_of_training(trainer, count_tokens)
    return [Peaks(*of_step, length) for of_step, length in zip(peaks, tokens, strict=True)]


def measure(size: step.Size, steps: int) -> list[tuple[Setting, list[Peaks]]]:
    """The steps of all arms that count, each arm in a process of its own."""
    model = str(get_model(size.model))
    spawn = multiprocessing.get_context("spawn")
    found = []
    for setting in step.settings(size, model, "base"):
        with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as own_process:
            made = own_process.submit(peaks_of, setting, _WARM_UP + steps).result()
        found.append((setting, made[_WARM_UP:]))
    return found


def page(found: Sequence[tuple[Setting, list[Peaks]]]) -> str:
    """The table of all arms, and what follows from it."""
    heads = [
        "arm",
        "n → m",
        "rows at once",
        "tokens of a row",
        "peak while generating, MB",
        "peak in the update, MB",
        "of it for each token of a row, MB",
    ]
    rows = []
    for setting, peaks in found:
        rows.append(
            [
                setting.name,
                f"{setting.n} → {setting.m}",
                str(setting.micro_batch),
                _spread([peak.tokens for peak in peaks]),
                _spread([peak.generating / _MB for peak in peaks]),
                _spread([peak.updating / _MB for peak in peaks]),
                _spread([peak.updating / _MB / peak.tokens for peak in peaks], digits=1),
            ]
        )
    steps = min(len(peaks) for _, peaks in found)
    head = _HEAD.format(date=datetime.now(UTC).date(), steps=steps)
    return head + "\n".join(table(heads, rows, align_right=True)) + "\n" + _FOOT


def _spread(values: Sequence[float], digits: int = 0) -> str:
    median = f"{statistics.median(values):.{digits}f}"
    return f"{median} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the page, and write it where that is wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.peaks", description=__doc__)
    parser.add_argument("--steps", type=int, default=10, help="that count (10)")
    parser.add_argument("--quick", action="store_true", help="small: just to see that it works")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page to a file")
    args = parser.parse_args(argv)

    text = page(measure(step.QUICK if args.quick else step.Size(), args.steps))
    print(text)
    if args.page:
        write_whole(args.page, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
