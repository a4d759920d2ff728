"""What a run has measured of its costs and of its prompts, and a short run to measure it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podsrl.errors import InvalidInputError
from podsrl.recommend import Costs, Population, Timing, candidates, measured, measuring_schedule
from podsrl.runs.folder import PHASES, RunFolder

if TYPE_CHECKING:
    from podsrl.evaluation.sampling import Progress
    from podsrl.experiments.spec import Spec

#: A short run goes on until this many prompts were seen, for at most three times the steps.
GROUPS = 32


@dataclass(frozen=True)
class Measured:
    """Costs and prompts of one run, or of several with the same prompts per step.

    m: kept in its updates, the smallest of several. sizes: the n that were generated, ascending.
    generations: that were timed. rewards_G: the rewards of each group, NaN where there is none.
    """

    m: int
    sizes: tuple[int, ...]
    generations: int
    costs: Costs
    rewards_G: Sequence[Sequence[float]]
    population: Population

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
    configs = [run.config() for run in runs]
    timings, rewards = [], []
    for run, config in zip(runs, configs, strict=True):
        if not isinstance(config.get("num_generations"), int):
            raise InvalidInputError(f"{run.path}: its config.yaml has no num_generations (m)")
        timings += _timings(run, config["num_generations"], config.get("num_rollouts"))
        rewards += _rewards(run)
    where = ", ".join(str(run.path) for run in runs)
    if not timings:
        raise InvalidInputError(f"{where} holds no timed steps: its metrics.jsonl is empty")
    if not rewards:
        raise InvalidInputError(
            f"{where} holds no rollouts to learn pass rates from (rollout_log was off): give"
            " --pass_rates"
        )
    rules = {config.get("downsampling_rule") for config in configs}
    rule = rules.pop() if len(rules) == 1 else None
    return Measured(
        m=min(config["num_generations"] for config in configs),
        sizes=tuple(sorted({timing.n for timing in timings})),
        generations=len(timings),
        costs=Costs.of_timings(timings),
        rewards_G=rewards,
        population=measured(rewards, rule or "max_variance"),
    )


def _timings(run: RunFolder, m: int, n: Any) -> list[Timing]:
    """One per generation: seconds per step, on average over the steps that were made with it."""
    generations: list[list[dict[str, Any]]] = []
    for row in run.metrics():
        if "pods/seconds_update" not in row:
            continue
        if row.get("pods/seconds_generate") or not generations:
            generations.append([])
        generations[-1].append(row)
    return [_timing(rows, m, n) for rows in generations]


def _timing(rows: list[dict[str, Any]], m: int, n: Any) -> Timing:
    first = rows[0]
    generate, score, select, update = (
        float(np.mean([row.get(f"pods/seconds_{phase}") or 0.0 for row in rows]))
        for phase in PHASES
    )
    size = round(first.get("pods/num_rollouts") or n)
    tokens = float(first.get("completions/mean_length") or 0.0)
    return Timing(size, m, generate, score, select, update, tokens)


def _rewards(run: RunFolder) -> list[list[float]]:
    groups = []
    for step in run.rollout_steps():
        table = run.rollouts(step)
        if table is None:
            continue
        group = table["group"].to_numpy()
        rewards = table["reward"].to_numpy().astype(float)  # null: NaN
        groups += [rewards[group == one].tolist() for one in np.unique(group)]
    return groups


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
            InvalidInputError: as `podsrl.experiments.spec.parse`.
        """
        from podsrl.experiments.preview import Preview
        from podsrl.experiments.spec import parse

        m = int(parse(config, flags).training.num_generations or 0)
        most = str(8 * m)
        fixed = {
            "num_rollouts": "auto", "max_num_rollouts": most, "learning_rate": "0",
            "evaluation_problems": "0", "save_strategy": "no", "report_to": "none",
            "rollout_log": "true", "logging_steps": "1", "arm": "measured", "output_dir": folder,
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
        from podsrl.experiments import run as experiment

        data = experiment.load_data(self.spec)
        return experiment.train(self.spec, data, callbacks, progress).run
