"""Reading saved runs into arms that may be compared, and refusing those that may not."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np

from podslab.comparison.comparison import RunKey, read_comparison
from podslab.comparison.decision import DECISION
from podslab.engine.folder import ARMS_PLAN, TUNING
from podslab.evaluation.records import MEAN_REWARD, Evaluation, evaluations
from podslab.statistics.curves import ArmCurves, Clock, check_points, share_passed
from podslab.training.config_file import parse_options
from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.rollout_log.files import damage_as_notes, read_json
from podsrl.rollout_log.run_folder import PHASES, RunFolder, find_runs

#: Arms that others are measured against, if no reference is asked for.
REFERENCES = ("grpo", "grpo_ga")
#: Settings that decide what an accuracy means, and the one that holds where such a one is None.
_SETTINGS_OF_ACCURACY = {
    "data_path": None,
    "evaluation_temperature": "temperature",
    "max_completion_length": None,
}
_REPORT_APART = "Accuracies on different problems can't be compared: report the folders apart"


@dataclass(frozen=True)
class Arm:
    """The content of a report on one arm.

    Args:
        curves: The evaluations of its seeds.
        config: The settings of its runs; where seeds differ, all their values.
        phases: The measured seconds per step, by phase; {} where the results don't hold them, or
            times are modelled.
        peak_memory: In bytes; None where it is not known.
    """

    curves: ArmCurves
    config: Mapping[str, Any]
    phases: Mapping[str, float] = field(default_factory=dict)
    peak_memory: float | None = None

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.curves.arm


@dataclass(frozen=True)
class Comparison:
    """Arms measured on the same problems at the same points.

    Args:
        title: What was compared.
        measure: One of `ACCURACIES` in podslab.evaluation.records, or `MEAN_REWARD`.
        arms: The arms, in the order in which they are shown.
        references: The names of the arms that others are measured against.
        clock: What modelled times are computed by; None for measured time.
        base: The first points are of the untrained model, measured by each run on its "own", or
            once and "shared" by all; or that is "unknown".
        runs: Where the rollouts lie.
        notes: What the reader must know of the data.
        details: On what it was compared, in words.
    """

    title: str
    measure: str
    arms: tuple[Arm, ...]
    references: tuple[str, ...]
    clock: Clock | None = None
    base: Literal["own", "shared", "unknown"] = "own"
    runs: tuple["Run", ...] = ()
    notes: tuple[str, ...] = ()
    details: str = ""

    def arm(self, name: str) -> Arm:
        """The arm of that name."""
        return next(arm for arm in self.arms if arm.name == name)


class Run(NamedTuple):
    """A run folder, read. Its environments are that of its start and those of its resumptions."""

    arm: str
    seed: int
    folder: RunFolder
    config: dict[str, Any]
    environments: list[dict[str, Any]]
    evaluations: list[Evaluation]
    metrics: list[dict[str, Any]]
    is_finished: bool

    @property
    def name(self) -> str:
        """The run's folder, as messages call it."""
        return str(self.folder.path)


@dataclass(frozen=True)
class Choices:
    """The choices of a report, as asked for on the command line.

    Args:
        references: The arms to measure against; () takes those of `REFERENCES` that there are.
        measure: One of `ACCURACIES` in podslab.evaluation.records.
        clock: What to model times by; None for measured time.
        partial: Whether to leave out unfinished runs and seeds that not every arm has, with a note.
    """

    references: Sequence[str] = ()
    measure: str = "answer_accuracy"
    clock: Clock | None = None
    partial: bool = False


def load_comparison(folders: Iterable[str | Path], choices: Choices) -> Comparison:
    """Read the runs in folders and below, and check that their arms may be compared.

    Raises:
        InvalidInputError: Damaged files, mixed tasks, missing arms or seeds, unequal evaluation
            points, or two runs of one arm and seed; the message says what to do.
        UnknownNameError: A reference that is no arm.
    """
    roots = [Path(folder) for folder in folders]
    notes: list[str] = []
    runs = _read_runs(roots, notes)
    expected = _expected_runs(roots)
    title, details = _on_one_task(runs)
    runs = _one_of_each(runs, expected, notes, choices.partial)
    check_points({run.name: run.evaluations for run in runs})

    runs_by_arm: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        runs_by_arm[run.arm].append(run)

    notes += [f"{run.name} is not finished" for run in runs if not run.is_finished]
    if choices.clock is None:
        notes += _hardware(runs)

    measure = _measure(runs, choices.measure)
    if measure == MEAN_REWARD:
        notes.append(
            "rewards are not all 0 or 1, so their mean is compared; a rise is that from the first"
            " measurement to the best one"
        )

    all_began_untrained = all(run.evaluations[0].step == 0 for run in runs)
    return Comparison(
        title=title,
        details=details,
        measure=measure,
        arms=tuple(_arm(of_arm, measure, choices.clock) for of_arm in runs_by_arm.values()),
        references=_references(choices.references, list(runs_by_arm)),
        clock=choices.clock,
        base="own" if all_began_untrained else "unknown",
        runs=tuple(runs),
        notes=tuple(notes),
    )


def _read_runs(roots: Iterable[Path], notes: list[str]) -> list[Run]:
    """The runs below the roots, each once, in the order in which they are shown."""
    # One folder may be given twice, or lie below another.
    folders = {run.path.resolve(): run for root in roots for run in _reported_folders(root)}
    with damage_as_notes(notes):
        runs = [_read(folder) for folder in folders.values()]
    return sorted(runs, key=lambda run: (_arm_order(run.arm), run.seed))


def _reported_folders(root: Path) -> list[RunFolder]:
    """The runs below a root, without those that a comparison chose its learning rates by.

    Raises:
        InvalidInputError: The root is a comparison whose plan does not name one of the runs.
    """
    found = [run for run in find_runs(root) if not _is_for_tuning(run.path.relative_to(root))]
    if not (root / ARMS_PLAN).is_file():
        return found

    comparison = read_comparison(root)
    planned = {comparison.run_folder(run).path for run in comparison.runs()}
    for run in found:
        if run.path not in planned:
            raise InvalidInputError(
                f"{run.path} is not reported, as {root / ARMS_PLAN} names no such run: move it to a"
                " folder of its own"
            )
    return found


def _is_for_tuning(path: Path) -> bool:
    """Whether a run's path is that of one by which a comparison chose learning rates.

    >>> _is_for_tuning(Path("tuning/pods-1e-05/seed-1000")), _is_for_tuning(Path("pods/seed-0"))
    (True, False)
    """
    return path.parts[-3:-2] == (TUNING,)


def _expected_runs(roots: Iterable[Path]) -> list[RunKey]:
    """The runs that the comparisons in these folders consist of, begun or not."""
    expected = []
    for root in roots:
        if not (root / ARMS_PLAN).is_file():
            continue
        comparison = read_comparison(root)
        # A comparison that was decided in an earlier look has fewer seeds than were planned.
        decided = read_json(root / DECISION)
        seeds = decided["seeds"] if decided is not None else comparison.seeds
        expected += [run for run in comparison.runs() if run.seed in seeds]
    return expected


def _arm_order(name: str) -> tuple[int, list[tuple[int, str]]]:
    """The three usual arms first, then by name, with numbers in it by their size."""
    usual = (*REFERENCES, "pods")
    rank = usual.index(name) if name in usual else len(usual)

    # Every part has the same form, so that a number and a word can be compared.
    parts = re.split(r"(\d+)", name)
    return rank, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _read(folder: RunFolder) -> Run:
    config = folder.config()
    for key, kind in (("arm", str), ("seed", int)):
        if not isinstance(config.get(key), kind):
            raise InvalidInputError(
                f"{folder.path / 'config.yaml'} must say the run's {key}; got {config.get(key)!r}"
            )

    # A run writes this last. Asked after its evaluations, a run that ends meanwhile would be called
    # finished without its last ones.
    is_finished = folder.finished() is not None
    at_start = folder.environment()
    resumed = at_start.pop("resumed", [])
    return Run(
        arm=str(config["arm"]),
        seed=int(config["seed"]),
        folder=folder,
        config=config,
        environments=[at_start, *resumed],
        evaluations=evaluations(folder),
        metrics=folder.metrics(),
        is_finished=is_finished,
    )


def _on_one_task(runs: list[Run]) -> tuple[str, str]:
    """The task that all runs were evaluated on, and its details, in words."""
    run_by_problems = {}
    for run in runs:
        for evaluation in run.evaluations:
            run_by_problems[_problems(run, evaluation)] = run.name

    if not run_by_problems:
        raise InvalidInputError(
            f"no evaluation in {', '.join(run.name for run in runs)}; `pods inspect` shows the"
            " rollouts of a run without evaluations"
        )
    if len(run_by_problems) > 1:
        kinds = "; ".join(
            f"{', '.join(problems)} (as in {run_by_problems[problems]})"
            for problems in sorted(run_by_problems)
        )
        raise InvalidInputError(f"mixed problems: {kinds}. {_REPORT_APART}")

    for key, otherwise in _SETTINGS_OF_ACCURACY.items():
        _refuse_mixed_setting(runs, key, otherwise)
    return next(iter(run_by_problems))


def _problems(run: Run, evaluation: Evaluation) -> tuple[str, str]:
    """The task of an evaluation, and its problems and options, as text."""
    name = evaluation.task
    if evaluation.split != "test":
        name += f" {evaluation.split}"

    words = f"{evaluation.problems:,} {evaluation.split} problems"
    if evaluation.repeats > 1:
        words += f", {evaluation.repeats} answers to each"
    if evaluation.task == run.config.get("task"):
        for key, value in parse_options(run.config.get("task_options")).items():
            words += f"; {key.replace('_', ' ')} {value}"
    return name, words


def _refuse_mixed_setting(runs: Iterable[Run], key: str, otherwise: str | None) -> None:
    """Refuse runs that differ in a setting; runs of earlier versions may not have it."""
    run_by_value = {}
    for run in runs:
        if key not in run.config:
            continue
        value = run.config[key]
        if value is None and otherwise is not None:
            value = run.config.get(otherwise)
        run_by_value[value] = run.name

    if len(run_by_value) > 1:
        values = "; ".join(f"{value} (as in {name})" for value, name in run_by_value.items())
        raise InvalidInputError(f"mixed problems: {key} {values}. {_REPORT_APART}")


def _one_of_each(
    runs: list[Run], expected: Sequence[RunKey], notes: list[str], partial: bool
) -> list[Run]:
    """The runs, checked to be one for every arm and seed."""
    there: dict[tuple[str, int], Run] = {}
    for run in runs:
        other = there.setdefault((run.arm, run.seed), run)
        if other is not run:
            raise InvalidInputError(
                f"{other.name} and {run.name} are both arm {run.arm!r} with seed {run.seed}; report"
                " them apart"
            )

    begun = set(there)
    if partial:
        longest = max(len(run.evaluations) for run in runs)
        for run in runs:
            if len(run.evaluations) < longest:
                del there[run.arm, run.seed]
                notes.append(f"{run.name} is not finished and was left out")

    wanted = [*begun, *((run.arm, run.seed) for run in expected)]
    arms = {arm for arm, _ in wanted}
    seeds = {seed for _, seed in wanted}
    missing = sorted((arm, seed) for arm in arms for seed in seeds if (arm, seed) not in there)
    if not missing:
        return list(there.values())

    listed = ", ".join(
        f"{arm} seed {seed} (unfinished)" if (arm, seed) in begun else f"{arm} seed {seed}"
        for arm, seed in missing
    )
    incomplete_seeds = {seed for _, seed in missing}
    of_whole_seeds = [run for run in there.values() if run.seed not in incomplete_seeds]
    if not partial or not of_whole_seeds:
        what_else = ", or report the seeds that every arm has with --partial"
        if partial:
            what_else = "; even with --partial no seed is left"
        raise InvalidInputError(
            f"missing runs: {listed}. Arms are compared over the same seeds: run them"
            f" (`pods compare` continues where it was stopped){what_else}"
        )
    notes.append(f"missing runs: {listed}; only seeds that every arm has are reported")
    return of_whole_seeds


def _measure(runs: Sequence[Run], asked: str) -> str:
    """The measure that was asked for; the mean reward for answers that are not right or wrong."""
    points = [point for run in runs for point in run.evaluations]
    if asked == "answer_accuracy" and not all(point.is_right_or_wrong for point in points):
        return MEAN_REWARD
    return asked


def _references(asked: Sequence[str], arms: Sequence[str]) -> tuple[str, ...]:
    """The arms to measure against: those that were asked for, each once, or the usual ones."""
    for name in asked:
        if name not in arms:
            raise UnknownNameError(f"no arm {name!r} to compare with; there are {', '.join(arms)}")
    if asked:
        return tuple(dict.fromkeys(asked))
    if len(arms) == 1:
        return ()

    usual = tuple(name for name in REFERENCES if name in arms)
    if not usual:
        raise InvalidInputError(
            f"which of the arms {', '.join(arms)} is the one to compare with? Say --reference ARM"
        )
    return usual


def _hardware(runs: Sequence[Run]) -> list[str]:
    """A note if the runs had different processors or GPUs, else none."""
    machines = set()
    for run in runs:
        for environment in run.environments:
            gpus = ", ".join(environment.get("gpus") or ()) or "no GPU"
            machines.add(f"{environment.get('cpu')}, {environment.get('cores')} cores, {gpus}")

    if len(machines) <= 1:
        return []
    listed = "; ".join(sorted(machines))
    return [f"the runs were made on different hardware, so times don't compare well: {listed}"]


def _arm(runs: Sequence[Run], measure: str, clock: Clock | None) -> Arm:
    """The arm that these runs are, one for each seed."""
    name = runs[0].arm
    curves = ArmCurves.stack(name, {run.seed: run.evaluations for run in runs}, measure)
    if np.isnan(curves.accuracy).all():
        raise InvalidInputError(
            f"arm {name!r} has no {measure} at any evaluation: no answer could be scored, or it"
            " was not measured"
        )
    if clock is not None:
        shares_S_T = [_shares_passed(run) for run in runs]
        curves = curves.replay(_clock_of_passes(clock, runs), shares_S_T)

    config = {}
    for key in runs[0].config:
        config[key] = _common(run.config.get(key) for run in runs)
    config["seed"] = ", ".join(str(seed) for seed in curves.seeds)

    rows = [row for run in runs for row in run.metrics]
    logged = [row.get("pods/peak_memory") for row in rows]
    return Arm(
        curves=curves,
        config=config,
        phases=_seconds_by_phase(rows) if clock is None else {},
        peak_memory=max((used for used in logged if isinstance(used, (int, float))), default=None),
    )


def _clock_of_passes(clock: Clock, runs: Sequence[Run]) -> Clock:
    """The clock for runs that make several passes over what they train on (num_iterations)."""
    passes = {run.config.get("num_iterations") or 1 for run in runs}
    if len(passes) > 1:
        raise InvalidInputError(
            f"arm {runs[0].arm!r} can't be replayed on another clock: num_iterations must be the"
            f" same for all its runs; got {sorted(passes)}. Report the folders apart"
        )
    return replace(clock, update=clock.update * passes.pop())


def _shares_passed(run: Run) -> list[float]:
    """The share of the kept rows that had a pass, up to each evaluation."""
    shares_T = []
    for evaluation in run.evaluations:
        rows = [row for row in run.metrics if row["step"] <= evaluation.step]
        shares_T.append(share_passed(run.config, rows))
    return shares_T


def _seconds_by_phase(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean seconds per step over the logged steps of all seeds, by phase; {} if none is known."""
    means = {}
    any_known = False
    for phase in PHASES:
        logged = [row.get(f"pods/seconds_{phase}") for row in rows]
        known = [seconds for seconds in logged if seconds is not None]
        means[phase] = fmean(known) if known else 0.0
        any_known = any_known or bool(known)
    return means if any_known else {}


def _common(values: Iterable[Any]) -> Any:
    """The value if all seeds share it, else all of them."""
    every = list(values)
    different = list(dict.fromkeys(map(str, every)))
    return every[0] if len(different) == 1 else " | ".join(different)
