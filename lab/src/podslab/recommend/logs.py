"""Seconds of steps in the logs of hosts: podsrl in TRL, TRL itself, and verl."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from podslab.recommend.costs_of_runs import read_costs
from podslab.recommend.measured_steps import GRPO, MeasuredStep, MeasuredSteps
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder, find_runs

#: The phases of a step of verl, by what they are called here; what is left of a step is "other".
_PHASES_OF_VERL = {
    "generate": ("timing_s/gen",),
    "score": ("timing_s/reward",),
    "update": ("timing_s/old_log_prob", "timing_s/ref", "timing_s/update_actor"),
}
#: What verl times within a step and is no training.
_BESIDES = (
    "timing_s/save_checkpoint",
    "timing_s/testing",
    "timing_s/dump_rollout_generations",
)
_MEMORY_OF_VERL = "actor/perf/max_memory_allocated_gb"
#: A number in a line that verl prints: `timing_s/gen:12.3`, also as `np.float64(12.3)`.
_PRINTED = re.compile(r"([\w/@.-]+):(?:np\.\w+\()?(-?\d[\d.eE+-]*)\)?(?= - |\s|$)")
_LINE_OF_VERL = re.compile(r"\bstep:\d+ - ")


def read_logs(sources: Sequence[Path]) -> MeasuredSteps:
    """The mean step of each run, by its sizes; of several of the same sizes, over all of them.

    Args:
        sources: Folders of runs of podsrl, folders or `trainer_state.json` of TRL's own runs, and
            what verl printed, or its file logger wrote.

    Raises:
        InvalidInputError: A source holds no timed steps.
    """
    steps: list[MeasuredStep] = []
    for source in sources:
        steps += _read(source)
    steps.sort(key=lambda step: (step.method != GRPO, step.rollouts_per_row, step.rows or 0.0))
    return MeasuredSteps(of=", ".join(map(str, sources)), machine="", steps=steps)


def _read(source: Path) -> list[MeasuredStep]:
    if source.suffix in (".yaml", ".yml"):
        raise InvalidInputError(
            f"{source} is a config, and no run: give the output_dir of one that was trained with it"
        )
    if source.is_file() and source.name != "trainer_state.json":
        return [_of_verl(source)]
    if source.is_dir() and any(source.rglob("config.yaml")):
        return _of_podsrl(find_runs(source))
    if source.exists() and (states := _states_of_trl(source)):
        return [_of_trl(states[-1])]
    raise InvalidInputError(
        f"{source} holds no run with timed steps: give the output_dir of a run of podsrl or TRL,"
        " what verl printed, or a script"
    )


# ---- podsrl in TRL


#: Settings that say which runs are of one kind.
_OF_A_KIND = ("arm", "num_rollouts", "num_generations", "per_device_train_batch_size")


def _of_podsrl(runs: Sequence[RunFolder]) -> list[MeasuredStep]:
    """From the metrics of each kind of runs, without the first line of each log."""
    kinds: dict[tuple[Any, ...], list[RunFolder]] = {}
    for run in runs:
        config = run.config()
        kinds.setdefault(tuple(config.get(name) for name in _OF_A_KIND), []).append(run)

    steps = []
    for (arm, *_), of_kind in kinds.items():
        costs = read_costs(of_kind)
        is_grpo = costs.rollouts_per_row == 1 and arm in (None, "grpo", "grpo_ga")
        steps.append(
            MeasuredStep(
                method=GRPO if is_grpo else str(arm),
                rollouts_per_row=costs.rollouts_per_row,
                rows=round(costs.rows_per_step),
                seconds=costs.phases,
                steps=costs.steps,
                peak_memory=costs.peak_memory,
            )
        )
    return steps


# ---- TRL itself


def _states_of_trl(source: Path) -> list[Path]:
    """The states of a run's checkpoints, the last one last."""
    if source.is_file():
        return [source]
    states = list(source.glob("checkpoint-*/trainer_state.json"))
    states += source.glob("trainer_state.json")
    return sorted(states, key=lambda path: len(_logged_by_trl(path)))


def _logged_by_trl(state: Path) -> list[Mapping[str, Any]]:
    logged = json.loads(state.read_text(encoding="utf-8")).get("log_history", [])
    return [line for line in logged if "step_time" in line]


def _of_trl(state: Path) -> MeasuredStep:
    """From `step_time`, TRL's seconds of a micro-batch's inputs and loss, without the first line.

    TRL does not log phases, nor sizes: a step of its own trainer is GRPO's, whatever they are.
    """
    logged = _logged_by_trl(state)[1:]
    if not logged:
        raise InvalidInputError(
            f"{state}: fewer than two logged steps with step_time; train on until the log has a"
            " second line of them (logging_steps)"
        )
    seconds = fmean(float(line["step_time"]) for line in logged)
    return MeasuredStep(GRPO, rollouts_per_row=1.0, seconds={"step": seconds}, steps=len(logged))


# ---- verl


def _of_verl(log: Path) -> MeasuredStep:
    """From what verl printed, or its file logger wrote, without the first step, which warms up.

    Without metrics of podsrl all rollouts are trained on.
    """
    logged = [line for line in _lines_of_verl(log) if "timing_s/step" in line][1:]
    if not logged:
        raise InvalidInputError(
            f"{log}: fewer than two steps with timing_s/step; give what verl prints, or the file"
            " of its file logger (trainer.logger=[console,file])"
        )

    seconds = {}
    for phase, names in _PHASES_OF_VERL.items():
        seconds[phase] = fmean(sum(float(line.get(name, 0.0)) for name in names) for line in logged)
    # verl times saving and testing as parts of a step.
    whole = fmean(
        float(line["timing_s/step"]) - sum(float(line.get(name, 0.0)) for name in _BESIDES)
        for line in logged
    )
    seconds["other"] = max(0.0, whole - sum(seconds.values()))

    rollouts = sum(float(line.get("pods/rollouts", 0.0)) for line in logged)
    rows = sum(float(line.get("pods/kept_rollouts", 0.0)) for line in logged)
    peaks = [float(line[_MEMORY_OF_VERL]) for line in logged if line.get(_MEMORY_OF_VERL)]
    return MeasuredStep(
        method="pods" if rollouts > rows else GRPO,
        rollouts_per_row=rollouts / rows if rows else 1.0,
        rows=round(rows / len(logged)) if rows else None,
        seconds=seconds,
        steps=len(logged),
        peak_memory=max(peaks) * 2**30 if peaks else None,
    )


def _lines_of_verl(log: Path) -> list[Mapping[str, Any]]:
    """The numbers of each step, as JSON lines or as printed."""
    text = log.read_text(encoding="utf-8", errors="replace")
    found: list[Mapping[str, Any]] = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                raise InvalidInputError(f"{log}: a line is no JSON: {error}") from error
            found.append(value.get("data", value))
        elif match := _LINE_OF_VERL.search(line):
            printed = _PRINTED.findall(line[match.start() :])
            found.append({name: float(number) for name, number in printed})
    return found
