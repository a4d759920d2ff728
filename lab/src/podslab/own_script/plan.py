"""The plan: methods, rates and seeds, and the training time of each, within the given hours."""

import ast
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podslab.comparison.field_table import table_of_differences
from podslab.durations import duration
from podslab.engine.folder import TUNING
from podslab.engine.ledger import digest_of
from podslab.engine.looks import Looks
from podslab.own_script.job import MINIBATCHES, REPORTED, YOURS, Arm, Probe, ScriptJob
from podsrl.errors import InvalidInputError, listed
from podsrl.methods import known_name
from podsrl.rollout_log import files

#: What the script's learning rate is multiplied with.
RATES = (0.5, 1.0, 2.0, 4.0)
#: How many rates go on after a quarter of the time, to its half.
GO_ON = 2
#: The seed that rates are chosen with; it is not reported.
TUNING_SEED = 1000
#: After so many seeds the runs are looked at, and the comparison ends where all is decided.
LOOKS = Looks((2, 4, 8))
#: Seeds that every answer rests on.
LEAST_SEEDS = LOOKS.seeds[0]
#: Measurements of a reported run, besides one before training.
EVALUATIONS = 4
#: The least training time of a run; a clock, and a look at the script, are too rough for less.
_LEAST_SECONDS = 5.0
#: What a run costs beside its training, its start and its measurements: checkpoints.
_OVERHEAD = 1.1


@dataclass(frozen=True)
class Plan:
    """A comparison of methods on one script.

    Args:
        script: The file.
        arguments: Its own.
        asked: The methods that were asked for; () are the default ones.
        methods: Those that fit the script.
        learning_rate: The script's own.
        seconds: The training time of a reported run.
        hours: Wall time that all may take.
        most_questions: By kind.
        answers: To each question.
        held_out: As in `ScriptJob`.
        clock: As in `ScriptJob`.
        launch: The words that start a process, such as accelerate launch; () is Python.
        at_once: Runs side by side.
    """

    script: str
    arguments: tuple[str, ...]
    asked: tuple[str, ...]
    methods: tuple[str, ...]
    learning_rate: float
    seconds: float
    hours: float
    most_questions: Mapping[str, int]
    answers: int
    held_out: int
    clock: str
    launch: tuple[str, ...]
    at_once: int

    @property
    def arms_to_tune(self) -> list[Arm]:
        """Every method at every rate; rates are interleaved, so that an hour shows all methods."""
        arms = []
        for factor in RATES:
            arms += [Arm(method, self.learning_rate * factor) for method in self.methods]
        return arms

    def tuning_job(self, folder: Path, arm: Arm, quarters: int) -> ScriptJob:
        """A run to choose a rate by, until so many quarters of the time, measured at each."""
        return self._job(
            folder / TUNING / arm.name / f"seed-{TUNING_SEED}",
            arm,
            seed=TUNING_SEED,
            questions=TUNING,
            seconds=self.seconds * quarters / 4,
            evaluations=quarters,
        )

    def reported_job(
        self, folder: Path, arm: Arm, seed: int, seconds: float | None = None
    ) -> ScriptJob:
        """A run that the answer tells of; it may train for less time than was planned."""
        return self._job(
            folder / arm.method / f"seed-{seed}",
            arm,
            seed=seed,
            questions=REPORTED,
            seconds=self.seconds if seconds is None else seconds,
            evaluations=EVALUATIONS,
            from_start=True,
        )

    def _job(
        self,
        folder: Path,
        arm: Arm,
        *,
        seed: int,
        questions: str,
        seconds: float,
        evaluations: int,
        from_start: bool = False,
    ) -> ScriptJob:
        return ScriptJob(
            script=self.script,
            arguments=list(self.arguments),
            folder=str(folder),
            method=arm.method,
            learning_rate=arm.learning_rate,
            seed=seed,
            questions=questions,
            most_questions=self.most_questions[questions],
            answers=self.answers,
            seconds=seconds,
            evaluations=evaluations,
            from_start=from_start,
            held_out=self.held_out,
            clock=self.clock,
        )

    @property
    def digest(self) -> str:
        """The digest of what decides outcomes: not of hours, which are for more seeds."""
        values = asdict(self)
        for name in ("hours", "at_once", "launch"):
            del values[name]
        return digest_of(values)

    def write(self, path: Path) -> None:
        """Write the plan as JSON."""
        files.write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """The plan that `write` wrote."""
        value = json.loads(path.read_text(encoding="utf-8"))
        for name in ("arguments", "asked", "methods", "launch"):
            value[name] = tuple(value[name])
        return cls(**value)


@dataclass(frozen=True)
class WallSeconds:
    """The wall seconds of the parts of a comparison, from a look at the script.

    Args:
        start: Of a process, until training begins.
        measuring: One measurement, by kind of questions.
    """

    start: float
    measuring: Mapping[str, float]

    @classmethod
    def of(cls, probe: Probe, most_questions: Mapping[str, int], answers: int) -> "WallSeconds":
        """Measuring asks for some sampled answers and the likeliest one."""
        measuring = {}
        for kind, most in most_questions.items():
            questions = min(most, probe.questions[kind])
            measuring[kind] = questions * (answers + 1) * probe.seconds_per_answer
        return cls(probe.seconds_to_start, measuring)

    def choosing_rates(self, seconds: float, methods: int, at_once: int) -> float:
        """All rates of all methods, and those that go on, with so many runs side by side."""
        rounds = math.ceil(len(RATES) * methods / at_once) + math.ceil(GO_ON * methods / at_once)
        return _OVERHEAD * rounds * (self.start + self.measuring[TUNING] + seconds / 4)

    def seeds(self, seconds: float, methods: int, at_once: int, seeds: int = 1) -> float:
        """Reported runs of all methods."""
        rounds = math.ceil(seeds * methods / at_once)
        measuring = (EVALUATIONS + 1) * self.measuring[REPORTED]
        return _OVERHEAD * rounds * (self.start + measuring + seconds)

    def at_least(self, seconds: float, methods: int, at_once: int) -> float:
        """The seconds of what every comparison has: rates, and the least seeds."""
        least = self.seeds(seconds, methods, at_once, LEAST_SEEDS)
        return self.choosing_rates(seconds, methods, at_once) + least

    def seconds_within(self, hours: float, methods: int, at_once: int) -> float:
        """The training time of a run for which rates and the least seeds fit into the hours."""
        fixed = self.at_least(0.0, methods, at_once)
        of_each_second = self.at_least(1.0, methods, at_once) - fixed
        return (hours * 3600 - fixed) / of_each_second


def check_time(plan: Plan, probe: Probe, costs: WallSeconds) -> None:
    """Refuse a plan in which a quarter of a run has no room for two steps, or a run for anything.

    Raises:
        InvalidInputError: With the hours that are needed.
    """
    needed = max(8 * probe.seconds_per_step, _LEAST_SECONDS)
    if plan.seconds >= needed:
        return

    hours = costs.at_least(needed, len(plan.methods), plan.at_once) / 3600
    raise InvalidInputError(
        f"a step of this script takes {duration(probe.seconds_per_step)}, and within"
        f" {plan.hours:g} hours a run would train for {duration(max(plan.seconds, 0.0))}, too few"
        f" steps to learn from; give at least --hours {max(hours, 0.01):.2g}, fewer --methods, or"
        " fewer --questions"
    )


def described(plan: Plan, probe: Probe, costs: WallSeconds) -> str:
    """Describe the plan before anything is trained: how arms differ, and how long all takes."""
    methods = {name: probe.methods[name] for name in plan.methods}
    questions = {kind: min(n, probe.questions[kind]) for kind, n in plan.most_questions.items()}
    source = "of your eval_dataset"
    if probe.is_held_out:
        source = "of your training prompts, held out, as the trainer has no eval_dataset"

    tuning = costs.choosing_rates(plan.seconds, len(plan.methods), plan.at_once)
    a_seed = costs.seeds(plan.seconds, len(plan.methods), plan.at_once)
    rates = ", ".join(f"{plan.learning_rate * factor:.3g}" for factor in RATES)
    names = listed(list(plan.methods))
    lines = [
        f"{plan.script}: {names}, judged by {listed(probe.reward_functions)}",
        "",
        "Fields in which the methods differ:",
        table_of_differences(methods),
    ]
    for name, problem in probe.problems.items():
        lines.append(f"left out: {name}, since {problem}")
    lines += [
        "",
        f"learning rates   {rates}: half, once, twice and four times yours, for each method alike.",
        f"                 All train for {duration(plan.seconds / 4)}, the better {GO_ON} of each"
        " method go on as long again.",
        f"seeds            {', then '.join(map(str, LOOKS.seeds))} at the best rate, for"
        f" {duration(plan.seconds)} of training each, as long as a difference is open and time is",
        f"                 left; {LEAST_SEEDS} in any case.",
        f"questions        {questions[TUNING]} to choose rates by, {questions[REPORTED]} others to"
        f" report, {plan.answers} answers to each, {source}.",
        *_repeated_rows(probe),
        *_spared_passes(methods),
        *_schedule(probe),
        f"time             {duration(tuning)} to choose rates, {duration(a_seed)} for each seed of"
        f" all methods; planned for {plan.hours:g} hours. A look at two steps says how long steps",
        "                 take, so it may be off by a quarter, and no seed begins after the hours.",
        *_second_training(plan.script),
    ]
    return "\n".join(lines)


def _repeated_rows(probe: Probe) -> list[str]:
    """A line about training rows that are equal to a question in every column, if there are any."""
    rows = probe.repeated_rows
    if not rows:
        return []
    if probe.is_held_out:
        return [
            f"                 {rows} more training rows are equal to one of them in every column,"
            f" and are left out; {probe.prompts} rows are left to train on."
        ]
    return [
        f"                 {rows} rows of your train_dataset are equal to one of your eval_dataset,"
        " so methods are also judged by what they trained on."
    ]


def _schedule(probe: Probe) -> list[str]:
    """Lines about the learning rate over a run."""
    if not probe.warmup_share:
        return [
            "schedule         the learning rate stays constant (after your warm-up steps), since"
            " time ends a run."
        ]
    return [
        "schedule         the learning rate stays constant, since time ends a run. Your warm-up of"
        f" {probe.warmup_share:g} of all steps",
        "                 is left out, as the number of steps is open; a whole number of"
        " warmup_steps is kept.",
    ]


def _second_training(script: str) -> list[str]:
    """A line where a script calls train() several times; what can't be read is no such script."""
    try:
        tree = ast.parse(Path(script).read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return []
    calls = sum(_is_training(node) for node in ast.walk(tree))
    if calls < 2:
        return []
    return [
        f"training         {script} calls train() {calls} times: the first one is compared, and"
        " ends the script."
    ]


def _is_training(node: ast.AST) -> bool:
    """Whether a part of a program calls train of a trainer, and not of a module, train(True)."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    return node.func.attr == "train" and not node.args


def _spared_passes(methods: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line about passes, where every method is spared those that teach nothing."""
    if not all(settings.get("skip_zero_advantage") for settings in methods.values()):
        return []
    return [
        "passes           rows of advantage 0 have none in the update, whatever the method"
        " (skip_zero_advantage)."
    ]


def default_methods(own_method: str) -> list[str]:
    """GRPO with small and large batches, the paper's method, a batch rule, and the script's own."""
    usual = ["grpo", MINIBATCHES, "pods", "max_contrast"]
    return usual if own_method in usual else [*usual, YOURS]


def known_methods(names: Sequence[str]) -> list[str]:
    """Methods by their names, each once; what is no method but an arm by its own name.

    Raises:
        UnknownNameError: A name is of no method.
    """
    known = []
    for name in names:
        arm = str(name).lower().replace("_", "-")
        known.append(arm if arm in (YOURS, MINIBATCHES) else known_name(name))
    return list(dict.fromkeys(known))
