"""Thousands of steps of a PODSTrainer with its defaults, and what has grown after them.

    python -m support.soak                  # in tests/, or nox -s soak: 4,000 steps, some minutes
    python -m support.soak 20000 --trl      # more of them, and TRL's own trainer for comparison

The model is tiny, so that the work of TRL, transformers and podsrl around it is most of a step. A
table tells the seconds of processor time and the counts, a list what grew from the half of the run
to its end. The exit status is 1 where something grew that is not meant to.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from podslab.models import resolve
from podslab.tasks import get_task
from podslab.training.run import with_prompts
from podsrl.inspector.sources.trained_run import TrainedRun
from podsrl.trl import PODSConfig, PODSTrainer
from podsrl.trl.checkpoint import state_file
from support.growth import CountAt, grown, hooks, objects, of_process, of_trainer
from support.trl_runs import digits

_LINES = 8
#: A log's own account of its steps, which rollout_log_max_rows bounds.
_BOUNDED = ("logged.rollouts",)


def trainer_of(steps: int, folder: Path, is_trls: bool) -> Any:
    """A trainer with all defaults, except for the device, the length, the rate and other logs."""
    task = get_task("arithmetic", min_columns=2, max_columns=2, train_size=512, test_size=8)
    model = resolve("tiny")
    options: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": steps,
        "max_completion_length": 8,
        "learning_rate": 1e-7,  # the rewards stay as they are, and so do the messages
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "disable_tqdm": True,
    }
    kind: Any = GRPOTrainer if is_trls else PODSTrainer
    return kind(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        reward_funcs=digits,
        args=GRPOConfig(**options) if is_trls else PODSConfig(**options),
        train_dataset=Dataset.from_list(with_prompts(task, task.load("train"))),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
    )


class Watch:
    """What is seen of a run while it goes on."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.folder = Path(trainer.args.output_dir)
        self.began = time.process_time()

    def line(self) -> dict[str, Any]:
        """Seconds since the last line, and counts."""
        spent = time.process_time() - self.began
        began = time.perf_counter()
        files = TrainedRun(self.folder).files()
        listing = time.perf_counter() - began
        states = {
            int(path.name.partition("-")[2]): path for path in self.folder.glob("checkpoint-*")
        }
        newest = states[max(states)] if states else None
        found = {
            "processor seconds": f"{spent:.1f}",
            "hooks": hooks(self.trainer.model),
            "callbacks": len(self.trainer.callback_handler.callbacks),
            **of_process(),
            "memory MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "log entries": len(self.trainer.state.log_history),
            "steps on disk": len({file.path.parent for file in files}),
            "ms to list them": f"{1000 * listing:.0f}",
            "our state, bytes": _size(newest and state_file(newest, 0)),
            "transformers' state, bytes": _size(newest and newest / "trainer_state.json"),
        }
        self.began = time.process_time()
        return found

    def whole(self) -> tuple[dict[str, int], Counter[str]]:
        """All counts, and the objects of each type."""
        if (pods := getattr(self.trainer, "pods", None)) is not None:
            pods.recorder.flush()  # its thread has a file open while it writes a step
        return of_trainer(self.trainer), objects()


def _size(file: Path | None) -> int:
    return file.stat().st_size if file is not None and file.is_file() else 0


def soak(steps: int, folder: Path, is_trls: bool) -> list[str]:
    """Train, print a line for each part of the run, and tell what grew in its second half."""
    trainer = trainer_of(steps, folder, is_trls)
    watch = Watch(trainer)
    every = steps // _LINES
    halves = (steps // 2, steps)
    lines = CountAt(watch.line, tuple(range(every, steps + 1, every)))
    whole = _CountHalves(watch.whole, halves)
    for callback in (lines, whole):
        trainer.add_callback(callback)
    with open(os.devnull, "w") as nowhere:
        printed, sys.stdout = sys.stdout, nowhere
        try:
            trainer.train()
        finally:
            sys.stdout = printed

    print("TRL's GRPOTrainer" if is_trls else "PODSTrainer")
    print("\t".join(["step", *lines.counts[every]]))
    for step, line in lines.counts.items():
        print("\t".join(map(str, [step, *line.values()])))

    (before, types_before), (after, types_after) = (whole.counts[step] for step in halves)
    more = grown(before, after)
    problems = [
        f"{name}: {first} -> {last}"
        for name, (first, last) in more.items()
        if not name.endswith(_BOUNDED)
    ]
    new = grown(types_before, types_after)
    problems += [
        f"objects of {name}: {first} -> {last}"
        for name, (first, last) in new.items()
        if last - first > steps // 20 and name not in ("builtins.dict", "builtins.list")
    ]
    return problems


class _CountHalves(CountAt):
    """Another class, since transformers warns of two callbacks of one."""


def main() -> int:
    """Exit status: 1 where PODSTrainer let something grow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=int, nargs="?", default=4_000)
    parser.add_argument("--trl", action="store_true", help="TRL's own trainer, too")
    args = parser.parse_args()
    torch.set_num_threads(1)

    problems: list[str] = []
    for is_trls in [False, True][: 1 + args.trl]:
        with tempfile.TemporaryDirectory() as folder:
            found = soak(args.steps, Path(folder) / "run", is_trls)
        print("grew:", *(found or ["nothing"]), sep="\n  ", flush=True)
        problems += [] if is_trls else found
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
