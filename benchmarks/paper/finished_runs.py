"""The published summary of a finished run: its costs by phase, and its curve."""

from typing import Any

from podslab.evaluation.records import evaluations
from podslab.statistics.curves import share_passed
from podsrl.rollout_log.run_folder import PHASES, RunFolder


def summary(run: RunFolder) -> dict[str, Any]:
    """The settings that a comparison differs in, the machine, the costs, and the curve of a run."""
    config = run.config()
    environment = run.environment()
    rows = config["per_device_train_batch_size"] * config["gradient_accumulation_steps"]

    settings = {
        "arm": config["arm"],
        "seed": config["seed"],
        "num_rollouts": config["num_rollouts"],
        "num_generations": config["num_generations"],
        "downsampling_rule": config["downsampling_rule"],
        "learning_rate": config["learning_rate"],
        "rows": rows,
        "budget_seconds": config["max_training_seconds"],
    }
    machine = {
        "commit": (environment.get("git") or {}).get("commit"),
        "cpu": f"{environment['cpu']}, {environment['cores']} cores",
        "versions": environment["versions"],
    }
    return {
        **settings,
        **machine,
        "wall_seconds": round(_total(run.metrics(), "step_time"), 1),
        **_costs(run),
        "curve": _curve(run),
    }


def _costs(run: RunFolder) -> dict[str, Any]:
    """The seconds of each phase, what a rollout costs beside a row, and the passes made."""
    log = run.metrics()
    last = evaluations(run)[-1]
    seconds = {phase: _total(log, f"pods/seconds_{phase}") for phase in PHASES}

    seconds_per_rollout = seconds["generate"] / last.rollouts_generated
    seconds_per_row = seconds["update"] / last.rollouts_trained
    zero_advantage_rows = _total(log, "pods/zero_advantage_rows")
    return {
        "seconds": {phase: round(spent, 3) for phase, spent in seconds.items()},
        "g_over_u": seconds_per_rollout / seconds_per_row,
        "rollouts_generated": last.rollouts_generated,
        "rows_trained": last.rollouts_trained,
        # The name that the files beside it have.
        "filler_share": zero_advantage_rows / _total(log, "pods/kept_rollouts"),
        "share_passed": share_passed(run.config(), log),
    }


def _curve(run: RunFolder) -> dict[str, list[Any]]:
    points = evaluations(run)
    return {
        "steps": [point.step for point in points],
        "seconds": [round(point.training_seconds, 3) for point in points],
        "generated": [point.rollouts_generated for point in points],
        "trained": [point.rollouts_trained for point in points],
        "accuracy": [point.mean("answer_accuracy") for point in points],
        "answers": [point.problems * point.repeats for point in points],
    }


def _total(log: list[dict[str, Any]], name: str) -> float:
    """The sum over the steps; with several passes over a generation not every step has a value."""
    return sum(float(row.get(name, 0.0)) for row in log)
