"""GRPO, GRPO-GA and PODS at equal training time, by the machinery of `pods compare`.

All runs are made in this process, one after the other: the libraries are loaded and the GPU's
kernels are warm for every arm alike, and no time goes to starting processes.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.budget import Deadline, Rounds, share_out
from benchmarks.gpu.model import longest
from benchmarks.gpu.sizes import Size
from podslab.training import run as experiment
from podslab.comparison.comparison import (
    ComparisonSpec,
    RunOf,
    open_comparison,
    parse_comparison,
)
from podsrl.rollout_log.run_folder import PHASES, RunFolder

ARMS = ("grpo", "grpo_ga", "pods")
#: What each comparison sets over the common settings.
COMPARISONS: dict[str, dict[str, Any]] = {
    "main": {},
    "expensive": {"num_iterations": 2, "gradient_checkpointing": True},
}
_WARM_STEPS = 2
_LEFT_OUT = 2
_LENGTH = "completions/mean_length"


@dataclass(frozen=True)
class Study:
    """What all comparisons share. folder: of the runs. columns: the task's difficulty."""

    size: Size
    device: str
    model: Path
    columns: tuple[int, int]
    folder: Path
    first_seed: int = 0
    learning_rate: float | None = None

    def spec(self, name: str, seeds: Sequence[int], budget: dict[str, float]) -> ComparisonSpec:
        """A comparison of `COMPARISONS`."""
        config = {
            "config": "arithmetic",
            "settings": {**self._settings(), **COMPARISONS[name]},
            "arms": {arm: {} for arm in ARMS},
            "seeds": list(seeds),
            "budget": budget,
            "evaluations": self.size.evaluations if "training_seconds" in budget else 1,
            "output_dir": str(self.folder / name),
        }
        return parse_comparison(config, name)

    def _settings(self) -> dict[str, Any]:
        size, (low, high) = self.size, self.columns
        on_gpu = self.device != "cpu"
        return {
            "model_name_or_path": str(self.model),
            "dtype": "float32",  # with bf16 below: mixed precision, as the paper's settings
            "model_init_kwargs": {"device_map": None},
            "use_cpu": not on_gpu,
            "training_clock": "wall" if on_gpu else "cpu",  # a trial may run beside much else
            "bf16": on_gpu,
            "task_options": {
                "min_columns": low,
                "max_columns": high,
                "train_size": 16384 if low > 2 else 1024,
                "test_size": size.problems,
            },
            "selection_scope": "prompt",
            "num_rollouts": size.n,
            "num_generations": size.m,
            "per_device_train_batch_size": size.prompts * size.m,
            "max_completion_length": longest(high),
            "learning_rate": self.learning_rate or size.learning_rate,
            "warmup_steps": 4,
            "evaluation_problems": size.problems,
            "evaluation_repeats": 1,
            "evaluation_batch_size": 512,
            "save_strategy": "no",
            "rollout_log": False,
        }


@dataclass
class Outcome:
    """What was run. problems: by run, what went wrong."""

    rounds: Rounds
    overhead: float
    done: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


def warm_up(study: Study, names: Sequence[str]) -> float:
    """Every arm for two steps, so that kernels are loaded; returns a run's overhead in seconds.

    The overhead is loading the model and evaluating, before and at every point of the budget, and
    the step that is under way when the time is up.
    """
    overheads = []
    for name in names:
        folder = study.folder / "warm-up"
        warm = Study(study.size, study.device, study.model, study.columns, folder)
        spec = open_comparison(warm.spec(name, [0], {"steps": _WARM_STEPS}))
        for run in spec.runs():
            began = time.perf_counter()
            training = _run(spec, run)
            outside = time.perf_counter() - began - training
            evaluations = (study.size.evaluations + 1) / 2  # this run made two of them
            overheads.append(outside * max(1.0, evaluations) + training / _WARM_STEPS)
    return statistics.median(overheads)  # the first run loads kernels


def compare(
    study: Study,
    name: str,
    rounds: Rounds,
    overhead: float,
    deadline: Deadline,
    after_each: Callable[[Outcome], None],
) -> Outcome:
    """Seed after seed, every arm in turn; another arm begins each round.

    Args:
        study: the common settings.
        name: one of `COMPARISONS`.
        rounds: seeds, and training seconds of each run.
        overhead: from `warm_up`; a run that would not end in time is not begun.
        deadline: of everything.
        after_each: called after every run.
    """
    seeds = range(study.first_seed, study.first_seed + rounds.count)
    spec = study.spec(name, seeds, {"training_seconds": rounds.training_seconds})
    open_comparison(spec)
    outcome = Outcome(rounds, overhead)
    for turn, seed in enumerate(spec.seeds):
        for i in range(len(ARMS)):
            run = RunOf(ARMS[(i + turn) % len(ARMS)], seed)
            label = f"{name}/{run.arm}/seed-{run.seed}"
            if deadline.left < rounds.training_seconds + 0.7 * overhead:
                outcome.problems[label] = "no time was left"
                continue
            try:
                _run(spec, run)
                made = len(spec.run_folder(run).evaluations())
                if made != spec.evaluations + 1:
                    outcome.problems[label] = f"{made} of {spec.evaluations + 1} evaluations"
                outcome.done.append(label)
            except Exception as error:  # noqa: BLE001 (the others may go well)
                outcome.problems[label] = f"{type(error).__name__}: {error}"
            after_each(outcome)
    return outcome


def plan_rounds(
    study: Study, names: Sequence[str], overhead: float, seconds: float
) -> list[Rounds]:
    """How many seeds of each comparison there is time for: most for the first, one for the others.

    The others come once the first has two.
    """
    size, others = study.size, len(names) - 1
    rounds = share_out(seconds, len(ARMS), overhead, size.least, size.most, size.rounds)
    spare = min(others, max(0, rounds.count - 2))
    counts = [rounds.count - spare, *([1] * spare), *([0] * (others - spare))]
    return [Rounds(count, rounds.training_seconds) for count in counts]


def phases(folder: Path, arm: str) -> dict[str, Any]:
    """Means over an arm's steps: seconds by phase, rollouts per second, tokens; peak memory.

    The first steps of each run are left out, and as many are taken of those that generate as of
    those that train on the same rollouts again.
    """
    rows: list[dict[str, Any]] = []
    made: list[float] = []
    for path in sorted((folder / arm).glob("seed-*")):
        metrics = RunFolder(path).metrics() if path.is_dir() else []
        whole = _LEFT_OUT + (len(metrics) - _LEFT_OUT) // 2 * 2  # generations are of 1 or 2 steps
        for before, row in pairwise(metrics[_LEFT_OUT - 1 : whole]):
            rows.append(row)
            made.append(row["pods/rollouts_generated"] - before["pods/rollouts_generated"])
    if not rows:
        return {"steps": 0}
    found: dict[str, Any] = {"steps": len(rows)}
    for phase in PHASES:
        found[phase] = float(np.mean([row[f"pods/seconds_{phase}"] for row in rows]))
    found["step"] = sum(found[phase] for phase in PHASES)
    found["rollouts_per_second"] = float(np.mean(made)) / found["generate"]
    found["peak_memory"] = max(row["pods/peak_memory"] for row in rows)
    lengths = [row[_LENGTH] for row in rows if row.get(_LENGTH) is not None]
    found["completion_tokens"] = float(np.mean(lengths)) if lengths else None
    return found


def _run(spec: ComparisonSpec, run: RunOf) -> float:
    """Make one run; returns its training seconds. Nothing of it stays on the GPU."""
    settings = spec.run_spec(run)
    try:
        return experiment.train(settings, experiment.load_data(settings)).training_seconds
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
