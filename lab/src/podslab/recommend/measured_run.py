"""What a run has measured of its costs and of its prompts, and a short run to measure it."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from podsrl.errors import InvalidInputError
from podsrl.selection import weighted_sums
from podslab.recommend.advice import Batch
from podslab.recommend.costs import Costs, Sizes, Timing
from podslab.recommend.populations import Population, measured
from podslab.recommend.signal import MEASURED, Variances
from podsrl.rollout_log.run_folder import PHASES, REWARD_PREFIX, RunFolder

if TYPE_CHECKING:
    from podslab.evaluation.sampling import Progress
    from podslab.training.spec import Spec

#: A short run goes on until this many prompts were seen, for at most three times the steps.
GROUPS = 32
#: In the folder of a short run: the products of the gradients of its steps.
GRADIENTS = "gradients.json"


@dataclass(frozen=True)
class Measured:
    """Costs and prompts of one run, or of several in one setting.

    now: the sizes of the run with the fewest rows. batch: its rows as TRL counts them. rollouts: of
        the steps that were timed, ascending. generations: that were timed. rewards_G: the rewards
        of each group, NaN where there is none. variances: of the gradients of prompts and rollouts,
        where a short run measured them.
    """

    now: Sizes
    batch: Batch
    rollouts: tuple[float, ...]
    generations: int
    costs: Costs
    rewards_G: Sequence[Sequence[float]]
    population: Population
    variances: Variances | None

    @property
    def mean_reward(self) -> float:
        """Over all rollouts that could be scored: for rewards of 0 and 1 the pass rate."""
        return float(np.nanmean(np.concatenate([np.asarray(r) for r in self.rewards_G])))


def read_measured(*runs: RunFolder) -> Measured:
    """Costs from the metrics of runs, and rewards from their rollouts, of all steps alike.

    Runs of several arms give the costs at several n and m. Rewards are taken as those of
    max_variance, unless all runs have another rule.

    Raises:
        InvalidInputError: no run, no timed steps, no rollouts, or no rewards.
    """
    timings, rewards, sizes, rules = [], [], [], set()
    for run in runs:
        config = run.config()
        m, n = config.get("num_generations"), config.get("num_rollouts")
        if not isinstance(m, int):
            raise InvalidInputError(f"{run.path}: its config.yaml has no num_generations (m)")
        own = _timings(run, config)
        timings += own
        rewards += _rewards(run)
        rules.add(config.get("downsampling_rule"))
        if own:
            rows = round(own[-1].rows)
            now = Sizes(max(1, rows // m), n if isinstance(n, int) else m, m)
            sizes.append((now, _batch(config, rows)))
    where = ", ".join(str(run.path) for run in runs)
    if not timings:
        raise InvalidInputError(
            f"{where} holds no timed steps: its metrics.jsonl has no whole generation; train longer"
        )
    if not rewards:
        raise InvalidInputError(
            f"{where} holds no rollouts to learn pass rates from (rollout_log was off): give"
            " --pass_rates"
        )
    now, batch = min(sizes, key=lambda one: one[0].rows)
    rule = rules.pop() if len(rules) == 1 else None
    population = measured(rewards, rule or "max_variance")
    return Measured(
        now=now,
        batch=batch,
        rollouts=tuple(sorted({timing.rollouts for timing in timings})),
        generations=len(timings),
        costs=Costs.of_timings(timings),
        rewards_G=rewards,
        population=population,
        variances=_variances(runs[0], population, now) if len(runs) == 1 else None,
    )


def _variances(run: RunFolder, population: Population, now: Sizes) -> Variances | None:
    """From the gradients of a run's steps, by the one formula of docs/signal.md.

    Their products give what all prompts share, their squares the sum of both variances. These are
    taken in the proportion that `MEASURED` has: a step doesn't tell prompts from rollouts.
    """
    path = run.path / GRADIENTS
    if not path.is_file():
        return None
    found = json.loads(path.read_text())
    sizes = {
        row["step"]: round(row["pods/num_rollouts"])
        for row in run.metrics()
        if row.get("pods/seconds_generate") and row.get("pods/num_rollouts")
    }
    first = [i for i, step in enumerate(found["steps"]) if step in sizes]  # not second passes
    products = np.array(found["products"])[np.ix_(first, first)]
    signals = [population.signal(sizes[found["steps"][i]], now.m, now.prompts) for i in first]
    contrast = np.array([signal.contrast for signal in signals])
    across = contrast.sum() ** 2 - (contrast**2).sum()
    shared = (products.sum() - np.trace(products)) / across if across else 0.0
    if not shared > 0:
        return None
    own = np.trace(products) / shared - (1 - 1 / now.prompts) * (contrast**2).sum()
    usual = sum(signal.contrast**2 + signal.noise(MEASURED) for signal in signals)
    scale = max(float(own * now.prompts / usual), 1 / (1 + MEASURED.between))
    return Variances((1 + MEASURED.between) * scale - 1, MEASURED.within * scale)


def _batch(config: dict[str, Any], rows: int) -> Batch:
    at_once = config.get("per_device_train_batch_size") or rows
    accumulation = config.get("gradient_accumulation_steps") or 1
    return Batch(at_once, accumulation, max(1, rows // (at_once * accumulation)))


def _timings(run: RunFolder, config: dict[str, Any]) -> list[Timing]:
    """One per whole generation: of a step and its further passes (num_iterations), on average."""
    passes, accumulation = (
        config.get(name) or 1 for name in ("num_iterations", "gradient_accumulation_steps")
    )
    steps = passes * max(1, (config.get("steps_per_generation") or accumulation) // accumulation)
    generations: list[list[dict[str, Any]]] = []
    before: list[dict[str, Any]] = []  # the last row of the generation before
    last: dict[str, Any] = {"step": 0}
    for row in run.metrics():
        if "pods/seconds_update" not in row:
            continue
        if row.get("pods/seconds_generate") or not generations:
            generations.append([])
            before.append(last)
        generations[-1].append(row)
        last = row
    if generations and (last["step"] - before[-1]["step"]) % steps:
        del generations[-1], before[-1]  # cut off
    return [_timing(rows, first, passes) for rows, first in zip(generations, before, strict=True)]


def _timing(rows: list[dict[str, Any]], before: dict[str, Any], passes: int) -> Timing:
    generate, score, select, update = (
        passes * float(np.mean([row.get(f"pods/seconds_{phase}") or 0.0 for row in rows]))
        for phase in PHASES
    )
    generated, trained = (
        passes * (rows[-1][name] - before.get(name, 0)) / (rows[-1]["step"] - before["step"])
        for name in ("pods/rollouts_generated", "pods/rollouts_trained")
    )
    tokens = float(rows[0].get("completions/mean_length") or 0.0)
    return Timing(generated, trained, generate, score + select, update, tokens)


def _rewards(run: RunFolder) -> list[list[float]]:
    """Of each group what its rollouts are selected by: the reward, or a sum of its own weights."""
    groups, weights = [], np.array(run.config().get("selection_weights") or ())
    for step in run.rollout_steps():
        table = run.rollouts(step)
        if table is None:
            continue
        group = table["group"].to_numpy()
        rewards = table["reward"].to_numpy().astype(float)  # null: NaN
        names = [name for name in table.column_names if name.startswith(REWARD_PREFIX)]
        if weights.any() and len(names) == len(weights):
            parts = [table[name].to_numpy().astype(float) for name in names]
            rewards = weighted_sums(np.stack(parts, axis=-1), weights)
        groups += [rewards[group == one].tolist() for one in np.unique(group)]
    return groups


def _without_rounds(
    config: dict[str, Any], flags: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """A config and flags that generate all rollouts at once, whose time is to be measured."""
    names = ("rollouts_per_round", "reward_range", "stop_at")
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in names:
        parser.add_argument(f"--{name}", f"--{name.replace('_', '-')}", nargs="*")
    flags = parser.parse_known_args(list(flags))[1]
    return {name: value for name, value in config.items() if name not in names}, flags


@dataclass(frozen=True)
class ShortRun:
    """A run that only measures: each of several n twice, then the chosen n on more prompts.

    It trains at learning rate 0: all is done as in training, and the model stays as it is.
    """

    spec: "Spec"
    sizes: tuple[int, ...]
    prompts: int
    steps: int

    @classmethod
    def of(cls, config: dict[str, Any], flags: Sequence[str], folder: str) -> "ShortRun":
        """The short run of a config; what it writes goes to `folder`.

        Raises:
            InvalidInputError: as `podslab.training.spec.parse`.
        """
        from podslab.training.preview import Preview
        from podslab.training.spec import parse
        from podsrl.trl.auto import candidates, measuring_schedule

        config, flags = _without_rounds(config, flags)
        m = int(parse(config, flags).training.num_generations or 0)
        most = str(8 * m)
        fixed = {
            "num_rollouts": "auto", "max_num_rollouts": most, "learning_rate": "0",
            "evaluation_problems": "0", "save_strategy": "no", "report_to": "none",
            "rollout_log": "true", "logging_steps": "1", "arm": "measured", "output_dir": folder,
            "max_grad_norm": "0",  # gradients are compared as they are
        }  # fmt: skip
        flags = [*flags, *(word for name, value in fixed.items() for word in (f"--{name}", value))]
        preview = Preview.of(parse(config, flags))
        schedule = measuring_schedule(candidates(m, int(most)))
        generations = max(len(schedule), min(3 * len(schedule), -(-GROUPS // preview.prompts)))
        steps = generations * preview.updates_per_generation
        spec = parse(config, [*flags, "--max_steps", str(steps)])
        return cls(spec, tuple(dict.fromkeys(schedule)), preview.prompts, steps)

    def describe(self) -> str:
        """What it will do, and about how long that takes."""
        sizes = ", ".join(map(str, self.sizes))
        usual = round(sum(self.sizes) / len(self.sizes))
        return (
            f"measuring   {self.steps} training steps at learning rate 0, which leave the model as"
            f" it is\n            of {self.prompts} prompts x {sizes} rollouts\n"
            f"time        about {self.steps} steps of training at n = {usual}, and what loading"
            " takes; the bar shows what is left\n"
            f"output      {self.spec.training.output_dir}"
        )

    def run(
        self,
        callbacks: Sequence[Any] = (),
        progress: "Callable[[str], Progress]" = lambda what: iter,
    ) -> RunFolder:
        """Do it; the folder of the run."""
        from podslab.training import run as experiment
        from podslab.recommend.step_gradients import StepGradients

        watch = StepGradients(Path(str(self.spec.training.output_dir)) / GRADIENTS)
        data = experiment.load_data(self.spec)
        return experiment.train(self.spec, data, [*callbacks, watch], progress).run
