"""What a run has measured of its costs and of its prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podslab.recommend.costs import Batch, Costs, Sizes, Timing
from podslab.recommend.populations import Population, measured
from podslab.report.curves import share_passed
from podsrl.errors import InvalidInputError
from podsrl.rewards import weighted_sum
from podsrl.rollout_log.run_folder import REWARD_PREFIX, RunFolder
from podsrl.rules import resolve_rule


@dataclass(frozen=True)
class Measured:
    """Costs and prompts of one run, or of several in one setting.

    Args:
        now: The sizes of the run with the fewest rows.
        batch: Its rows as TRL counts them.
        rollouts: The rollouts of the steps that were timed, ascending.
        generations: How many were timed.
        costs: What a step costs.
        rewards_G: The rewards of each group, NaN where there is none.
        population: The prompts.
    """

    now: Sizes
    batch: Batch
    rollouts: tuple[float, ...]
    generations: int
    costs: Costs
    rewards_G: Sequence[Sequence[float]]
    population: Population

    @property
    def mean_reward(self) -> float:
        """Over all rollouts that could be scored: for rewards of 0 and 1 the pass rate."""
        return float(np.nanmean(np.concatenate([np.asarray(r) for r in self.rewards_G])))


def read_measured(*runs: RunFolder, population: Population | None = None) -> Measured:
    """Costs from the metrics of runs, and rewards from their rollouts, of all steps alike.

    Runs of several arms give the costs at several n and m. Rewards are taken as those of
    max_variance, unless all runs have another prompt rule and keep several rows of a prompt. No
    rewards are needed where the population is given.

    Raises:
        InvalidInputError: No run, no timed steps, no rollouts, or no rewards.
    """
    timings: list[Timing] = []
    rewards: list[list[float]] = []
    sizes: list[tuple[Sizes, Batch]] = []
    rules = set()
    for run in runs:
        config = run.config()
        if not isinstance(config.get("num_generations"), int):
            raise InvalidInputError(f"{run.path}: its config.yaml has no num_generations (m)")
        timings_of_run = _timings(run, config)
        timings += timings_of_run
        rewards += _rewards(run)
        rules.add(config.get("downsampling_rule"))
        if timings_of_run:
            sizes.append(_sizes(config, rows=round(timings_of_run[-1].rows)))

    where = ", ".join(str(run.path) for run in runs)
    if not timings:
        raise InvalidInputError(
            f"{where} holds no timed steps: its metrics.jsonl has no whole generation; train longer"
        )
    if not rewards and population is None:
        raise InvalidInputError(
            f"{where} holds no rollouts to learn pass rates from (rollout_log was off): give"
            " --pass_rates"
        )

    now, batch = min(sizes, key=lambda sizes_and_batch: sizes_and_batch[0].rows)
    if population is None:
        population = measured(rewards, _rule_of_all(rules) if now.m > 1 else "max_variance")
    return Measured(
        now=now,
        batch=batch,
        rollouts=tuple(sorted({timing.rollouts for timing in timings})),
        generations=len(timings),
        costs=Costs.of_timings(timings),
        rewards_G=rewards,
        population=population,
    )


def _sizes(config: dict[str, Any], rows: int) -> tuple[Sizes, Batch]:
    """The sizes of a run's step of so many rows, and how TRL counts these."""
    m = config["num_generations"]
    n = config.get("num_rollouts")
    at_once = config.get("per_device_train_batch_size") or rows
    accumulation = config.get("gradient_accumulation_steps") or 1
    return (
        Sizes(prompts=max(1, rows // m), n=n if isinstance(n, int) else m, m=m),
        Batch(
            rows=at_once,
            accumulation=accumulation,
            processes=max(1, rows // (at_once * accumulation)),
            spares=_may_spare(config),
        ),
    )


def _rule_of_all(rules: set[Any]) -> str:
    """The prompt rule that all runs have, else max_variance."""
    if len(rules) > 1:
        return "max_variance"
    (rule,) = rules
    if rule is None or resolve_rule(rule).across_prompts:
        return "max_variance"
    return str(rule)


def _timings(run: RunFolder, config: dict[str, Any]) -> list[Timing]:
    """One per whole generation: of a step and its further passes (num_iterations), on average."""
    passes = config.get("num_iterations") or 1
    accumulation = config.get("gradient_accumulation_steps") or 1
    batches = (config.get("steps_per_generation") or accumulation) // accumulation
    steps = passes * max(1, batches)

    # The last row of the generation before, and its own rows.
    generations: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    last: dict[str, Any] = {"step": 0}
    for row in run.metrics():
        if "pods/seconds_update" not in row:
            continue
        if row.get("pods/seconds_generate") or not generations:
            generations.append((last, []))
        generations[-1][1].append(row)
        last = row

    if generations:
        before_last, _ = generations[-1]
        if (last["step"] - before_last["step"]) % steps:
            del generations[-1]  # the run ended, or was logged, in the middle of it
    return [_timing(rows, before, passes, config) for before, rows in generations]


def _timing(rows: Sequence[Any], before: dict[str, Any], passes: int, config: Any) -> Timing:
    """A step of a generation with all its passes, on average, from the generation's rows."""

    def seconds(phase: str) -> float:
        logged = [row.get(f"pods/seconds_{phase}") or 0.0 for row in rows]
        return passes * float(np.mean(logged))

    def per_step(total: str) -> float:
        steps = rows[-1]["step"] - before["step"]
        return float(passes * (rows[-1][total] - before.get(total, 0)) / steps)

    trained = per_step("pods/rollouts_trained")
    return Timing(
        rollouts=per_step("pods/rollouts_generated"),
        rows=trained,
        passed=trained * share_passed(config, rows, before),
        generate=seconds("generate"),
        score=seconds("score") + seconds("select"),
        update=seconds("update"),
        tokens=float(rows[0].get("completions/mean_length") or 0.0),
    )


def _may_spare(config: dict[str, Any]) -> bool:
    """Whether such a run may leave out rows without a gradient, by `skip_zero_advantage` of TRL."""
    if config.get("num_rollouts") != config["num_generations"]:
        return bool(config.get("skip_zero_advantage"))  # the default where it may be
    if "skip_zero_advantage" not in config:  # another host's run
        return False

    # With these every row counts in the loss, whatever its advantage.
    has_other_losses = any(
        config.get(name) for name in ("beta", "entropy_coef", "use_adaptive_entropy")
    )
    counts_tokens_of_batch = config.get("loss_type") == "bnpo"
    ranks_all_tokens = config.get("top_entropy_quantile", 1.0) != 1.0
    return not (has_other_losses or counts_tokens_of_batch or ranks_all_tokens)


def _rewards(run: RunFolder) -> list[list[float]]:
    """Of each group what its rollouts are selected by: the reward, or a sum of its own weights."""
    weights = np.array(run.config().get("selection_weights") or ())
    groups: list[list[float]] = []
    for step in run.rollout_steps():
        table = run.rollouts(step)
        if table is None:
            continue
        rewards = table["reward"].to_numpy().astype(float)  # null: NaN
        names = [name for name in table.column_names if name.startswith(REWARD_PREFIX)]
        if weights.any() and len(names) == len(weights):
            parts = [table[name].to_numpy().astype(float) for name in names]
            rewards = weighted_sum(np.stack(parts, axis=-1), weights)

        group_of_rollout = table["group"].to_numpy()
        for group in np.unique(group_of_rollout):
            groups.append(rewards[group_of_rollout == group].tolist())
    return groups
