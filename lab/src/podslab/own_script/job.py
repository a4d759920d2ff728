"""One run of a script: as which arm, for how long, and what of it is measured."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from podslab.engine.budget import Budget, Schedule
from podslab.engine.folder import TUNING
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import RunFolder

#: The questions that are reported. Those of `TUNING` choose learning rates; none is in both.
REPORTED = "reported"


@dataclass(frozen=True)
class Arm:
    """A way of training that is compared.

    Args:
        method: A name of `podsrl.methods.METHODS`, or `MINIBATCHES`, or `YOURS`.
        learning_rate: In place of the script's.
    """

    method: str
    learning_rate: float

    @property
    def name(self) -> str:
        """The arm's name, which is a folder's, too.

        >>> Arm("pods", 2e-6).name
        'pods-2e-06'
        """
        return f"{self.method}-{self.learning_rate:.3g}"


#: The settings of a script that has a `PODSConfig` of another method than those that are compared.
YOURS = "yours"
#: GRPO that generates as many rollouts at once as PODS does, and trains on all of them, in several
#: updates (PPO's minibatches). What PODS gains by its large batches alone, this has as well.
MINIBATCHES = "grpo-minibatches"


@dataclass(frozen=True)
class StepSizes:
    """The sizes of a step whose cost is measured, beside those of the script's GRPO.

    Args:
        rollouts_per_row: n/m, with the script's rows of a prompt as m.
        trains_on_all: Whether the update sees all n rollouts, by gradient accumulation.
        other_passes: Whether the rows are in passes of another size than the script's, as many in
            all, so that their peaks of memory say how it grows with the rows of a pass.
    """

    rollouts_per_row: int
    trains_on_all: bool = False
    other_passes: bool = False

    @property
    def name(self) -> str:
        """The sizes in words.

        >>> StepSizes(1).name, StepSizes(4).name, StepSizes(4, trains_on_all=True).name
        ('grpo, n = m', 'pods, n = 4 m', 'grpo, all of n = 4 m')
        """
        if self.rollouts_per_row == 1:
            return "grpo, n = m" + (", in passes of another size" if self.other_passes else "")
        all_of = "all of " if self.trains_on_all else ""
        return f"{self.method}, {all_of}n = {self.rollouts_per_row} m"

    @property
    def method(self) -> str:
        """The method that such a step is one of."""
        return "grpo" if self.trains_on_all or self.rollouts_per_row == 1 else "pods"


@dataclass(frozen=True)
class ScriptJob:
    """One run of the script, as a job of the pool.

    Args:
        script: The file.
        arguments: Its own, as on a command line.
        folder: Where the run is recorded.
        method: As in `Arm`.
        learning_rate: As in `Arm`; None leaves the script's.
        seed: The run's.
        seconds: The training time to spend.
        evaluations: Evenly spaced over that time, the last at its end.
        from_start: Whether the untrained model is measured, too.
        questions: `TUNING` or `REPORTED`.
        most_questions: Not more of them are asked.
        answers: To each question.
        held_out: Training prompts to ask, where the script has no `eval_dataset`.
        clock: "wall", or "cpu", the seconds that the process computes.
        describe: Methods whose complete settings are wanted; the run then makes `PROBE_STEPS` steps
            and writes what it saw to probe.json.
        sizes: As in `StepSizes`, where the cost of a step is wanted: the run then makes
            `timed_steps` generations after one that warms up, and writes their mean to step.json.
        timed_steps: As said.
    """

    script: str
    arguments: list[str]
    folder: str
    method: str
    seed: int
    questions: str
    most_questions: int
    answers: int
    learning_rate: float | None = None
    seconds: float = 0.0
    evaluations: int = 1
    from_start: bool = False
    held_out: int = 200
    clock: str = "wall"
    describe: list[str] = field(default_factory=list)
    sizes: StepSizes | None = None
    timed_steps: int = 0

    @property
    def name(self) -> str:
        """The run in words, as messages and the ledger call it."""
        if self.describe:
            return f"a look at {self.script}"
        if self.sizes is not None:
            return f"{self.script} at {self.sizes.name}"
        if self.questions == TUNING:
            return f"{TUNING} {Path(self.folder).parent.name} seed {self.seed}"
        return f"{self.method} seed {self.seed}"

    @property
    def run(self) -> RunFolder:
        """Where it is recorded."""
        return RunFolder(self.folder)

    @property
    def file(self) -> Path:
        """Where its process reads it."""
        folder = Path(self.folder)
        return folder.with_name(f"{folder.name}.json")

    @property
    def budget(self) -> Budget:
        """The budget of the run."""
        return Budget(training_seconds=self.seconds)

    @property
    def schedule(self) -> Schedule:
        """When it is measured; each measurement leaves a checkpoint to go on from."""
        return Schedule(points=self.evaluations, at_start=self.from_start, saves=True)

    def words(self) -> list[str]:
        """The words of its process after Python's name; writes the job for it."""
        self.write(self.file)
        return ["-m", "podslab.own_script.script_process", str(self.file)]

    def is_finished(self) -> bool:
        """Whether it was trained for its time."""
        finished = self.run.finished()
        return finished is not None and finished["training_seconds"] >= self.seconds

    @classmethod
    def read(cls, path: Path) -> "ScriptJob":
        """The job that `write` wrote."""
        job = json.loads(path.read_text(encoding="utf-8"))
        sizes = job["sizes"] and StepSizes(**job["sizes"])
        return cls(**{**job, "sizes": sizes})

    def write(self, path: Path) -> None:
        """Write the job as JSON."""
        files.write_json(path, asdict(self))


#: Steps of a look at the script; the first one warms up.
PROBE_STEPS = 2


@dataclass(frozen=True)
class Probe:
    """The findings of a look at the script.

    Args:
        learning_rate: The script's own.
        methods: The complete settings of each method, by its name.
        problems: Why a method does not fit the script, by its name.
        own_method: The method of the script's settings; "grpo" where it is TRL's.
        prompts: The prompts to train on.
        questions: Those to choose rates by, and those to report, as many as there are.
        is_held_out: Whether they were training prompts, since the script has no `eval_dataset`.
        reward_functions: Their names.
        seconds_to_start: Until training begins.
        seconds_per_step: Of training time, of the method that was looked at.
        seconds_per_answer: Of an evaluation.
        repeated_rows: The training rows that are equal to a question, as in `Questions`.
        warmup_share: The script's warm-up as a share of all steps, which no arm has.
    """

    learning_rate: float
    methods: dict[str, dict[str, Any]]
    problems: dict[str, str]
    own_method: str
    prompts: int
    questions: dict[str, int]
    is_held_out: bool
    reward_functions: list[str]
    seconds_to_start: float
    seconds_per_step: float
    seconds_per_answer: float
    repeated_rows: int = 0
    warmup_share: float = 0.0

    @classmethod
    def read(cls, path: Path) -> "Probe":
        """The look that `write` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def write(self, path: Path) -> None:
        """Write the look as JSON."""
        files.write_json(path, asdict(self))
