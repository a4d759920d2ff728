"""A process of `pods compare SCRIPT` without torch: it writes a run's files and trains nothing.

    script_worker.py -m podslab.own_script.script_process JOB.json

The script that it is told of is not run. A file `behave.json` in the working folder says what else
it does: {"look": {field of the look: value}, "fails": [arm names], "fails_reported": [methods],
"fails_late": [names of runs, which have a checkpoint by then], "start": reward at first, "reward":
{method: at the end, or a list with that of each seed}, "collapses": [arm names whose reward is 0 at
the end of the second round], "misses_one": [methods whose reported runs lack a measurement],
"unscored": [methods of which every second answer has no reward], "at_once": whether all is learned
before the first measurement, "meets": processes that must have begun before one ends}. What begins
and ends is written into at_work.txt, with the GPU that it was given.
"""

import json
import math
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from podslab.engine.run_end import FAILED, error_file, write_error
from podslab.evaluation.records import Evaluation, append_evaluation, evaluations
from podslab.own_script.job import REPORTED, Probe, ScriptJob
from podsrl.rollout_log.run_folder import RunFolder

LEARNING_RATE = 1e-5
#: The rate at which every method learns best.
BEST_RATE = 2e-5


def look(job: ScriptJob, behave: dict) -> None:
    """What a script with TRL's config would show."""
    probe = Probe(
        learning_rate=LEARNING_RATE,
        methods={
            name: {"method": name, "num_rollouts": 8, "num_generations": 4}
            for name in job.describe
            if name != "cppo"
        },
        problems={name: "its sizes do not fit" for name in job.describe if name == "cppo"},
        own_method="grpo",
        prompts=100,
        questions={"tuning": 20, "reported": 20},
        is_held_out=True,
        reward_functions=["right"],
        seconds_to_start=0.1,
        seconds_per_step=0.1,
        seconds_per_answer=0.0001,
    )
    replace(probe, **behave.get("look", {})).write(Path(job.folder) / "probe.json")


def train(job: ScriptJob, behave: dict) -> int:
    """Measurements that rise from 0.2 to the method's reward, less at other rates than the best."""
    arm = f"{job.method}-{job.learning_rate:.3g}"
    is_reported = job.questions == REPORTED
    if arm in behave.get("fails", []) or (
        is_reported and job.method in behave.get("fails_reported", [])
    ):
        return _fail(job)

    _note("begins")
    _meet(behave.get("meets", 1))

    run = RunFolder(job.folder)
    run.write_config(
        {
            "arm": job.method,
            "seed": job.seed,
            "learning_rate": job.learning_rate,
            "num_rollouts": 8,
            "num_generations": 4,
            "steps_per_generation": 4,
            "skip_zero_advantage": True,
        }
    )

    (run.path / "checkpoint-1").mkdir(exist_ok=True)
    if job.name in behave.get("fails_late", []):
        return _fail(job)

    start = behave.get("start", 0.2)
    end = behave["reward"][job.method]
    if isinstance(end, list):
        end = end[job.seed % len(end)]
    if job.learning_rate != BEST_RATE:
        end -= 0.1
    first = len(evaluations(run)) or (0 if job.from_start else 1)
    for point in range(first, job.evaluations + 1):
        if is_reported and point == 2 and job.method in behave.get("misses_one", []):
            continue
        share = point / job.evaluations
        seconds = job.seconds * share
        learned = float(point > 0) if behave.get("at_once") else share
        level = start + (end - start) * learned
        if job.evaluations == point == 2 and arm in behave.get("collapses", []):
            level = 0.0

        of_question = []
        for question in range(20):
            rewards = [_reward(level, question, answer) for answer in range(job.answers)]
            if job.method in behave.get("unscored", []):
                rewards[::2] = [math.nan] * len(rewards[::2])
            of_question.append(rewards)

        run.append_metrics(
            {
                "step": point + 1,
                "pods/training_seconds": seconds,
                "pods/seconds_generate": 1.0,
                "pods/seconds_update": 3.0,
                "pods/rollouts": 8,
                "pods/kept_rollouts": 4,
                "pods/rollouts_generated": 8 * (point + 1),
                "pods/rollouts_trained": 4 * (point + 1),
                "pods/rows_passed": 4 * (point + 1),
            }
        )

        append_evaluation(
            run,
            Evaluation(
                step=point,
                training_seconds=seconds,
                rollouts_generated=point,
                rollouts_trained=point,
                task="script",
                split=job.questions,
                problems=20,
                repeats=job.answers,
                answer_accuracy=(0.0,),
                format_accuracy=(),
                both_accuracy=(),
                mean_length=(1.0,),
                rewards=of_question,
                greedy_rewards=[row[0] for row in of_question],
            ),
        )

    _note("ends")
    run.finish(job.method, job.seed, 5, job.seconds)
    with Path("started.txt").open("a") as file:
        file.write(f"{job.questions} {arm} {job.seed} {job.seconds:g}\n")
    return 0


def _fail(job: ScriptJob) -> int:
    """As behind torchrun, which prints something else at last, and ends in its own way."""
    write_error(error_file(Path(job.folder)), FAILED, "ValueError: the loss is lost")
    print("=" * 60, file=sys.stderr)
    return 77


def _note(what: str) -> None:
    with Path("at_work.txt").open("a") as file:
        file.write(f"{os.environ.get('CUDA_VISIBLE_DEVICES', 'none')} {what}\n")


def _meet(number: int) -> None:
    """Wait until so many processes have begun, which they do only side by side."""
    give_up = time.monotonic() + 120
    while Path("at_work.txt").read_text().count("begins") < number:
        if time.monotonic() > give_up:
            sys.exit("the others have not begun")
        time.sleep(0.05)


def _reward(share: float, question: int, answer: int) -> float:
    """Right for this share of answers, over questions evenly."""
    return float((question * 7 + answer * 3) % 20 < 20 * share)


if __name__ == "__main__":
    of_process = ScriptJob.read(Path(sys.argv[-1]))
    told = json.loads(Path("behave.json").read_text())
    if of_process.describe:
        look(of_process, told)
        sys.exit(0)
    sys.exit(train(of_process, told))
