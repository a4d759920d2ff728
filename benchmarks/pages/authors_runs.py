"""The numbers of the authors' result files, from the curves that results/published.json keeps."""

from benchmarks.folders import RESULTS
from benchmarks.markdown import table
from benchmarks.published.kept_curves import read_kept
from podslab.report.summary import interval, median, speed
from podslab.statistics.curves import ArmCurves
from podslab.statistics.speedup import Speedup, best_point, mean_over_seeds, speed_up

#: The curves of an experiment's arms, the reference first.
Experiment = dict[str, ArmCurves]

_ON_ONE_GPU = "GSM8K, Qwen2.5-3B-Instruct, one L40S"
_NAMES = {"grpo": "GRPO", "grpo_ga": "GRPO-GA"}


def settings() -> list[str]:
    """The table of the five settings in which PODS is compared with GRPO or GRPO-GA."""
    rows = []
    for title, arms in _experiments_with_pods().items():
        reference = _reference(arms)
        pods = arms["pods"]
        speedup = speed_up(reference, pods)
        rows.append(
            [
                title,
                _NAMES[reference.arm],
                f"{len(reference.seeds)} and {len(pods.seeds)}",
                f"**{_with_interval(speedup)}**",
                median(speedup) if speedup.paired else "runs are not paired",
                f"{_best_accuracy(reference)} → {_best_accuracy(pods)}",
            ]
        )

    heads = [
        "setting",
        "compared with",
        "runs",
        "PODS is as fast",
        "median over runs",
        "best accuracy",
    ]
    return table(heads, rows)


def speed_up_on_one_gpu() -> Speedup:
    """The speed-up of PODS to GRPO's level on one GPU: GSM8K, Qwen2.5-3B-Instruct."""
    arms = _experiments()[_ON_ONE_GPU]
    return speed_up(_reference(arms), arms["pods"])


def sizes_and_rules() -> list[str]:
    """The table of the authors' ablations: how many rollouts, and which rule."""
    rows = []
    for title, arms in _experiments().items():
        if "pods" in arms:
            continue
        reference = _reference(arms)
        for name, arm in arms.items():
            is_reference = arm is reference
            rows.append(
                [
                    title.removeprefix("GSM8K, "),
                    name,
                    _best_accuracy(arm),
                    "1" if is_reference else _with_interval(speed_up(reference, arm)),
                ]
            )
    return table(["what varies", "choice", "best accuracy", "as fast as the first"], rows)


def _experiments() -> dict[str, Experiment]:
    return read_kept(RESULTS / "published.json")


def _experiments_with_pods() -> dict[str, Experiment]:
    return {title: arms for title, arms in _experiments().items() if "pods" in arms}


def _reference(arms: Experiment) -> ArmCurves:
    return next(iter(arms.values()))


def _best_accuracy(arm: ArmCurves) -> str:
    accuracy_T = mean_over_seeds(arm.accuracy)
    return f"{100 * accuracy_T[best_point(arm)]:.1f} %"


def _with_interval(speedup: Speedup) -> str:
    """A speed-up with its interval over seeds, or why there is none."""
    if not speedup.ratio:
        return speed(speedup)
    return f"{speed(speedup)} ({interval(speedup)})"
