"""Measuring steps of a script on this machine, at several sizes: a process for each."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from podslab.engine.folder import TUNING
from podslab.engine.pool import run_alone
from podslab.own_script.job import ScriptJob, StepSizes
from podslab.own_script.plan import TUNING_SEED
from podslab.own_script.run_plan import Say, alone_in, clock_of
from podslab.recommend.measured_steps import MeasuredStep, MeasuredSteps
from podsrl.errors import InvalidInputError, PodsError
from podsrl.rollout_log import files

#: GRPO, PODS with 2 to 16 rollouts for each row, and GRPO on all of 4 m rollouts.
SIZES = (*(StepSizes(size) for size in (1, 2, 4, 8, 16)), StepSizes(4, trains_on_all=True))
#: GRPO once more, which says how memory grows with the rows of a pass.
IN_OTHER_PASSES = StepSizes(1, other_passes=True)


@dataclass(frozen=True)
class StepsWanted:
    """The steps that are to be measured.

    Args:
        script: The file.
        arguments: Its own.
        folder: Where steps.json goes; that of a comparison, if there is one.
        steps: Generations that are timed at each size, after one that warms up.
        launch: The words that start a process; () is Python.
        gpu: As CUDA_VISIBLE_DEVICES has it; None leaves the choice to the script.
        for_memory: Whether to measure `IN_OTHER_PASSES`, too.
    """

    script: str
    arguments: tuple[str, ...] = ()
    folder: Path = Path("pods-compare")
    steps: int = 3
    launch: tuple[str, ...] = ()
    gpu: str | None = None
    for_memory: bool = False

    @property
    def sizes(self) -> tuple[StepSizes, ...]:
        """The sizes that are measured, in their order."""
        return (*SIZES, IN_OTHER_PASSES) if self.for_memory else SIZES


def measure_steps(wanted: StepsWanted, say: Say = lambda line: None) -> MeasuredSteps:
    """Run the script for a few steps at each size, and write steps.json.

    Raises:
        InvalidInputError: There is no such script, or another process measures into this folder.
        PodsError: GRPO itself, which is the script's own size, can't be run.
    """
    if not Path(wanted.script).is_file():
        raise InvalidInputError(f"there is no script {wanted.script}")
    with alone_in(_runs(wanted), "pods recommend"):
        return _measure_all(wanted, say)


def _runs(wanted: StepsWanted) -> Path:
    """Where the runs are, which leave nothing but what they printed."""
    return wanted.folder / "steps"


def _measure_all(wanted: StepsWanted, say: Say) -> MeasuredSteps:
    machine = ""
    found: dict[StepSizes, MeasuredStep] = {}
    for place, sizes in enumerate(wanted.sizes, start=1):
        of_all = f"{place} of {len(wanted.sizes)}"
        say(f"{of_all}: {sizes.name}, {wanted.steps} steps after one to warm up")
        try:
            found[sizes], machine = _measure(wanted, sizes)
        except PodsError as error:
            if not found:
                raise
            say(f"could not be run: {error}")
            found[sizes] = _problem(sizes, rows_of_grpo=found[SIZES[0]].rows, problem=str(error))

    measured = MeasuredSteps(
        of=wanted.script,
        machine=machine,
        steps=[found[sizes] for sizes in SIZES],
        in_other_passes=found.get(IN_OTHER_PASSES),
    )
    measured.write(wanted.folder)
    return measured


def _problem(sizes: StepSizes, rows_of_grpo: float | None, problem: str) -> MeasuredStep:
    """A step that could not be run."""
    rows = (rows_of_grpo or 0) * sizes.rollouts_per_row if sizes.trains_on_all else None
    return MeasuredStep(
        method=sizes.method,
        rollouts_per_row=1 if sizes.trains_on_all else sizes.rollouts_per_row,
        rows=rows,
        problem=problem,
    )


def _measure(wanted: StepsWanted, sizes: StepSizes) -> tuple[MeasuredStep, str]:
    """The mean step of some sizes, and the machine; what the run leaves is deleted.

    Raises:
        PodsError: The script fails at these sizes.
    """
    kind = "all" if sizes.trains_on_all else "other" if sizes.other_passes else "some"
    folder = _runs(wanted) / f"{sizes.rollouts_per_row}-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    job = ScriptJob(
        script=wanted.script,
        arguments=list(wanted.arguments),
        folder=str(folder),
        method=sizes.method,
        seed=TUNING_SEED,
        questions=TUNING,
        most_questions=8,
        answers=1,
        clock=clock_of(wanted.launch),
        sizes=sizes,
        timed_steps=wanted.steps,
    )
    try:
        run_alone(job, wanted.launch, wanted.gpu)
        found = files.read_json(folder / "step.json")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if found is None:
        raise PodsError(f"{wanted.script} ended without a step: look at {folder}.log")
    return MeasuredStep(**found["step"]), str(found["machine"])
