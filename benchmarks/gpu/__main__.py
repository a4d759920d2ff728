"""PODS on one GPU, in at most nine minutes, without a network.

Makes a model of 30 million parameters from nothing, compares GRPO, GRPO-GA and PODS at equal
training time, times the selection, and writes summary.json, README.md and figures. It keeps to its
time by itself, and writes what it has after every part.

Where there is a network, once (wheels for a machine that has torch, transformers, accelerate,
pyarrow and pandas; 2 MiB):

    python -m benchmarks.gpu --prepare .cache/wheels

On the machine with the GPU, in the repository; podsrl need not be installed:

    python -m benchmarks.gpu --wheels .cache/wheels --output docs/results/gpu

A trial on a CPU, a minute:

    python -m benchmarks.gpu --smoke --output /tmp/trial

Several sessions are reported as one from their archives (`--archive runs.tar.gz`), unpacked; each
wants its own `--first-seed`, and the `--columns` of the first:

    python -m benchmarks.gpu --report runs-1 runs-2 --output docs/results/gpu
"""

import argparse
import os
import shlex
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
sys.path[:0] = [str(SRC), str(ROOT)]

from benchmarks.gpu import packages  # noqa: E402
from benchmarks.gpu.budget import Deadline, TimeIsUpError, raise_time_is_up  # noqa: E402

# when the first process began, and its command line, for the one that replaces it
_BEGAN, _COMMAND = "PODSRL_GPU_BEGAN", "PODSRL_GPU_COMMAND"


def main() -> int:
    """Exit status 0 if every part went well; otherwise 1, and the results say which did not."""
    args = arguments()
    if args.prepare:
        for path in packages.prepare(args.prepare, args.python):
            print(f"{path.stat().st_size / 2**20:6.2f} MiB  {path}")
        return 0
    began = float(os.environ.setdefault(_BEGAN, str(time.time())))
    command = shlex.join(["python", "-m", "benchmarks.gpu", *sys.argv[1:]])
    command = os.environ.setdefault(_COMMAND, command)
    if args.wheels:
        rest = packages.without_wheels(sys.argv[1:])
        packages.start_again(
            ["-m", "benchmarks.gpu", *rest], [packages.install(args.wheels), SRC, ROOT]
        )
    deadline = Deadline.after(args.minutes, began)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore", FutureWarning)  # TRL uses transformers' older names

    from benchmarks.gpu.report import Results, archive
    from podsrl.rollout_log.environment import describe_environment

    results = Results(args.output)
    if args.report:
        return report(results, args.report)
    with tempfile.TemporaryDirectory(prefix="podsrl-gpu-") as temporary:
        folder = (args.runs or Path(temporary) / "runs").resolve()
        session = Session(args, deadline, folder, Path(temporary), results)
        results.values |= {"command": command, "smoke": args.smoke, "problems": {}}
        results.values["environment"] = describe_environment() | {"command": command}
        session.run()
        results.read_runs([folder])
        results.values["minutes_taken"] = (time.time() - began) / 60
        results.write()
        if args.archive:
            archive(folder, args.archive)
    print((args.output / "README.md").read_text(encoding="utf-8"))
    return int(bool(results.values["problems"]))


class Session:
    """The parts in their order; one that fails is noted, and the others go on."""

    def __init__(
        self, args: argparse.Namespace, deadline: Deadline, runs: Path, folder: Path, results: Any
    ) -> None:
        import torch
        from transformers.utils import logging

        from benchmarks.gpu import sizes

        logging.disable_progress_bar()

        self.args, self.deadline, self.runs, self.folder = args, deadline, runs, folder
        self.results = results
        self.device = "cuda" if torch.cuda.is_available() and not args.smoke else "cpu"
        size = sizes.SMOKE if args.smoke else sizes.GPU
        self.size = replace(size, rounds=args.rounds or size.rounds)
        if self.device == "cpu" and not args.smoke:
            sys.exit("no GPU: torch.cuda.is_available() is False; --smoke tries this on a CPU")
        if self.device == "cuda":
            torch.set_float32_matmul_precision("high")
            results.values["cuda"] = torch.version.cuda

    def run(self) -> None:
        """Everything that there is time for."""
        signal.signal(signal.SIGALRM, raise_time_is_up)
        signal.signal(signal.SIGTERM, raise_time_is_up)
        try:
            signal.setitimer(signal.ITIMER_REAL, max(0.01, self.deadline.left))
            self._part("selection", self._selection)
            if self._part("model", self._model):
                self._part("comparisons", self._comparisons)
        except TimeIsUpError:
            self.results.values["problems"]["time"] = "the time was up before everything was done"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _part(self, name: str, work: Callable[[], None]) -> bool:
        began = time.time()
        say(f"{name}: {self.deadline.left:.0f} s are left")
        try:
            work()
        except Exception:  # noqa: BLE001 (the other parts may go well)
            self.results.values["problems"][name] = traceback.format_exc()
            say(traceback.format_exc())
            return False
        finally:
            seconds = self.results.values.setdefault("seconds_of_parts", {})
            seconds[name] = time.time() - began
            with not_interrupted():
                self.results.write()
        return True

    def _selection(self) -> None:
        from benchmarks.gpu import selection

        size = self.size
        found: dict[str, Any] = {"device": self.device}
        found["equality"] = selection.differences(self.device, size.groups, size.group_sizes)
        found["timings"] = selection.timings(
            self.device, size.groups, size.group_sizes, size.repeats
        )
        self.results.values["selection"] = found
        if found["equality"]["different"]:
            self.results.values["problems"]["selection"] = "CPU and GPU differ"

    def _model(self) -> None:
        from benchmarks.gpu.model import choose_columns, warm_start

        seconds = min(
            self.size.warm_share * 60.0 * self.args.minutes, 0.6 * max(0.0, self.deadline.left)
        )
        found = warm_start(self.size.model, self.device, seconds, self.folder / "model")
        found["columns"] = self.args.columns or choose_columns(found["pass_rates"])
        self.results.values["model"] = found
        say(f"pass rates by columns: {found['pass_rates']}; used: {found['columns']}")

    def _comparisons(self) -> None:
        from benchmarks.gpu import comparison

        names = list(self.args.comparisons)
        study = comparison.Study(
            size=self.size,
            device=self.device,
            model=self.folder / "model",
            columns=self.results.values["model"]["columns"],
            folder=self.runs,
            first_seed=self.args.first_seed,
            learning_rate=self.args.learning_rate,
        )
        overhead = comparison.warm_up(study, names[:1])
        planned = comparison.plan_rounds(study, names, overhead, self.deadline.left)
        self.results.values["rounds"] = {
            name: rounds._asdict() for name, rounds in zip(names, planned, strict=True)
        } | {"overhead": overhead}
        say(f"overhead of a run {overhead:.1f} s; {dict(zip(names, planned, strict=True))}")
        if not planned[0].count:
            raise RuntimeError(
                f"{self.deadline.left:.0f} s are too few for one seed of every arm, of"
                f" {self.size.least:g} s of training and {overhead:.0f} s beside it each"
            )
        for name, rounds in zip(names, planned, strict=True):
            if rounds.count:
                outcome = comparison.compare(
                    study, name, rounds, overhead, self.deadline, self._after_run
                )
                self.results.values["problems"] |= outcome.problems

    def _after_run(self, outcome: Any) -> None:
        with not_interrupted():
            say(f"{outcome.done[-1:]} {outcome.problems or ''} {self.deadline.left:.0f} s are left")
            self.results.read_runs([self.runs], figures=False)
            self.results.write()


@contextmanager
def not_interrupted() -> Iterator[None]:
    """The deadline's signal waits until the block has ended."""
    signals = {signal.SIGALRM, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def report(results: Any, folders: list[Path]) -> int:
    """Several sessions' runs as one; the rest of the page is that of the last session."""
    from podsrl.rollout_log.files import read_json

    results.values |= read_json(results.folder / "summary.json")
    results.read_runs(folders)
    results.write()
    return 0


def say(text: str) -> None:
    """A line for whoever watches."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--prepare", type=Path, metavar="DIR", help="download the wheels into DIR, and end")
    add("--python", default="3.12", help="version of Python that --prepare is for (3.12)")
    add("--wheels", type=Path, metavar="DIR", help="use these wheels, beside what is installed")
    add("--output", type=Path, default=Path("docs/results/gpu"), help="folder of the results")
    add("--runs", type=Path, help="keep the runs in this new folder (default: they are deleted)")
    add("--archive", type=Path, help="pack the runs' records into this .tar.gz")
    add("--minutes", type=float, default=9.0, help="for everything (9)")
    add("--rounds", type=int, help="seeds of all comparisons together, at most (as time allows)")
    add("--comparisons", nargs="+", choices=("main", "expensive"), default=["main", "expensive"])
    add("--first-seed", type=int, default=0, help="another one for every session (0)")
    add("--columns", nargs=2, type=int, help="of the sums compared with (by the pass rates)")
    add("--learning-rate", type=float, help="of all arms (1e-4)")
    add("--smoke", action="store_true", help="on a CPU with a tiny model: does it run?")
    add("--report", nargs="+", type=Path, metavar="RUNS", help="only report these folders of runs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
