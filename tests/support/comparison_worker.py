"""A comparison's process without torch: it writes a run's files and trains nothing.

Everything but `work` is the library's own process: its exit statuses, its lock, its end with the
process that started it. A file `behave.json` beside the comparison, {arm: what}, makes an arm crash
("kill"), fail as a user's mistake ("mistake"), or stop after 5 steps until it is killed ("hold").
"""

import json
import os
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
    arm, seed, _ = comparison.run_at(path)
    run = comparison.run_folder(comparison.run_at(path))
    told = folder.parent / "behave.json"
    behave = json.loads(told.read_text()).get(arm) if told.is_file() else None

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
        append_evaluation(run, evaluation(0, 0, 0.1))
        for step in range(1, steps + 1):
            run.append_metrics({"step": step, "pods/training_seconds": float(step)})
            if step in points:
                append_evaluation(run, evaluation(step, step, 0.5))
            if behave == "hold" and step == 5:
                threading.Event().wait()

        run.finish(arm, seed, steps, float(steps))


if __name__ == "__main__":
    run_worker.work = work
    sys.argv = [sys.argv[0], *sys.argv[-2:]]
    sys.exit(run_worker.main())
