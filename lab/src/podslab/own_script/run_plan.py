"""Carrying out a plan: look, choose rates, train seeds; stopped and continued at will."""

import math
import os
import shlex
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from podslab.comparison.run_process import RunProcess
from podslab.durations import duration
from podslab.evaluation.records import evaluations
from podslab.own_script.answer import Answer, Measured, is_certain, mean_of_scored, noise_of
from podslab.own_script.job import REPORTED, TUNING, YOURS, Arm, Job, Probe, told_by
from podslab.own_script.plan import (
    GO_ON,
    LEAST_SEEDS,
    MOST_SEEDS,
    TUNING_SEED,
    Plan,
    WallSeconds,
    check_time,
    default_methods,
    known_methods,
)
from podslab.recommend.known_worth import write_worths
from podslab.recommend.measured_steps import STEPS, MeasuredSteps
from podsrl.errors import InvalidInputError, PodsError
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl.checkpoint import last_complete

Say = Callable[[str], None]
#: The file with the answer in words, and that of a plan that was begun.
ANSWER = "answer.txt"
PLAN = "plan.json"
#: The learning rates that were chosen.
_RATES = "rates.json"
LOOK_EVERY = 0.3  # seconds between two looks at the runs that are being trained


@dataclass(frozen=True)
class Wishes:
    """What the user asks for.

    Args:
        script: The file.
        arguments: Its own.
        folder: Where all is recorded.
        hours: Wall time that all may take.
        methods: Names; () takes those of `default_methods`.
        questions: At most so many are reported, and half as many used to choose rates.
        answers: To each question.
        gpus: One run on each at a time; () leaves the choice to the script, one run at a time.
        launch: As in `Plan`.
    """

    script: str
    arguments: tuple[str, ...] = ()
    folder: Path = Path("pods-compare")
    hours: float = 2.0
    methods: tuple[str, ...] = ()
    questions: int = 128
    answers: int = 4
    gpus: tuple[str, ...] = ()
    launch: tuple[str, ...] = ()

    @property
    def most_questions(self) -> dict[str, int]:
        """How many questions are asked at most, by kind."""
        return {TUNING: max(8, self.questions // 2), REPORTED: self.questions}

    @property
    def held_out(self) -> int:
        """How many training prompts are held out, where there is no `eval_dataset`."""
        return 2 * self.questions


def make_plan(wishes: Wishes, say: Say = lambda line: None) -> tuple[Plan, Probe, WallSeconds]:
    """Look at the script, and plan within the hours.

    Raises:
        InvalidInputError: The script can't be compared, the hours are too few, or the folder holds
            another comparison.
        PodsError: The script fails.
    """
    if not Path(wishes.script).is_file():
        raise InvalidInputError(f"there is no script {wishes.script}")
    wishes = replace(wishes, methods=tuple(known_methods(wishes.methods)))
    at_once = max(1, len(wishes.gpus))

    plan_file = wishes.folder / PLAN
    probe_file = wishes.folder / "look" / "probe.json"
    is_ours = (wishes.folder / "look.json").is_file()
    if not is_ours and holds_other_files(wishes.folder):
        raise InvalidInputError(
            f"{wishes.folder} holds files that are no comparison's: choose another --output_dir"
        )
    if plan_file.is_file():
        plan = Plan.read(plan_file)
        _refuse_another(plan, wishes)
        probe = Probe.read(probe_file)
        # More hours are for more seeds; how long a run trains stays as it was.
        plan = replace(plan, hours=wishes.hours, at_once=at_once)
        return plan, probe, WallSeconds.of(probe, plan.most_questions, plan.answers)

    probe = _look(wishes, probe_file, say)
    asked = wishes.methods or tuple(default_methods(probe.own_method))
    methods = tuple(name for name in asked if name in probe.methods)
    if len(methods) < 2:
        why = "; ".join(f"{name}: {problem}" for name, problem in probe.problems.items())
        raise InvalidInputError(f"fewer than two methods are left to compare. {why}")

    costs = WallSeconds.of(probe, wishes.most_questions, wishes.answers)
    plan = Plan(
        script=wishes.script,
        arguments=wishes.arguments,
        asked=wishes.methods,
        methods=methods,
        learning_rate=probe.learning_rate,
        seconds=costs.seconds_within(wishes.hours, len(methods), at_once),
        hours=wishes.hours,
        most_questions=wishes.most_questions,
        answers=wishes.answers,
        held_out=wishes.held_out,
        clock=clock_of(wishes.launch),
        launch=wishes.launch,
        at_once=at_once,
    )
    check_time(plan, probe, costs)
    return plan, probe, costs


def holds_other_files(folder: Path) -> bool:
    """Whether a folder holds more than the costs of steps, which may be measured before."""
    if not folder.exists():
        return False
    return any(path.name not in (STEPS, "steps") for path in folder.iterdir())


def _refuse_another(plan: Plan, wishes: Wishes) -> None:
    """Refuse to go on with a comparison of something else, as its runs would not be comparable."""
    asked = (wishes.script, wishes.arguments, wishes.most_questions, wishes.answers)
    same = (plan.script, plan.arguments, plan.most_questions, plan.answers) == asked
    if not same or wishes.methods not in ((), plan.asked, plan.methods):
        command = shlex.join([plan.script, *plan.arguments])
        raise InvalidInputError(
            f"{wishes.folder} holds a comparison of {command} with --methods"
            f" {','.join(plan.methods)} --questions {plan.most_questions[REPORTED]} --answers"
            f" {plan.answers}; to go on with it, give the same; for another one, another"
            " --output_dir"
        )

    if not _is_unchanged(wishes):
        raise InvalidInputError(
            f"{wishes.script} was changed since the comparison in {wishes.folder} began: to go on,"
            f" make it as it was ({_script_as_it_was(wishes)}); to compare it as it is now, give"
            " another --output_dir"
        )


def _script_as_it_was(wishes: Wishes) -> Path:
    """The copy of the script that a look leaves."""
    return wishes.folder / "look" / Path(wishes.script).name


def _is_unchanged(wishes: Wishes) -> bool:
    copy = _script_as_it_was(wishes)
    return copy.is_file() and copy.read_bytes() == Path(wishes.script).read_bytes()


def clock_of(launch: Sequence[str]) -> str:
    """Seconds that the process computes, where no GPU and no other process computes for it."""
    import torch

    return "wall" if torch.cuda.is_available() or launch else "cpu"


def _look(wishes: Wishes, probe_file: Path, say: Say) -> Probe:
    """Run the script for two steps, unless the same was looked at already."""
    folder = probe_file.parent
    describe = list(wishes.methods) or [*default_methods(YOURS)]
    job = Job(
        script=wishes.script,
        arguments=list(wishes.arguments),
        folder=str(folder),
        # What costs most; where it does not fit the script, the look says why.
        method="pods" if "pods" in describe else describe[0],
        seed=TUNING_SEED,
        questions=TUNING,
        most_questions=wishes.most_questions[TUNING],
        answers=wishes.answers,
        held_out=wishes.held_out,
        clock=clock_of(wishes.launch),
        describe=describe,
    )
    if probe_file.is_file() and _is_unchanged(wishes) and Job.read(_file_of(job)) == job:
        return Probe.read(probe_file)

    say(f"a look at {wishes.script}: two steps, a few answers")
    shutil.rmtree(folder, ignore_errors=True)
    script = Path(wishes.script).read_bytes()
    process = start_job(
        job, "a look at the script", wishes.launch, gpu=next(iter(wishes.gpus), None)
    )
    try:
        while process.is_alive:
            time.sleep(LOOK_EVERY)
        problem = process.problem()
    finally:
        process.stop()
    if problem is not None:
        raise PodsError(f"{wishes.script} fails: {problem}")

    # Its two steps are no run that one would read: what was seen stays, and the script.
    probe = Probe.read(probe_file)
    shutil.rmtree(folder)
    probe.write(probe_file)
    files.write_whole(_script_as_it_was(wishes), script)
    return probe


def _file_of(job: Job) -> Path:
    """Where the process of a job reads it."""
    folder = Path(job.folder)
    return folder.with_name(f"{folder.name}.json")


def start_job(job: Job, name: str, launch: Sequence[str], gpu: str | None) -> RunProcess:
    """Start the process of a job."""
    folder = Path(job.folder)
    job_file = _file_of(job)
    job_file.parent.mkdir(parents=True, exist_ok=True)
    job.write(job_file)

    environment = dict(os.environ)
    if job.clock == "cpu":
        # The clock adds up the seconds of all threads, so that a second one would not count.
        environment["OMP_NUM_THREADS"] = "1"
    if gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpu

    python = list(launch) or [sys.executable]
    return RunProcess.start(
        name=name,
        command=[*python, "-m", "podslab.own_script.script_process", str(job_file)],
        log=folder.with_name(f"{folder.name}.log"),
        environment=environment,
        told=told_by(job_file),
    )


@dataclass(frozen=True)
class _Running:
    """A job that is being done."""

    job: Job
    process: RunProcess
    gpu: str | None  # None leaves the choice to the script


@dataclass
class RunningComparison:
    """A plan that is carried out.

    Args:
        plan: What is run.
        costs: What it takes.
        folder: Where.
        gpus: As in `Wishes`.
        say: Called with a line for each run that starts.
        failed: Why runs failed, by their names.
    """

    plan: Plan
    costs: WallSeconds
    folder: Path
    gpus: tuple[str, ...] = ()
    say: Say = lambda line: None
    failed: dict[str, str] = field(default_factory=dict)
    _noise_is_told: bool = False
    _counted_until: float = 0.0  # on the monotonic clock

    def run(self) -> Answer:
        """Run what is not finished, and answer.

        Raises:
            PodsError: No two methods are left, another process is at work here, or an error that
                all runs would share.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / ".lock", timeout=1)
        try:
            with lock:
                self.plan.write(self.folder / PLAN)
                best = self._train_seeds(self._choose_rates())
                answer = Answer(
                    plan=self.plan,
                    best=best,
                    by_seed=self._measured(best),
                    failed=self.failed,
                    elsewhere=MeasuredSteps.read(self.folder),
                )
                files.write_whole(self.folder / ANSWER, f"{answer}\n".encode())
                write_worths(self.folder, answer.worths())
        except Timeout as error:
            raise InvalidInputError(
                f"another `pods compare` is at work on {self.folder}: wait for it"
            ) from error
        return answer

    # ---- rates

    def _choose_rates(self) -> dict[str, Arm]:
        """The best rate of each method. It is chosen once, so that all seeds have the same."""
        file = self.folder / _RATES
        chosen = files.read_json(file)
        if chosen is None:
            best = self._tune()
            rates = {method: arm.learning_rate for method, arm in best.items()}
            files.write_json(file, {"rates": rates, "failed": self.failed})
            return best
        self.failed.update(chosen["failed"])
        return {method: Arm(method, rate) for method, rate in chosen["rates"].items()}

    def _tune(self) -> dict[str, Arm]:
        """The best rate of each method, by successive halving."""
        arms = self.plan.arms_to_tune
        self._train([self.plan.tuning_job(self.folder, arm, 1) for arm in arms])

        go_on: list[Arm] = []
        for method in self.plan.methods:
            ranked = self._ranked([arm for arm in arms if arm.method == method], quarters=1)
            go_on += ranked[:GO_ON]
        self._train([self.plan.tuning_job(self.folder, arm, 2) for arm in go_on])
        self._delete_checkpoints(TUNING)

        best = {}
        for method in self.plan.methods:
            ranked = self._ranked([arm for arm in go_on if arm.method == method], quarters=2)
            if ranked:
                best[method] = ranked[0]
        if len(best) < 2:
            why = next(iter(self.failed.values()), "no run was measured")
            raise PodsError(f"fewer than two methods could be trained: {why}")
        return best

    def _ranked(self, arms: Sequence[Arm], quarters: int) -> list[Arm]:
        """Those that trained for so many quarters of the time, by their reward then, best first.

        A run that went on has later measurements, too, as after a kill in the second round. They do
        not count in the first one.
        """
        reward = {}
        for arm in arms:
            job = self.plan.tuning_job(self.folder, arm, quarters)
            if not self._is_finished(job):
                continue
            points = evaluations(self._folder(job))
            if not points:
                continue
            point = points[0] if quarters == 1 else points[-1]
            mean = float(mean_of_scored(np.array(point.rewards, dtype=float)))
            if math.isfinite(mean):
                reward[arm] = mean
        return sorted(reward, key=lambda arm: -reward[arm])

    # ---- seeds

    def _train_seeds(self, best: dict[str, Arm]) -> dict[str, Arm]:
        """Seeds of all methods, until their order is certain or the time is up.

        Returns the methods that could be trained: one of which `LEAST_SEEDS` runs fail is left
        out, so that the seeds of the others count.
        """
        seeds = 0
        while seeds < MOST_SEEDS and len(best) > 1 and self._wants_more_seeds(best, seeds):
            new_seeds = range(seeds, max(LEAST_SEEDS, seeds + 1))
            self._train(
                self.plan.reported_job(self.folder, arm, seed)
                for seed in new_seeds
                for arm in best.values()
            )
            self._delete_checkpoints(REPORTED)

            seeds = new_seeds.stop
            best = {
                method: arm
                for method, arm in best.items()
                if self._failures(arm, seeds) < LEAST_SEEDS
            }
        return best

    def _wants_more_seeds(self, best: Mapping[str, Arm], seeds: int) -> bool:
        """Whether the order is open and there is time, after so many seeds."""
        if seeds < LEAST_SEEDS:
            return True
        needed = self.costs.seeds(self.plan.seconds, len(best), self.plan.at_once)
        return not is_certain(self._measured(best)) and self._hours_left() * 3600 >= needed

    def _failures(self, arm: Arm, seeds: int) -> int:
        """Of so many seeds of an arm those that did not come to their end."""
        jobs = [self.plan.reported_job(self.folder, arm, seed) for seed in range(seeds)]
        return sum(not self._is_finished(job) for job in jobs)

    def _measured(self, best: Mapping[str, Arm]) -> list[Measured]:
        """The runs of the seeds that all methods have."""
        by_seed = []
        for seed in range(MOST_SEEDS):
            jobs = {
                method: self.plan.reported_job(self.folder, arm, seed)
                for method, arm in best.items()
            }
            if all(self._is_finished(job) for job in jobs.values()):
                runs = {method: self._folder(job) for method, job in jobs.items()}
                by_seed.append(Measured.of(seed, runs))
        return by_seed

    # ---- runs

    def _train(self, jobs: Iterable[Job]) -> None:
        """Train what is not finished, one run on each GPU at a time."""
        self._counted_until = time.monotonic()
        waiting = deque(job for job in jobs if not self._is_finished(job))
        free: list[str | None] = [*self.gpus] or [None] * self.plan.at_once
        running: list[_Running] = []
        try:
            while waiting or running:
                while waiting and free:
                    job = waiting.popleft()
                    gpu = free.pop(0)

                    self._clear(job)
                    self.say(self._line(job, len(waiting) + len(running)))
                    name = f"{job.questions} {Path(job.folder).parent.name} seed {job.seed}"
                    process = start_job(job, name, self.plan.launch, gpu)
                    running.append(_Running(job, process, gpu))

                time.sleep(LOOK_EVERY)

                for ended in [run for run in running if not run.process.is_alive]:
                    running.remove(ended)
                    free.append(ended.gpu)
                    self._count_hours()
                    if problem := ended.process.problem():
                        self.failed[ended.process.name] = problem
                        self.say(f"failed: {ended.process.name}: {problem}")
                    else:
                        self._tell_noise(ended.job)
        finally:
            for interrupted in running:
                interrupted.process.stop()
            self._count_hours()

    def _tell_noise(self, job: Job) -> None:
        """Say once, as soon as a run was measured, what the answer will not be able to show."""
        points = evaluations(self._folder(job))
        if self._noise_is_told or not points:
            return
        self._noise_is_told = True
        rewards_P_K = np.array(points[0].rewards, dtype=float)
        scored = rewards_P_K[np.isfinite(rewards_P_K)]
        if len(scored) == 0:
            self.say(
                f"none of {rewards_P_K.size} answers that were measured could be scored: look at"
                f" your reward function, and at the answers (pods inspect {self.folder / TUNING})"
            )
            return
        if np.ptp(scored) == 0:
            self.say(
                f"all {len(scored)} answers that were measured have the reward"
                f" {scored[0]:g}, and equal rewards teach nothing: look at the answers"
                f" (pods inspect {self.folder / TUNING}), and stop here if you expected others"
            )
            return

        there = Probe.read(self.folder / "look" / "probe.json").questions[REPORTED]
        questions = min(self.plan.most_questions[REPORTED], there)
        noise = noise_of(rewards_P_K, questions)
        self.say(
            f"differences in reward below about {noise:.2g} between two methods will be noise, with"
            f" the {questions} questions that are reported; more --questions make it less"
        )

    def _line(self, job: Job, others: int) -> str:
        hours = self._hours_left()
        left = f"at most {duration(hours * 3600)} left"
        if hours <= 0:
            left = f"the hours are over, and {LEAST_SEEDS} seeds are trained all the same"
        rest = ""
        if others:
            rest = f", {others} other{'s' if others > 1 else ''} of this round"
        rate = f"{job.learning_rate:.3g}"
        what = "choosing rates" if job.questions == TUNING else f"seed {job.seed}"
        return f"{what}: {job.method} at {rate}, {duration(job.seconds)} of training{rest}; {left}"

    def _folder(self, job: Job) -> RunFolder:
        return RunFolder(job.folder)

    def _is_finished(self, job: Job) -> bool:
        finished = self._folder(job).finished()
        return finished is not None and finished["training_seconds"] >= job.seconds

    def _clear(self, job: Job) -> None:
        """Clear away what a killed run left, unless it can go on."""
        folder = Path(job.folder)
        if folder.exists() and last_complete(folder) is None:
            shutil.rmtree(folder)

    def _delete_checkpoints(self, kind: str) -> None:
        """Weights of ended runs, which nobody needs, take the room of the next ones."""
        for checkpoint in (self.folder / kind).glob("*/*/checkpoint-*"):
            shutil.rmtree(checkpoint)

    # ---- time

    def _hours_left(self) -> float:
        return self.plan.hours - self._hours_spent()

    def _hours_spent(self) -> float:
        spent = files.read_json(self.folder / "spent.json") or {"hours": 0.0}
        return float(spent["hours"])

    def _count_hours(self) -> None:
        """Add the wall time since the last count, however many runs were at work in it."""
        now = time.monotonic()
        spent = self._hours_spent() + (now - self._counted_until) / 3600
        self._counted_until = now
        files.write_json(self.folder / "spent.json", {"hours": spent})
