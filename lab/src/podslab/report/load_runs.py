"""Reading saved runs into arms that may be compared, and refusing those that may not."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from podslab.comparison.comparison import RunOf, read_comparison
from podslab.evaluation.records import Evaluation, evaluations
from podslab.report.curves import ArmCurves, Clock, check_points, share_passed
from podslab.training.config_file import parse_options
from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.rollout_log.files import damage_as_notes
from podsrl.rollout_log.run_folder import PHASES, RunFolder, find_runs

#: Arms that others are measured against, if no reference is asked for.
REFERENCES = ("grpo", "grpo_ga")
#: What runs have to be evaluated with alike, and what holds where it is not given.
_ALIKE = {"data_path": "", "evaluation_temperature": "temperature", "max_completion_length": ""}
_APART = "Accuracies on different problems can't be compared: report the folders apart"


@dataclass(frozen=True)
class Arm:
    """What a report shows of one arm.

    phases: measured seconds per step, by phase; {} where the results don't hold them, or times are
        modelled. peak_memory: in bytes, None where it is not known.
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

    title: what was compared, details: on what. measure: one of `ACCURACIES`.
    clock: None for measured time. references: names of arms.
    base: the first points are of the untrained model, measured by each run on its "own", or once
    and "shared" by all; or "unknown". runs: where the rollouts lie. notes: what the reader must
    know of the data.
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
    """A run folder, read."""

    arm: str
    seed: int
    folder: RunFolder
    config: dict[str, Any]
    environments: list[dict[str, Any]]
    evaluations: list[Evaluation]
    metrics: list[dict[str, Any]]

    @property
    def name(self) -> str:
        """The run's folder, as messages call it."""
        return str(self.folder.path)


@dataclass(frozen=True)
class Choices:
    """What of the runs to report, as asked for on the command line.

    references: arms to measure against; () takes those of `REFERENCES` that there are.
    measure: one of `ACCURACIES` in podslab.evaluation.records.
    partial: leave out unfinished runs and seeds that not every arm has, with a note.
    """

    references: Sequence[str] = ()
    measure: str = "answer_accuracy"
    clock: Clock | None = None
    partial: bool = False


def load_comparison(folders: Iterable[str | Path], choices: Choices) -> Comparison:
    """Read the runs in folders and below, and check that their arms may be compared.

    Raises:
        InvalidInputError: damaged files, mixed tasks, missing arms or seeds, unequal evaluation
            points, two runs of one arm and seed; the message says what to do.
        UnknownNameError: a reference that is no arm.
    """
    roots = [Path(folder) for folder in folders]
    notes: list[str] = []
    paths = {run.path.resolve(): run for root in roots for run in find_runs(root)}
    with damage_as_notes(notes):
        read = (_read(run) for run in paths.values())
        runs = sorted(read, key=lambda run: (_arm_order(run.arm), run.seed))
    compared = [read_comparison(root) for root in roots if (root / "comparison.yaml").is_file()]
    expected = [run for comparison in compared for run in comparison.runs()]
    what, details = _on_one_task(runs)
    runs = _paired(runs, expected, notes, choices.partial)
    check_points({run.name: run.evaluations for run in runs})
    by_arm: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_arm[run.arm].append(run)
    notes += [f"{run.name} is not finished" for run in runs if run.folder.finished() is None]
    notes += _hardware(runs) if choices.clock is None else []
    own = all(run.evaluations[0].step == 0 for run in runs)
    return Comparison(
        title=what,
        details=details,
        measure=choices.measure,
        arms=tuple(_arm(of_arm, choices.measure, choices.clock) for of_arm in by_arm.values()),
        references=_references(choices.references, list(by_arm)),
        clock=choices.clock,
        base="own" if own else "unknown",
        runs=tuple(runs),
        notes=tuple(notes),
    )


def _arm_order(name: str) -> tuple[int, list[tuple[int, str]]]:
    """The three usual arms first, then by name, with numbers in it by their size."""
    usual = (*REFERENCES, "pods")
    parts = re.split(r"(\d+)", name)
    return (
        usual.index(name) if name in usual else len(usual),
        [(int(part), "") if part.isdigit() else (-1, part) for part in parts],
    )


def _read(folder: RunFolder) -> Run:
    config = folder.config()
    for key, kind in (("arm", str), ("seed", int)):
        if not isinstance(config.get(key), kind):
            raise InvalidInputError(
                f"{folder.path / 'config.yaml'} must say the run's {key}; got {config.get(key)!r}"
            )
    started = folder.environment()
    return Run(
        arm=str(config["arm"]),
        seed=int(config["seed"]),
        folder=folder,
        config=config,
        environments=[started, *started.pop("resumed", [])],
        evaluations=evaluations(folder),
        metrics=folder.metrics(),
    )


def _on_one_task(runs: list[Run]) -> tuple[str, str]:
    """The task that all runs were evaluated on, and its details, in words."""
    found = {_problems(run, e): run.name for run in runs for e in run.evaluations}
    if not found:
        raise InvalidInputError(
            f"no evaluation in {', '.join(run.name for run in runs)}; `pods inspect` shows the"
            " rollouts of a run without evaluations"
        )
    if len(found) > 1:
        lines = "; ".join(f"{', '.join(key)} (as in {found[key]})" for key in sorted(found))
        raise InvalidInputError(f"mixed problems: {lines}. {_APART}")
    for key, default in _ALIKE.items():
        of = {run.name: run.config for run in runs if key in run.config}
        own = {c.get(key if c[key] is not None else default): name for name, c in of.items()}
        if len(own) > 1:
            lines = "; ".join(f"{value} (as in {name})" for value, name in own.items())
            raise InvalidInputError(f"mixed problems: {key} {lines}. {_APART}")
    return next(iter(found))


def _problems(run: Run, evaluation: Evaluation) -> tuple[str, str]:
    """What an evaluation is of, in words: the task, and its problems and options."""
    name = evaluation.task + ("" if evaluation.split == "test" else f" {evaluation.split}")
    repeats = f", {evaluation.repeats} answers to each" if evaluation.repeats > 1 else ""
    words = f"{evaluation.problems:,} {evaluation.split} problems{repeats}"
    options = run.config.get("task_options") if evaluation.task == run.config.get("task") else None
    for key, value in parse_options(options).items():
        words += f"; {key.replace('_', ' ')} {value}"
    return name, words


def _paired(
    runs: list[Run], expected: Sequence[RunOf], notes: list[str], partial: bool
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
    if partial:
        most = max(len(run.evaluations) for run in runs)
        for run in runs:
            if len(run.evaluations) < most:
                del there[run.arm, run.seed]
                notes.append(f"{run.name} is not finished and was left out")
    begun = {(run.arm, run.seed) for run in runs}
    arms = {arm for arm, _ in [*begun, *expected]}
    seeds = {seed for _, seed in [*begun, *expected]}
    missing = [(arm, seed) for arm in arms for seed in seeds if (arm, seed) not in there]
    if not missing:
        return list(there.values())
    words = "missing runs: " + ", ".join(
        f"{arm} seed {seed}" + " (unfinished)" * ((arm, seed) in begun)
        for arm, seed in sorted(missing)
    )
    kept = [run for run in there.values() if run.seed not in {seed for _, seed in missing}]
    if not partial or not kept:
        less = "; even with --partial no seed is left"
        way = less if partial else ", or report the seeds that every arm has with --partial"
        raise InvalidInputError(
            f"{words}. Arms are compared over the same seeds: run them (`pods compare` continues"
            f" where it was stopped){way}"
        )
    notes.append(f"{words}; only seeds that every arm has are reported")
    return kept


def _references(asked: Sequence[str], arms: Sequence[str]) -> tuple[str, ...]:
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
    kinds = {
        f"{e.get('cpu')}, {e.get('cores')} cores, {', '.join(e.get('gpus') or ()) or 'no GPU'}"
        for run in runs
        for e in run.environments
    }
    if len(kinds) <= 1:
        return []
    machines = "; ".join(sorted(kinds))
    return [f"the runs were made on different hardware, so times don't compare well: {machines}"]


def _arm(runs: Sequence[Run], measure: str, clock: Clock | None) -> Arm:
    name, metrics = runs[0].arm, [run.metrics for run in runs]
    if clock is not None:
        passes = {run.config.get("num_iterations") or 1 for run in runs}
        if len(passes) > 1:
            raise InvalidInputError(
                f"arm {name!r} can't be replayed on another clock: num_iterations must be the same"
                f" for all its runs; got {sorted(passes)}. Report the folders apart"
            )
        clock = replace(clock, update=clock.update * passes.pop())
    curves = ArmCurves.stack(name, {run.seed: run.evaluations for run in runs}, measure)
    curves = curves.replay(clock, [_shares_passed(run) for run in runs]) if clock else curves
    logged = [row.get("pods/peak_memory") for rows in metrics for row in rows]
    memory = [used for used in logged if isinstance(used, (int, float))]
    config = {key: _common(run.config.get(key) for run in runs) for key in runs[0].config}
    return Arm(
        curves=curves,
        config={**config, "seed": ", ".join(str(seed) for seed in curves.seeds)},
        phases={} if clock else _phases(metrics),
        peak_memory=max(memory, default=None),
    )


def _shares_passed(run: Run) -> list[float]:
    """Of the rows kept up to each evaluation, the share that had a pass."""
    done = ([row for row in run.metrics if row["step"] <= e.step] for e in run.evaluations)
    return [share_passed(run.config, rows) for rows in done]


def _phases(metrics: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Mean seconds per step over the logged steps of all seeds, by phase; {} if none is known."""
    logged = {
        phase: [row.get(f"pods/seconds_{phase}") for rows in metrics for row in rows]
        for phase in PHASES
    }
    known = {phase: [s for s in seconds if s is not None] for phase, seconds in logged.items()}
    return {p: fmean(s or [0.0]) for p, s in known.items()} if any(known.values()) else {}


def _common(values: Iterable[Any]) -> Any:
    """The value if all seeds share it, else all of them."""
    different = list(dict.fromkeys(map(str, seen := list(values))))
    return seen[0] if len(different) == 1 else " | ".join(different)
