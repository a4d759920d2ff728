"""PODS on one GPU, in at most nine minutes, without a network.

Trains SmolLM2-135M by GRPO, by its filter and with rows chosen across prompts, at equal training
time, and writes what `pods report` does of these runs. It keeps to its time.

    python -m benchmarks.gpu --output docs/results/gpu
    python -m benchmarks.gpu --smoke --output runs/gpu-smoke        # a trial on a CPU, a minute

Where a machine has torch but no network: `pip download --no-deps` the other packages elsewhere, and
`pip install --no-index --no-deps --target FOLDER` them there, with PYTHONPATH=FOLDER:src:lab/src:.
The model is made once, by `pods evaluate smollm2`, say, and may be carried: `--model FOLDER`.
"""

import argparse
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.evidence.rows_settings import settings_of
from benchmarks.gpu import sizes
from benchmarks.gpu.comparison import Study, compare
from podslab.report.durations import duration
from podslab.report.load_runs import Choices, load_comparison
from podslab.report.write_report import write_report

#: What a set of questions changes.
_ASKED = ("task", "task_options", "model_name_or_path", "max_completion_length")
#: Seconds kept back for tables and figures.
RESERVE = 12.0


def main() -> int:
    """Compare the arms and write the report; 1 if a run failed or found no time: it says which."""
    args = arguments().parse_args()
    ends = time.time() + 60.0 * args.minutes - RESERVE
    warnings.simplefilter("ignore", FutureWarning)  # TRL uses transformers' older names
    device = "cuda" if torch.cuda.is_available() and not args.smoke else "cpu"
    if device == "cpu" and not args.smoke:
        sys.exit("no GPU: torch.cuda.is_available() is False; --smoke tries this on a CPU")
    torch.set_float32_matmul_precision("high")
    with tempfile.TemporaryDirectory(prefix="podsrl-gpu-") as temporary:
        folder = (args.runs or Path(temporary, "runs")).resolve()
        size = sizes.SMOKE if args.smoke else sizes.GPU
        if args.set:
            own = settings_of(f"answers-{args.set}")
            asked = {name: own[name] for name in _ASKED}
            size = replace(size, settings={**size.settings, **asked})
        problems = compare(Study(size, device, folder, args.model), ends)
        found = load_comparison([folder], Choices(partial=True))
        notes = [f"{label}: {problem}" for label, problem in problems.items()]
        notes += ["a trial of the script: these numbers mean nothing"] if args.smoke else []
        found = replace(found, notes=(*found.notes, *notes))
        print(write_report([found], args.output, "Measured on a GPU", max_rollouts=0).text)
    for arm in found.arms:
        phases = (f"{phase} {duration(seconds)}" for phase, seconds in arm.phases.items())
        print(f"{arm.name}: a step of", ", ".join(phases))
    return int(bool(problems))


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output", type=Path, default=Path("docs/results/gpu"), help="folder of the results")
    add("--model", help="a folder with the model (SmolLM2-135M-Instruct, from the cache)")
    add("--set", choices=("easy", "middle", "hard"), help="questions of benchmarks.answers")
    add("--runs", type=Path, help="keep the runs in this new folder (default: they are deleted)")
    add("--minutes", type=float, default=9.0, help="for everything (9)")
    add("--smoke", action="store_true", help="on a CPU with a tiny model: does it run?")
    return parser


if __name__ == "__main__":
    sys.exit(main())
