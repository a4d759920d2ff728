"""A comparison's process without torch: it writes a run's files and trains nothing.

Everything but `work` is the library's own process: its exit statuses, its lock, its end with the
process that started it. A file `behave.json` beside the comparison, {arm or run: what}, makes runs
crash ("kill"), fail as a user's mistake ("mistake"), stop after 5 steps until they are killed
("hold"), or end with a share of right answers (a number). A run is named as in the ledger.
"best_rate" is the rate at which all learn best.
"""

import json
import os
import random
import sys
import threading
from pathlib import Path

from podslab.comparison import run_worker
from podslab.comparison.comparison import read_comparison
from podslab.engine.run_end import lock_of
from podslab.evaluation.records import append_evaluation
from podsrl.errors import InvalidInputError
from support.synthetic_runs import evaluation


def work(folder: Path, path: str) -> None:
    comparison = read_comparison(folder)
    key = comparison.run_at(path)
    arm, seed, rate = key
    run = comparison.run_folder(key)
    told = folder.parent / "behave.json"
    all_behave = json.loads(told.read_text()) if told.is_file() else {}
    behave = all_behave.get(key.name, all_behave.get(arm))

    with lock_of(run):
        if run.finished() is not None:
            return

        if behave == "mistake":
            raise InvalidInputError("the model 'no/such' is nowhere")
        run.write_config({"arm": arm, "seed": seed, "task": "arithmetic"})
        run.write_environment()
        if behave == "kill":
            os.kill(os.getpid(), 9)

        steps = int(comparison.amount)
        parts = comparison.evaluations
        points = [round(number * steps / parts) for number in range(parts + 1)]
        end = behave if isinstance(behave, float) else 0.5
        rate = rate or comparison.chosen_rates().get(arm)
        if rate != all_behave.get("best_rate", rate):
            end -= 0.2
        append_evaluation(run, evaluation(0, 0, 0.1, rewards=answers(0.1, seed)))
        for step in range(1, steps + 1):
            run.append_metrics({"step": step, "pods/training_seconds": float(step)})
            if step in points:
                level = 0.1 + (end - 0.1) * step / steps
                append_evaluation(run, evaluation(step, step, 0.5, rewards=answers(level, seed)))
            if behave == "hold" and step == 5:
                threading.Event().wait()

        run.finish(arm, seed, steps, float(steps))


def answers(level: float, seed: int) -> list[list[float]]:
    """The rewards of 4 answers to each of 50 questions, with a share of right ones, by seed."""
    draw = random.Random(seed)
    return [[float(draw.random() < level) for _ in range(4)] for _ in range(50)]


if __name__ == "__main__":
    run_worker.work = work
    sys.argv = [sys.argv[0], *sys.argv[-2:]]
    sys.exit(run_worker.main())
