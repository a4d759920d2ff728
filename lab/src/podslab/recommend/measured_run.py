"""What a run has measured of its costs and of its prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podslab.recommend.costs import Batch, Costs, Sizes, Timing
from podslab.recommend.populations import Population, measured
from podslab.report.curves import share_passed
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import PHASES, REWARD_PREFIX, RunFolder
from podsrl.rules import is_batch_rule, resolve_rule
from podsrl.selection import weighted_sums


@dataclass(frozen=True)
class Measured:
    """Costs and prompts of one run, or of several in one setting.

    now: the sizes of the run with the fewest rows. batch: its rows as TRL counts them. rollouts: of
        the steps that were timed, ascending. generations: that were timed. rewards_G: the rewards
        of each group, NaN where there is none.
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
    max_variance, unless all runs have another group rule and keep several rows of a prompt. No
    rewards are needed where the population is given.

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
            at_once = config.get("per_device_train_batch_size") or rows
            accumulation = config.get("gradient_accumulation_steps") or 1
            processes = max(1, rows // (at_once * accumulation))
            sizes.append((now, Batch(at_once, accumulation, processes, _may_spare(config))))
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
    now, batch = min(sizes, key=lambda one: one[0].rows)
    rule = rules.pop() if len(rules) == 1 and now.m > 1 else "max_variance"
    rule = "max_variance" if rule is None or is_batch_rule(resolve_rule(rule)) else rule
    return Measured(
        now=now,
        batch=batch,
        rollouts=tuple(sorted({timing.rollouts for timing in timings})),
        generations=len(timings),
        costs=Costs.of_timings(timings),
        rewards_G=rewards,
        population=population or measured(rewards, rule),
    )


def _timings(run: RunFolder, config: dict[str, Any]) -> list[Timing]:
    """One per whole generation: of a step and its further passes (num_iterations), on average."""
    passes, accumulation = (
        config.get(name) or 1 for name in ("num_iterations", "gradient_accumulation_steps")
    )
    steps = passes * max(1, (config.get("steps_per_generation") or accumulation) // accumulation)
    # the last row of the generation before, and its own rows
    generations: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    last: dict[str, Any] = {"step": 0}
    for row in run.metrics():
        if "pods/seconds_update" not in row:
            continue
        if row.get("pods/seconds_generate") or not generations:
            generations.append((last, []))
        generations[-1][1].append(row)
        last = row
    if generations and (last["step"] - generations[-1][0]["step"]) % steps:
        del generations[-1]  # cut off
    return [_timing(rows, before, passes, config) for before, rows in generations]


def _timing(rows: Sequence[Any], before: dict[str, Any], passes: int, config: Any) -> Timing:
    generate, score, select, update = (
        passes * float(np.mean([row.get(f"pods/seconds_{phase}") or 0.0 for row in rows]))
        for phase in PHASES
    )
    generated, trained = (
        passes * (rows[-1][name] - before.get(name, 0)) / (rows[-1]["step"] - before["step"])
        for name in ("pods/rollouts_generated", "pods/rollouts_trained")
    )
    passed = trained * share_passed(config, rows, before)
    tokens = float(rows[0].get("completions/mean_length") or 0.0)
    return Timing(generated, trained, passed, generate, score + select, update, tokens)


def _may_spare(config: dict[str, Any]) -> bool:
    """Whether such a run may leave out rows without a gradient, by `skip_zero_advantage` of TRL."""
    if config.get("num_rollouts") != config["num_generations"]:
        return bool(config.get("skip_zero_advantage"))  # the default where it may be
    need_all = ("beta", "entropy_coef", "use_adaptive_entropy")
    whole = any(config.get(name) for name in need_all) or config.get("loss_type") == "bnpo"
    return (
        "skip_zero_advantage" in config
        and not whole
        and config.get("top_entropy_quantile", 1.0) == 1.0
    )


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
