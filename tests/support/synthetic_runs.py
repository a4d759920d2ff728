"""Run folders with known numbers, written by the library's own writer."""

from podslab.evaluation.records import Evaluation, append_evaluation
from podsrl.rollout_log.run_folder import RunFolder


def evaluation(step, seconds, accuracy, n=16, m=16, **changes):
    fields = {
        "step": step,
        "training_seconds": float(seconds),
        "rollouts_generated": n * step,
        "rollouts_trained": m * step,
        "task": "arithmetic",
        "split": "test",
        "problems": 100,
        "repeats": 2,
        # the two repeats lie 0.01 around the accuracy that is asked for
        "answer_accuracy": (accuracy - 0.01, accuracy + 0.01),
        "format_accuracy": (0.9, 1.0),
        "both_accuracy": (accuracy - 0.02, accuracy - 0.02),
        "mean_length": (90.0, 110.0),
    }
    return Evaluation(**{**fields, **changes})


def write_run(
    folder, arm, seed, accuracies, n=16, m=16, seconds_per_step=1.0, every=10, config=None
):
    """A run evaluated every `every` steps, at the given accuracies, the first one untrained."""
    run = RunFolder(folder)
    settings = {
        "arm": arm,
        "seed": seed,
        "task": "arithmetic",
        "num_rollouts": n,
        "num_generations": m,
        "learning_rate": 5e-6,
    }
    run.write_config({**settings, **(config or {})})

    for number, accuracy in enumerate(accuracies):
        step = number * every
        append_evaluation(run, evaluation(step, step * seconds_per_step, accuracy, n, m))

    steps = (len(accuracies) - 1) * every
    write_metrics(run, steps, n, m, seconds_per_step)
    run.append_metrics({"step": steps, "train_runtime": 999.0})  # as TRL ends its log
    run.finish(arm, seed, steps, steps * seconds_per_step)
    return run


def write_metrics(run, steps, n, m, seconds_per_step=1.0, **more):
    """What a run logs in every step."""
    dropped_reward = None if n == m else (0.25 * n - 0.5 * m) / (n - m)

    (run.path / "metrics.jsonl").unlink(missing_ok=True)  # in place of what was there
    for step in range(1, steps + 1):
        run.append_metrics(
            {
                "step": step,
                "reward": 0.25,
                "pods/kept_reward": 0.5,
                "pods/dropped_reward": dropped_reward,
                "pods/zero_advantage_rows": 0.25 * m,
                "pods/seconds_generate": 0.4 * seconds_per_step,
                "pods/seconds_score": 0.1 * seconds_per_step,
                "pods/seconds_select": 0.0,
                "pods/seconds_update": 0.5 * seconds_per_step,
                "pods/training_seconds": step * seconds_per_step,
                "pods/peak_memory": 2**30,
                "pods/rollouts_generated": step * n,
                "pods/rollouts_trained": step * m,
                "completions/mean_length": 100.0,
                **more,
            }
        )
