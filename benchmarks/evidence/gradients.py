"""What the gradient of a step consists of, in the saved runs of `benchmarks/evidence`.

The part that the rollouts of a prompt share grows with their contrast; the noise of single rollouts
averages out over the m kept:

    |gradient|^2 = shared * variance of the kept rewards + single / m

`variances` measures both at fixed weights.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

from podsrl.rollout_log.run_folder import RunFolder, find_runs

Floats = npt.NDArray[np.float64]
#: Of a run's training time, while the policies of all arms are still alike.
EARLY = 0.25
#: Where the share is quoted: 16 kept, half of them right.
KEPT, VARIANCE = 16, 0.25
_RESAMPLES = 200


@dataclass(frozen=True)
class Share:
    """The shared part of the squared gradient at m = 16 and the largest contrast, 0..1.

    low, high: 95 % bootstrap interval over runs. steps: that it was fitted to. sizes: the m.
    """

    share: float
    low: float
    high: float
    steps: int
    sizes: tuple[int, ...]


def shared(folder: Path) -> Share:
    """From all runs of a comparison with one prompt per step; arms that select by contrast."""
    found = [steps for run in find_runs(folder) if len(steps := early_steps(run))]

    def statistic(chosen: Iterable[int]) -> float:
        return fit(np.concatenate([found[i] for i in chosen]))

    everything = np.arange(len(found))
    spread = stats.bootstrap(
        (everything,),
        statistic,
        vectorized=False,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=0,
    ).confidence_interval
    steps = np.concatenate(found)
    sizes = tuple(int(m) for m in np.unique(np.round(1 / steps[:, 1])))
    return Share(statistic(everything), spread.low, spread.high, len(steps), sizes)


def has_one_prompt(folder: Path) -> bool:
    """Does a step have one prompt? The gradient of several is that of a mean over them."""
    config = find_runs(folder)[0].config()
    rows = config["per_device_train_batch_size"] * config["gradient_accumulation_steps"]
    return bool(rows == config["num_generations"])


def early_steps(run: RunFolder) -> Floats:
    """(variance of the kept rewards, 1 / m, |gradient|^2) of first passes that had contrast."""
    m = run.config()["num_generations"]
    rows = run.metrics()
    until = EARLY * max(row.get("pods/training_seconds", 0.0) for row in rows)
    return np.array(
        [
            (deviation**2 * (m - 1) / m, 1 / m, row["grad_norm"] ** 2)  # logged unbiased
            for row in rows
            if row.get("pods/training_seconds", np.inf) <= until
            and (deviation := row.get("pods/kept_reward_std", row.get("reward_std", 0.0))) > 0
        ]
    )


def fit(steps: Floats) -> float:
    """The share, by least squares on the logarithm: gradient norms have a long tail."""
    parts, squares = steps[:, :2], steps[:, 2]

    def error(log_sizes: Floats) -> Floats:
        return np.asarray(np.log(parts @ np.exp(log_sizes)) - np.log(squares))

    found = optimize.least_squares(error, np.zeros(2), bounds=(-12.0, 12.0), loss="soft_l1")
    together, single = np.exp(found.x) * (VARIANCE, 1 / KEPT)
    return float(together / (together + single))


def as_markdown(shares: Mapping[str, Share]) -> str:
    """One line a setting."""
    lines = [
        "## What a step's gradient consists of\n",
        "Fitted to the gradient norms of the first quarter of every run: |gradient|^2 = shared *"
        " variance of the kept rewards + single / m. The share of the first part at m = 16 and the"
        " largest contrast:\n",
        "| | share | 95 % interval over runs | steps | m |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {s.share:.0%} | {s.low:.0%} to {s.high:.0%} | {s.steps:,} |"
        f" {', '.join(map(str, s.sizes))} |"
        for name, s in shares.items()
    ]
    return "\n".join([*lines, ""])
