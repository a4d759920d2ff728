"""Carrying out a comparison: tuning, then seeds in looks, killed and continued at will."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from podslab.comparison.comparison import ComparisonSpec, RunKey, Shard, Tuning
from podslab.comparison.decision import decide
from podslab.comparison.tuning import chosen_rates
from podslab.durations import duration
from podslab.engine.folder import CHOSEN_RATES
from podslab.engine.looks import Looked, train_in_looks
from podslab.engine.pool import Job, Pool, Watcher
from podslab.evaluation.records import evaluations
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import RunFolder


@dataclass(frozen=True)
class RunJob:
    """A run of a comparison, as a job of the pool."""

    comparison: ComparisonSpec
    key: RunKey

    @property
    def name(self) -> str:
        """As the ledger has it."""
        return self.key.name

    @property
    def run(self) -> RunFolder:
        """Where it is recorded."""
        return self.comparison.run_folder(self.key)

    @property
    def clock(self) -> str:
        """The clock of its training time."""
        return str(self.comparison.arms[self.key.arm].get("training_clock") or "wall")

    def words(self) -> list[str]:
        """The words of its process after Python's name."""
        return ["-m", "podslab.comparison.run_worker", str(self.comparison.folder), self.key.path]

    def is_finished(self) -> bool:
        """Whether it was trained to its end."""
        return self.run.finished() is not None


@dataclass
class Outcome:
    """The outcome of a comparison.

    Args:
        looked: Where the looks ended, for `decide`.
        done: The number of reported runs that are done.
        failed: Why others failed, by their names.
        is_whole: Whether no run of these seeds is missing, such as one of another shard.
    """

    looked: Looked
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    is_whole: bool = False


def compare(
    spec: ComparisonSpec,
    shard: Shard,
    watcher: Watcher | None = None,
    at_once: int = 1,
) -> Outcome:
    """Train every run of our shard that is not finished; finished ones are not touched.

    A run that was killed goes on from its last checkpoint, or starts again if it has none. A run
    that crashes is left out, and the others go on.

    Args:
        spec: The plan, from `open_comparison`.
        shard: Which runs are ours. With one shard alone a comparison may stop at a planned look.
        watcher: It hears of runs that start and end.
        at_once: How many runs are trained side by side, each in a process of its own.

    Raises:
        PodsError: A run ended with a user's error, which the others would share.
        InvalidInputError: Learning rates can't be chosen, as tuning runs are missing.
    """
    pool = Pool(
        ledger=spec.ledger(shard),
        launch=spec.launch,
        at_once=at_once,
        watcher=watcher or Watcher(),
    )
    if spec.tuning is not None:
        _tune(spec, spec.tuning, shard, pool)

    looked = _train_seeds(spec, shard, pool)
    seeds = spec.seeds[: looked.seeds]
    trained = [run for run in shard.part_of(spec.runs(), spec.seeds) if run.seed in seeds]
    # A run for tuning that failed is none of the reported ones: its rate was not chosen.
    names = {run.name for run in trained}
    failed = {name: why for name, why in pool.failed.items() if name in names}
    outcome = Outcome(looked, failed=failed)
    for run in trained:
        if run.name not in outcome.failed and (problem := _points_problem(spec, run)):
            outcome.failed[run.name] = problem
    outcome.done = len(trained) - len(outcome.failed)
    outcome.is_whole = not outcome.failed and _are_whole(spec, seeds)
    return outcome


def _tune(spec: ComparisonSpec, tuning: Tuning, shard: Shard, pool: Pool) -> None:
    """Choose the learning rate of each arm that has none yet, such as one that was added."""
    there = spec.chosen_rates()
    if there.keys() >= spec.arms.keys():
        return
    mine = shard.part_of(spec.tuning_runs(), tuning.seeds)
    pool.make(_jobs(spec, [run for run in mine if run.arm not in there]))
    files.write_json(spec.folder / CHOSEN_RATES, {**chosen_rates(spec), **there})


def _are_whole(spec: ComparisonSpec, seeds: Sequence[int]) -> bool:
    """Whether every run of these seeds is finished, whichever shard it is of."""
    return all(
        spec.run_folder(run).finished() is not None for run in spec.runs() if run.seed in seeds
    )


def _train_seeds(spec: ComparisonSpec, shard: Shard, pool: Pool) -> Looked:
    """Train our reported runs, in looks where all of them are ours."""

    def train(places: Sequence[int]) -> None:
        seeds = [spec.seeds[place] for place in places]
        mine = shard.part_of(spec.runs(), spec.seeds)
        pool.make(_jobs(spec, [run for run in mine if run.seed in seeds]))

    def is_decided(seeds: int, level: float) -> bool:
        # A shard sees a part of the runs, and a run that failed is made again by the next start.
        if shard.count > 1 or not _are_whole(spec, spec.seeds[:seeds]):
            return False
        decision = decide(spec, seeds, level)
        return decision is not None and decision.is_decided

    return train_in_looks(spec.looks, train, is_decided, has_time=lambda seeds: True)


def _jobs(spec: ComparisonSpec, runs: Sequence[RunKey]) -> list[Job]:
    return [RunJob(spec, run) for run in runs]


def _points_problem(spec: ComparisonSpec, run: RunKey) -> str | None:
    """A step that is longer than the way between two evaluations makes one of the two."""
    folder = spec.run_folder(run)
    made = len(evaluations(folder))
    wanted = spec.evaluations + 1  # one before training
    if made == wanted:
        return None
    return (
        f"evaluated {made} times instead of {wanted}: a step took longer than"
        f" {spec.amount / spec.evaluations:g} {spec.unit}, the way between two evaluations. Delete"
        f" {folder.path} to run it again; if most steps are that long, ask for fewer evaluations"
        " or a larger budget, in a new output_dir"
    )


class Progress(Watcher):
    """Says in one line which run starts, how many are done, and the time that is left.

    Args:
        runs: The number of runs of the comparison.
        say: Called with the line.
        at_once: How many runs are trained side by side.
    """

    def __init__(self, runs: int, say: Callable[[str], None], at_once: int = 1) -> None:
        self.runs = runs
        self.say = say
        self.at_once = at_once
        self._took: list[float] = []

    def starts(self, job: Job, others: int) -> None:
        """One line for each run that starts."""
        left = fmean(self._took) * (others + 1) / self.at_once if self._took else 0.0
        time_left = f"  about {duration(left)} left" if left else ""
        self.say(f"[{len(self._took)}/{self.runs}]  {job.name}{time_left}")

    def ended(self, job: Job, seconds: float, problem: str | None) -> None:
        """Learn how long a run takes; tell why one failed."""
        self._took.append(seconds)
        if problem is not None:
            self.say(f"failed: {job.name}: {problem}")


def failures(failed: Mapping[str, str]) -> list[str]:
    """One line for each run that failed."""
    return [f"failed: {name}: {problem}" for name, problem in failed.items()]
