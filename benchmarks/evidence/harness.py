"""What comparisons of the evidence share: running them, reading them, drawing speed-ups."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from matplotlib.figure import Figure

from podslab.report.curves import ArmCurves
from podslab.report.drawing import INK, style
from podslab.report.statistics import Speedup, mean_over_seeds
from podslab.report.summary import NOT_LEARNED, interval, speed
from podsrl.rollout_log.files import write_whole
from podsrl.rollout_log.run_folder import find_runs

RUNS, RESULTS = Path("runs/evidence"), Path("results")
#: How near to the best measured a choice is counted as right.
NEAR = 0.9
#: Parts of a comparison for each job.
PARTS = 4
#: What the interval of a speed-up says, and its colour.
FASTER, OPEN, SLOWER = "faster", "undecided", "slower"
COLORS = {FASTER: "#0072B2", OPEN: "#7F7F7F", SLOWER: "#D55E00", NOT_LEARNED: "#7F7F7F"}
#: Where "not reached" is drawn, left of every ratio.
NEVER = 0.2


def compare(name: str, config: dict[str, Any], jobs: int) -> None:
    """Run a comparison to its end, `jobs` of its parts side by side, in one thread each.

    Raises:
        SystemExit: a part failed; started again it goes on.
    """
    path = RUNS / f"{name}.yaml"
    write_whole(path, yaml.safe_dump(config, sort_keys=False).encode())
    command = [sys.executable, "-m", "podsrl.cli", "compare", "--config", str(path)]
    command += ["--output_dir", str(RUNS / name)]
    threads = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--dry-run"], check=True, stdout=subprocess.DEVNULL, env=threads)

    def run(part: str) -> int:
        return subprocess.run([*command, "--shard", part], env=threads).returncode

    seeds = config["seeds"] if isinstance(config["seeds"], int) else len(config["seeds"])
    # more parts than seeds, so that no job is long without work at the end
    parts = min(PARTS * jobs, len(config["arms"]) * seeds)
    with ThreadPoolExecutor(jobs) as pool:
        codes = list(pool.map(run, [f"{i + 1}/{parts}" for i in range(parts)]))
    if any(codes):
        sys.exit(f"a part of {name} failed; start this again to go on")


def mean_accuracy(curves: ArmCurves) -> npt.NDArray[np.float64]:
    """The mean of each seed over all evaluations except the first: what it learned on the way."""
    return np.asarray(np.nanmean(curves.accuracy[:, 1:], axis=1))


def equally_long(reference: ArmCurves, arm: ArmCurves) -> tuple[ArmCurves, ArmCurves]:
    """The curves up to the time that both last: replayed ones end at different times."""
    ends = [float(np.nanmax(mean_over_seeds(curves.seconds))) for curves in (reference, arm)]
    last = min(ends) * 1.02  # an evaluation waits for its step to end

    def cut(curves: ArmCurves) -> ArmCurves:
        late = mean_over_seeds(curves.seconds) > last
        return replace(
            curves,
            seconds=np.where(late, np.nan, curves.seconds),
            accuracy=np.where(late, np.nan, curves.accuracy),
        )

    return cut(reference), cut(arm)


def hardware(*names: str) -> str:
    """The machines that the runs of these folders were made on, and the commits of the code."""
    folders = [folder for name in names for folder in RUNS.glob(name) if folder.is_dir()]
    environments = [run.environment() for folder in folders for run in find_runs(folder)]
    machines = sorted({f"{e['cpu']}, {e['cores']} cores" for e in environments})
    commits = sorted({(e.get("git") or {}).get("commit", "unknown")[:12] for e in environments})
    return f"{'; '.join(machines)}, one thread per run, commits {', '.join(commits)}"


def mean_and_spread(accuracy_S: Sequence[float]) -> str:
    """The mean of the seeds with their standard deviation."""
    spread = f" ± {np.std(accuracy_S, ddof=1):.1%}" if len(accuracy_S) > 1 else ""
    return f"{np.mean(accuracy_S):.1%}{spread}"


def with_interval(found: Speedup) -> str:
    """A speed-up with its interval over seeds, or why there is none."""
    said = speed(found)
    return f"{said} ({interval(found)})" if found.ratio else said


def verdict(found: Speedup) -> str:
    """What the 95 % interval of a speed-up says: whether it lies on one side of 1.

    An arm that does not get there within the time given counts as a speed-up of 0. Where the
    reference did not learn, there is no verdict.
    """
    if not found.learned:
        return NOT_LEARNED
    if found.low is None or found.high is None:  # one seed has no interval
        return OPEN
    return FASTER if found.low > 1 else SLOWER if found.high < 1 else OPEN


def figure(panels: Mapping[str, Mapping[str, Speedup]], label: str) -> Figure:
    """Speed-ups with their intervals: a panel for each title, a line for each setting."""
    settings = list(next(iter(panels.values())))
    with style():
        drawn = Figure(
            figsize=(2.0 + 2.0 * len(panels), 1.1 + 0.38 * len(settings)), layout="constrained"
        )
        row = np.atleast_1d(drawn.subplots(1, len(panels), sharex=True, sharey=True))
        for axes, (title, of_setting) in zip(row, panels.items(), strict=True):
            for line, found in enumerate(of_setting.values()):
                _draw_speedup(axes, line, found)
            axes.axvline(1.0, color=INK, lw=1.0)
            axes.tick_params(axis="y", labelsize=8.5, labelcolor=INK)
            axes.set_title(title, fontsize=10)
            axes.tick_params(axis="x", labelsize=8.5)
        row[0].set_xscale("log", base=2)
        row[0].set_xticks([NEVER, 0.5, 1.0, 2.0, 4.0], ["never", "0.5x", "1x", "2x", "4x"])
        row[0].set_xlim(NEVER * 0.9, 4.4)
        row[0].set_yticks(
            range(len(settings)), ["\n".join(textwrap.wrap(one, 33)) for one in settings]
        )
        row[0].set_ylim(len(settings) - 0.5, -0.7)
        meaning = "(line: 95 % interval over seeds; blue: above 1, orange: below 1)"
        drawn.supxlabel(f"{label}\n{meaning}", fontsize="medium")
    return drawn


def _draw_speedup(axes: Any, line: int, found: Speedup) -> None:
    """A point with its interval, or a cross with the reason why there is no ratio."""
    color = COLORS[verdict(found)]
    ends = [max(end or 0.0, NEVER) for end in (found.low, found.high)]
    axes.plot(ends, [line, line], color=color, lw=2.0)
    axes.plot(found.ratio or NEVER, line, "o" if found.ratio else "x", color=color)
    if not found.ratio:
        axes.annotate(
            speed(found),
            xy=(NEVER, line),
            xytext=(6, 4),
            textcoords="offset points",
            color=color,
            weight="bold",
            fontsize=8,
        )
