"""Carrying out a plan: look, choose rates, train seeds; stopped and continued at will."""

import math
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from podslab.comparison.tuning import best_rate
from podslab.durations import duration
from podslab.engine.folder import CHOSEN_RATES, SCRIPT_PLAN, TUNING
from podslab.engine.ledger import Ledger
from podslab.engine.looks import Looked, train_in_looks
from podslab.engine.pool import Job, Pool, Watcher, run_alone
from podslab.evaluation.records import Evaluation, evaluations
from podslab.own_script.answer import Answer, Measured, noise_of
from podslab.own_script.job import REPORTED, YOURS, Arm, Probe, ScriptJob
from podslab.own_script.plan import (
    EVALUATIONS,
    GO_ON,
    LEAST_SEEDS,
    LOOKS,
    TUNING_SEED,
    Plan,
    WallSeconds,
    check_time,
    default_methods,
    known_methods,
)
from podslab.recommend.known_worth import write_worths
from podslab.recommend.measured_steps import STEPS, MeasuredSteps
from podslab.statistics.run_curve import mean_of_scored
from podsrl.errors import InvalidInputError, PodsError
from podsrl.rollout_log import files

Say = Callable[[str], None]
#: The file with the answer in words.
ANSWER = "answer.txt"
_COMMAND = "pods compare"
#: The lock of a folder in which a command is at work.
_LOCK = ".lock"
#: After how many seeds answers were given.
_ANSWERED = "answered.json"
#: Rewards this near to the best one, as a share of all that were seen, are at the ceiling.
_AT_THE_CEILING = 0.02


@dataclass(frozen=True)
class CompareOptions:
    """The options of a comparison, as the user gives them.

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
        """The largest number of questions that are asked, by kind."""
        return {TUNING: max(8, self.questions // 2), REPORTED: self.questions}

    @property
    def held_out(self) -> int:
        """The number of training prompts that are held out, where there is no `eval_dataset`."""
        return 2 * self.questions


def make_plan(
    options: CompareOptions, say: Say = lambda line: None
) -> tuple[Plan, Probe, WallSeconds]:
    """Look at the script, and plan within the hours.

    Raises:
        InvalidInputError: The script can't be compared, the hours are too few, or the folder holds
            another comparison.
        PodsError: The script fails.
    """
    if not Path(options.script).is_file():
        raise InvalidInputError(f"there is no script {options.script}")
    options = replace(options, methods=tuple(known_methods(options.methods)))
    at_once = max(1, len(options.gpus))

    plan_file = options.folder / SCRIPT_PLAN
    probe_file = options.folder / "look" / "probe.json"
    is_ours = (options.folder / "look.json").is_file()
    if not is_ours and holds_other_files(options.folder):
        raise InvalidInputError(
            f"{options.folder} holds files that are no comparison's: choose another --output_dir"
        )
    if plan_file.is_file():
        plan = Plan.read(plan_file)
        _refuse_another(plan, options)
        probe = Probe.read(probe_file)
        # More hours are for more seeds; how long a run trains stays as it was.
        plan = replace(plan, hours=options.hours, at_once=at_once)
        return plan, probe, WallSeconds.of(probe, plan.most_questions, plan.answers)

    probe = _look(options, probe_file, say)
    asked = options.methods or tuple(default_methods(probe.own_method))
    methods = tuple(name for name in asked if name in probe.methods)
    if len(methods) < 2:
        why = "; ".join(f"{name}: {problem}" for name, problem in probe.problems.items())
        raise InvalidInputError(f"fewer than two methods are left to compare. {why}")

    costs = WallSeconds.of(probe, options.most_questions, options.answers)
    plan = Plan(
        script=options.script,
        arguments=options.arguments,
        asked=options.methods,
        methods=methods,
        learning_rate=probe.learning_rate,
        seconds=costs.seconds_within(options.hours, len(methods), at_once),
        hours=options.hours,
        most_questions=options.most_questions,
        answers=options.answers,
        held_out=options.held_out,
        clock=clock_of(options.launch),
        launch=options.launch,
        at_once=at_once,
    )
    check_time(plan, probe, costs)
    return plan, probe, costs


def holds_other_files(folder: Path) -> bool:
    """Whether a folder holds more than the costs of steps, which may be measured before."""
    if not folder.exists():
        return False
    return any(path.name not in (STEPS, "steps", _LOCK) for path in folder.iterdir())


@contextmanager
def alone_in(folder: Path, command: str) -> Iterator[None]:
    """Hold the lock of a folder, which is made if there is none, while a command is at work there.

    Raises:
        InvalidInputError: Another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / _LOCK, timeout=1)
    try:
        lock.acquire()
    except Timeout as error:
        raise InvalidInputError(
            f"another `{command}` is at work on {folder}: wait for it"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _refuse_another(plan: Plan, options: CompareOptions) -> None:
    """Refuse to go on with a comparison of something else, as its runs would not be comparable."""
    asked = (options.script, options.arguments, options.most_questions, options.answers)
    same = (plan.script, plan.arguments, plan.most_questions, plan.answers) == asked
    if not same or options.methods not in ((), plan.asked, plan.methods):
        command = shlex.join([plan.script, *plan.arguments])
        raise InvalidInputError(
            f"{options.folder} holds a comparison of {command} with --methods"
            f" {','.join(plan.methods)} --questions {plan.most_questions[REPORTED]} --answers"
            f" {plan.answers}; to go on with it, give the same; for another one, another"
            " --output_dir"
        )

    if not _is_unchanged(options):
        raise InvalidInputError(
            f"{options.script} was changed since the comparison in {options.folder} began: to go"
            f" on, make it as it was ({_script_as_it_was(options)}); to compare it as it is now,"
            " give another --output_dir"
        )


def _script_as_it_was(options: CompareOptions) -> Path:
    """The copy of the script that a look leaves."""
    return options.folder / "look" / Path(options.script).name


def _is_unchanged(options: CompareOptions) -> bool:
    copy = _script_as_it_was(options)
    return copy.is_file() and copy.read_bytes() == Path(options.script).read_bytes()


def clock_of(launch: Sequence[str]) -> str:
    """Seconds that the process computes, where no GPU and no other process computes for it."""
    import torch

    return "wall" if torch.cuda.is_available() or launch else "cpu"


def _look(options: CompareOptions, probe_file: Path, say: Say) -> Probe:
    """Run the script for two steps, unless the same was looked at already."""
    folder = probe_file.parent
    describe = list(options.methods) or [*default_methods(YOURS)]
    job = ScriptJob(
        script=options.script,
        arguments=list(options.arguments),
        folder=str(folder),
        # What costs most; where it does not fit the script, the look says why.
        method="pods" if "pods" in describe else describe[0],
        seed=TUNING_SEED,
        questions=TUNING,
        most_questions=options.most_questions[TUNING],
        answers=options.answers,
        held_out=options.held_out,
        clock=clock_of(options.launch),
        describe=describe,
    )
    # A second command that is started meanwhile would clear away what this one looks at.
    with alone_in(options.folder, _COMMAND):
        if probe_file.is_file() and _is_unchanged(options) and ScriptJob.read(job.file) == job:
            return Probe.read(probe_file)

        say(f"a look at {options.script}: two steps, a few answers")
        shutil.rmtree(folder, ignore_errors=True)
        script = Path(options.script).read_bytes()
        run_alone(job, options.launch, next(iter(options.gpus), None))

        # Its two steps are no run that one would read: what was seen stays, and the script.
        probe = Probe.read(probe_file)
        shutil.rmtree(folder)
        probe.write(probe_file)
        files.write_whole(_script_as_it_was(options), script)
        return probe


@dataclass
class _Hours(Watcher):
    """Counts the wall time of a comparison, over all its starts, and says what starts and fails.

    Args:
        file: Where the time is kept.
        say: Called with a line for each run that starts or fails.
        line: What is said of a run that starts, while so many others are at work or wait.
        measured: Called with a job that has ended as it should.
    """

    file: Path
    say: Say
    line: Callable[[ScriptJob, int], str]
    measured: Callable[[ScriptJob], None]
    _counted_until: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        """The hours that were spent."""
        return float((files.read_json(self.file) or {"hours": 0.0})["hours"])

    def starts(self, job: Job, others: int) -> None:
        """Say which run starts."""
        assert isinstance(job, ScriptJob)
        self.say(self.line(job, others))

    def ended(self, job: Job, seconds: float, problem: str | None) -> None:
        """Count the time, and say why a run failed."""
        assert isinstance(job, ScriptJob)
        self.count()
        if problem is None:
            self.measured(job)
        else:
            self.say(f"failed: {job.name}: {problem}")

    def count(self) -> None:
        """Add the wall time since the last count, however many runs were at work in it."""
        now = time.monotonic()
        spent = self.spent + (now - self._counted_until) / 3600
        self._counted_until = now
        files.write_json(self.file, {"hours": spent})


@dataclass(frozen=True)
class _Chosen:
    """The decisions of tuning.

    Args:
        best: The arm of each method, with its rate.
        seconds: The training time of a reported run.
    """

    best: dict[str, Arm]
    seconds: float


class RunningComparison:
    """A plan that is carried out.

    Args:
        plan: What is run.
        costs: What it takes.
        folder: Where.
        gpus: As in `CompareOptions`.
        say: Called with a line for each run that starts.
    """

    def __init__(
        self,
        plan: Plan,
        costs: WallSeconds,
        folder: Path,
        gpus: tuple[str, ...] = (),
        say: Say = lambda line: None,
    ) -> None:
        self.plan = plan
        self.costs = costs
        self.folder = folder
        self.say = say
        self.hours = _Hours(folder / "spent.json", say, self._line, self._tell_noise)
        self.pool = Pool(
            ledger=Ledger(folder, plan.digest),
            launch=plan.launch,
            gpus=gpus,
            at_once=plan.at_once,
            watcher=self.hours,
        )
        self._noise_is_told = False

    def run(self) -> Answer:
        """Run what is not finished, and answer.

        Raises:
            PodsError: No two methods are left, another process is at work here, or an error that
                all runs would share.
        """
        with alone_in(self.folder, _COMMAND):
            self.plan.write(self.folder / SCRIPT_PLAN)
            answer = self._answer()
            files.write_whole(self.folder / ANSWER, f"{answer}\n".encode())
            write_worths(self.folder, answer.worths())
            return answer

    def _answer(self) -> Answer:
        chosen = self._choose_rates()
        best, looked = self._train_seeds(chosen)
        return Answer(
            plan=self.plan,
            seconds=chosen.seconds,
            best=best,
            by_seed=self._measured(best, chosen.seconds, looked.seeds),
            level=looked.level,
            failed=self.pool.failed,
            earlier=self._earlier_answers(looked.seeds),
            elsewhere=MeasuredSteps.read(self.folder),
        )

    def _earlier_answers(self, seeds: int) -> tuple[int, ...]:
        """After how many seeds fewer hours had ended the comparison before; notes this answer."""
        file = self.folder / _ANSWERED
        answered = {*(files.read_json(file) or {"seeds": []})["seeds"], seeds}
        files.write_json(file, {"seeds": sorted(answered)})
        return tuple(sorted(one for one in answered if one < seeds))

    # ---- rates

    def _choose_rates(self) -> _Chosen:
        """The best rate of each method. It is chosen once, so that all seeds have the same."""
        file = self.folder / CHOSEN_RATES
        written = files.read_json(file)
        if written is None:
            best = self._tune()
            seconds = self._seconds_of_reported(best)
            rates = {method: arm.learning_rate for method, arm in best.items()}
            failed = self.pool.failed
            files.write_json(file, {"rates": rates, "seconds": seconds, "failed": failed})
            return _Chosen(best, seconds)

        self.pool.failed.update(written["failed"])
        best = {method: Arm(method, rate) for method, rate in written["rates"].items()}
        return _Chosen(best, written["seconds"])

    def _tune(self) -> dict[str, Arm]:
        """The best rate of each method, by successive halving."""
        arms = self.plan.arms_to_tune
        self._train([self.plan.tuning_job(self.folder, arm, 1) for arm in arms])

        go_on: list[Arm] = []
        for method in self.plan.methods:
            reward_of_rate = self._rewards(method, arms, quarters=1)
            for _ in range(min(GO_ON, len(reward_of_rate))):
                rate = best_rate(reward_of_rate)
                del reward_of_rate[rate]
                go_on.append(Arm(method, rate))
        self._train([self.plan.tuning_job(self.folder, arm, 2) for arm in go_on])
        jobs = [self.plan.tuning_job(self.folder, arm, 2 if arm in go_on else 1) for arm in arms]
        _delete_checkpoints(jobs)

        best = {}
        for method in self.plan.methods:
            reward_of_rate = self._rewards(method, go_on, quarters=2)
            if reward_of_rate:
                best[method] = Arm(method, best_rate(reward_of_rate))
        if len(best) < 2:
            why = next(iter(self.pool.failed.values()), "no run was measured")
            raise PodsError(f"fewer than two methods could be trained: {why}")
        return best

    def _rewards(self, method: str, arms: Sequence[Arm], quarters: int) -> dict[float, float]:
        """The mean reward of each rate of a method, after so many quarters of the time.

        A run that went on has later measurements, too, as after a kill in the second round. They do
        not count in the first one. A rate of which a run failed has no reward.
        """
        rewards = {}
        for arm in arms:
            job = self.plan.tuning_job(self.folder, arm, quarters)
            if arm.method != method or not job.is_finished():
                continue
            points = evaluations(job.run)
            if points:
                mean = _mean_reward(points[0] if quarters == 1 else points[-1])
                if math.isfinite(mean):
                    rewards[arm.learning_rate] = mean
        return rewards

    def _seconds_of_reported(self, best: Mapping[str, Arm]) -> float:
        """The training time of reported runs: a quarter of the plan's if all methods learn so fast.

        After a quarter of the time all had the best reward then: later measurements could tell
        nothing apart. Runs for tuning alone decide this, so that no reported result does.
        """
        # At other rates answers differ, where they do not at the best ones.
        arms = self.plan.arms_to_tune
        jobs = {arm: self.plan.tuning_job(self.folder, arm, 1) for arm in arms}
        firsts = {arm: evaluations(job.run)[:1] for arm, job in jobs.items()}
        rewards = [
            rewards_K for points in firsts.values() for one in points for rewards_K in one.rewards
        ]
        scored = np.array(rewards, dtype=float)
        scored = scored[np.isfinite(scored)]
        if len(scored) == 0 or np.ptp(scored) == 0:
            return self.plan.seconds

        ceiling = scored.max() - _AT_THE_CEILING * np.ptp(scored)
        if min(_mean_reward(firsts[arm][0]) for arm in best.values()) < ceiling:
            return self.plan.seconds
        shorter = self.plan.seconds / EVALUATIONS
        self.say(
            f"after {duration(shorter)} of training all methods have the best reward already, so"
            f" reported runs train for {duration(shorter)}, and are measured {EVALUATIONS} times"
        )
        return shorter

    # ---- seeds

    def _train_seeds(self, chosen: _Chosen) -> tuple[dict[str, Arm], Looked]:
        """Seeds of all methods, in looks, until all differences are decided or the time is up.

        Returns:
            The methods that could be trained, and where the looks ended. A method of which
            `LEAST_SEEDS` runs fail is left out, so that the seeds of the others count.
        """
        best = dict(chosen.best)

        def train(seeds: Sequence[int]) -> None:
            self._train(
                [
                    self.plan.reported_job(self.folder, arm, seed, chosen.seconds)
                    for seed in seeds
                    for arm in best.values()
                ]
            )
            for method, arm in list(best.items()):
                jobs = self._reported_jobs(arm, range(seeds[-1] + 1), chosen.seconds)
                _delete_checkpoints(jobs)
                if sum(not job.is_finished() for job in jobs) >= LEAST_SEEDS:
                    del best[method]

        def is_decided(seeds: int, level: float) -> bool:
            if len(best) < 2:
                return True
            measured = self._measured(best, chosen.seconds, seeds)
            return Answer(self.plan, chosen.seconds, best, measured, level, {}).is_decided

        def has_time(seeds: Sequence[int]) -> bool:
            # What an earlier start has trained takes no time.
            trained = [one.seed for one in self._measured(best, chosen.seconds, seeds[-1] + 1)]
            left = len(set(seeds) - set(trained))
            needed = self.costs.seeds(chosen.seconds, len(best), self.plan.at_once, left)
            return left == 0 or self._hours_left() * 3600 >= needed

        looked = train_in_looks(LOOKS, train, is_decided, has_time)
        return best, looked

    def _reported_jobs(self, arm: Arm, seeds: Sequence[int], seconds: float) -> list[ScriptJob]:
        return [self.plan.reported_job(self.folder, arm, seed, seconds) for seed in seeds]

    def _measured(self, best: Mapping[str, Arm], seconds: float, seeds: int) -> list[Measured]:
        """The runs of those of the first seeds that all methods have."""
        by_seed = []
        for seed in range(seeds):
            jobs = {
                method: self.plan.reported_job(self.folder, arm, seed, seconds)
                for method, arm in best.items()
            }
            if jobs and all(job.is_finished() for job in jobs.values()):
                runs = {method: job.run for method, job in jobs.items()}
                by_seed.append(Measured.of(seed, runs))
        return by_seed

    # ---- runs

    def _train(self, jobs: Sequence[ScriptJob]) -> None:
        """Train what is not finished."""
        try:
            self.pool.make(jobs)
        finally:
            self.hours.count()

    def _tell_noise(self, job: ScriptJob) -> None:
        """Say once, as soon as a run was measured, what the answer will not be able to show."""
        points = evaluations(job.run)
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
            f" the {questions} questions that are reported (by {len(rewards_P_K)} questions after"
            " one short run, so roughly); more --questions make it less"
        )

    def _line(self, job: ScriptJob, others: int) -> str:
        hours = self._hours_left()
        left = f"about {duration(hours * 3600)} left"
        if hours <= 0:
            left = f"the hours are over, and {LEAST_SEEDS} seeds are trained all the same"
        rest = ""
        if others:
            rest = f", {others} other{'s' if others > 1 else ''} of this round"
        rate = f"{job.learning_rate:.3g}"
        what = "choosing rates" if job.questions == TUNING else f"seed {job.seed}"
        return f"{what}: {job.method} at {rate}, {duration(job.seconds)} of training{rest}; {left}"

    def _hours_left(self) -> float:
        return self.plan.hours - self.hours.spent


def _delete_checkpoints(jobs: Iterable[ScriptJob]) -> None:
    """Delete the checkpoints of finished runs, as these take the room of the next ones.

    Those of a run that failed stay: it can go on from them, and the user may want to look at them.
    """
    for job in jobs:
        if job.is_finished():
            for checkpoint in job.run.path.glob("checkpoint-*"):
                shutil.rmtree(checkpoint)


def _mean_reward(point: Evaluation) -> float:
    """The mean of the rewards that are numbers; NaN where none is."""
    return float(mean_of_scored(np.array(point.rewards, dtype=float)))
