"""Methods at equal time on a GPU, by the machinery of `pods compare`, in this one process."""

import gc
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.sizes import Size, share_out
from podslab.comparison.comparison import ComparisonSpec, RunOf, open_comparison
from podslab.comparison.comparison_config import parse_comparison
from podslab.training import run as experiment

_WARM_STEPS = 2

#: GRPO keeps all rollouts, and may spare passes; the others keep rows of several times the prompts.
ARMS: dict[str, dict[str, Any]] = {
    "grpo": {"num_generations": 8, "downsampling_rule": "max_variance", "skip_fillers": False},
    "grpo_spared": {"num_generations": 8, "downsampling_rule": "max_variance"},
    "grpo_pairs": {"num_rollouts": 2, "num_generations": 2, "downsampling_rule": "max_variance"},
    "best_of_four": {"num_rollouts": 4, "num_generations": 1, "downsampling_rule": "max_reward"}
    | {"advantage_baseline": "group"},
    "filter": {"num_generations": 2, "downsampling_rule": "pass_band"},
    "top_advantage": {"num_generations": 2, "downsampling_rule": "top_advantage"},
    "max_contrast": {"num_generations": 1, "downsampling_rule": "max_contrast"},
}


@dataclass(frozen=True)
class Study:
    """What all runs share; `folder` is that of the runs, `model` replaces the size's own."""

    size: Size
    device: str
    folder: Path
    model: str | None = None

    def spec(self, seeds: Sequence[int], budget: dict[str, float]) -> ComparisonSpec:
        """The comparison."""
        config = {
            "config": self.size.config,
            "settings": self._settings(),
            "arms": {arm: {"like": "pods", **own} for arm, own in ARMS.items()},
            "seeds": list(seeds),
            "budget": budget,
            "evaluations": self.size.evaluations if "training_seconds" in budget else 1,
            "output_dir": str(self.folder),
        }
        return parse_comparison(config, "gpu")

    def _settings(self) -> dict[str, Any]:
        on_gpu = self.device != "cpu"
        model = {"model_name_or_path": self.model} if self.model else {}
        return {
            **self.size.settings,
            **model,
            "use_cpu": not on_gpu,
            "training_clock": "wall" if on_gpu else "cpu",  # a trial may run beside much else
            "bf16": on_gpu,  # with weights of float32: mixed precision, as the paper's settings
            "num_rollouts": 8,
            "num_generations": 8,
            "downsampling_rule": "max_variance",
            "advantage_baseline": "group",
            "skip_fillers": True,
            "per_device_train_batch_size": self.size.rows,
            "evaluation_problems": self.size.problems,
            "evaluation_repeats": 1,
            "save_strategy": "no",
            "rollout_log": False,
        }


def warm_up(study: Study) -> float:
    """Run every arm for two steps, so that kernels are loaded; a run's overhead in seconds.

    The overhead is loading the model and evaluating, before and at every point of the budget, and
    the step that is under way when the time is up.
    """
    overheads = []
    warm = replace(study, folder=study.folder.with_name("warm-up"))
    spec = open_comparison(warm.spec([0], {"steps": _WARM_STEPS}))
    for run in spec.runs():
        began = time.perf_counter()
        training = _run(spec, run)
        outside = time.perf_counter() - began - training
        evaluations = (study.size.evaluations + 1) / 2  # this run made two of them
        overheads.append(outside * max(1.0, evaluations) + training / _WARM_STEPS)
    return statistics.median(overheads)  # the first run loads kernels


def compare(study: Study, ends: float) -> dict[str, str]:
    """Seed after seed, every arm in turn; another arm begins each seed. What went wrong, by run.

    As many seeds, and as long, as can be done until the time `ends`; a run that would not end by
    then is not begun.

    Raises:
        RuntimeError: not one seed of every arm can be done.
    """
    size, arms = study.size, list(ARMS)
    overhead = warm_up(study)
    left = ends - time.time()
    plan = share_out(left, len(arms), overhead, size.least, size.most, size.seeds)
    print(f"{overhead:.1f} s of a run are not training; {plan}", flush=True)
    if not plan.seeds:
        raise RuntimeError(
            f"{left:.0f} s are too few for one seed of every arm, of {size.least:g} s of training"
            f" and {overhead:.0f} s beside it each"
        )
    budget = {"training_seconds": plan.training_seconds}
    spec = open_comparison(study.spec(range(plan.seeds), budget))
    problems = {}
    for turn, seed in enumerate(spec.seeds):
        for i in range(len(arms)):
            run = RunOf(arms[(i + turn) % len(arms)], seed)
            label = f"{run.arm}/seed-{run.seed}"
            if ends - time.time() < plan.training_seconds + 0.7 * overhead:
                problems[label] = "no time was left"
                continue
            try:
                _run(spec, run)
            except Exception as error:  # noqa: BLE001 (the others may go well)
                problems[label] = f"{type(error).__name__}: {error}"
            print(f"{label}; {ends - time.time():.0f} s are left", flush=True)
    return problems


def _run(spec: ComparisonSpec, run: RunOf) -> float:
    """Make one run; its training seconds. Nothing of it stays on the GPU."""
    settings = spec.run_spec(run)
    try:
        return experiment.train(settings, experiment.load_data(settings)).training_seconds
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
