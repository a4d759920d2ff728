"""PODS on one GPU, in at most nine minutes, without a network.

Trains SmolLM2-135M by GRPO, by its filter and with rows chosen across prompts, at equal training
time, and writes summary.json, README.md and figures. It keeps to its time.

    python -m benchmarks.gpu --output docs/results/gpu
    python -m benchmarks.gpu --smoke --output runs/gpu-smoke        # a trial on a CPU, a minute

Where a machine has torch but no network: `pip download --no-deps` the other packages elsewhere, and
`pip install --no-index --no-deps --target FOLDER` them there, with PYTHONPATH=FOLDER:src:lab/src:.
The model is made once, by `pods evaluate smollm2`, say, and may be carried: `--model FOLDER`.
"""

import argparse
import shlex
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import torch

from benchmarks.gpu import comparison, sizes
from benchmarks.gpu.report import Results
from podsrl.rollout_log.environment import describe_environment

#: Seconds kept back for tables and figures.
RESERVE = 12.0


def main() -> int:
    """Exit status 0 if every part went well; otherwise 1, and the results say which did not."""
    args = arguments().parse_args()
    warnings.simplefilter("ignore", FutureWarning)  # TRL uses transformers' older names
    device = "cuda" if torch.cuda.is_available() and not args.smoke else "cpu"
    if device == "cpu" and not args.smoke:
        sys.exit("no GPU: torch.cuda.is_available() is False; --smoke tries this on a CPU")
    torch.set_float32_matmul_precision("high")
    with tempfile.TemporaryDirectory(prefix="podsrl-gpu-") as temporary:
        session = Session(args, device, Path(temporary))
        session.run()
    print((args.output / "README.md").read_text(encoding="utf-8"))
    return int(bool(session.results.values["problems"]))


class Session:
    """The comparison, and the time that is left for it."""

    def __init__(self, args: argparse.Namespace, device: str, folder: Path) -> None:
        self.args, self.device, self.folder = args, device, folder
        self.began, self.size = time.time(), sizes.SMOKE if args.smoke else sizes.GPU
        self.runs = (args.runs or folder / "runs").resolve()
        self.results = Results(args.output)
        self.results.values |= {
            "command": shlex.join(["python", "-m", "benchmarks.gpu", *sys.argv[1:]]),
            "smoke": args.smoke,
            "problems": {},
            "environment": describe_environment(),
        }

    @property
    def left(self) -> float:
        """The seconds of work that are left."""
        return self.began + 60.0 * self.args.minutes - RESERVE - time.time()

    def run(self) -> None:
        """Compare and write the results, and a note among them, if it failed."""
        try:
            self.comparison()
        except Exception:  # noqa: BLE001 (what was measured before is written)
            self.results.values["problems"]["comparison"] = traceback.format_exc()
        self.write()

    def comparison(self) -> None:
        """Compare the arms, for as many seeds as there is time."""
        size = self.size
        study = comparison.Study(
            size=size,
            device=self.device,
            folder=self.runs,
            model=self.args.model,
            first_seed=self.args.first_seed,
        )
        overhead = comparison.warm_up(study)
        plan = sizes.share_out(
            self.left, len(comparison.ARMS), overhead, size.least, size.most, size.seeds
        )
        self.say(f"{overhead:.1f} s of a run are not training; {plan}")
        if not plan.seeds:
            raise RuntimeError(
                f"{self.left:.0f} s are too few for one seed of every arm, of {size.least:g} s of"
                f" training and {overhead:.0f} s beside it each"
            )
        self.results.values["problems"] |= comparison.compare(
            study,
            plan,
            fits=lambda: self.left > plan.training_seconds + 0.7 * overhead,
            after_each=self.say,
        )
        self.results.read_runs(self.runs, list(comparison.ARMS))

    def write(self) -> None:
        """Write what was measured so far."""
        self.results.values["minutes_taken"] = (time.time() - self.began) / 60
        self.results.write()

    def say(self, text: str) -> None:
        """A line for whoever watches."""
        print(f"{time.strftime('%H:%M:%S')} {text}; {self.left:.0f} s are left", flush=True)


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output", type=Path, default=Path("docs/results/gpu"), help="folder of the results")
    add("--model", help="a folder with the model (SmolLM2-135M-Instruct, from the cache)")
    add("--runs", type=Path, help="keep the runs in this new folder (default: they are deleted)")
    add("--minutes", type=float, default=9.0, help="for everything (9)")
    add("--first-seed", type=int, default=0, help="another one for every session (0)")
    add("--smoke", action="store_true", help="on a CPU with a tiny model: does it run?")
    return parser


if __name__ == "__main__":
    sys.exit(main())
