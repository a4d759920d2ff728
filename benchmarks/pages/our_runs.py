"""What our own runs say: those of the small model, and the series of SmolLM2-135M."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.markdown import table
from benchmarks.series import METHODS, RESULTS, Series, all_series, read_series

# ---- the small model: sums over runs whose files were not kept ----------------------------------

#: What results/rows.json holds of a setting, and how an arm is found in it.
Setting = Mapping[str, Any]
FindArm = Callable[[Setting], str]


def small_model() -> list[str]:
    """The table of PODS and of rows across prompts beside GRPO and GRPO-GA."""
    settings = _small_model_settings()
    beside_ga = [
        "PODS 64 → 16 beside GRPO-GA 64",
        str(len(settings)),
        str(_ended_higher(settings, _pods, _grpo_ga)),
        "—",  # times were measured to the level of the best GRPO
    ]

    ratios_of_pods = _ratios(settings, _pods)
    beside_grpo = [
        "PODS 64 → 16 beside the best GRPO",
        str(len(settings)),
        str(_ended_higher(settings, _pods, _best_grpo)),
        str(_number_above_1(ratios_of_pods)),
    ]

    ratios = _ratios(settings, _rows_across_prompts)
    across_prompts = [
        "`max_contrast` beside the best GRPO",
        str(len(settings)),
        str(_ended_higher(settings, _rows_across_prompts, _best_grpo)),
        f"{_number_above_1(ratios)}; median {np.median(ratios):.2f}x,"
        f" {min(ratios):.2f}x to {max(ratios):.2f}x",
    ]

    heads = ["small model, 5 seeds", "settings", "ended higher", "reached that GRPO's level sooner"]
    return table(heads, [beside_ga, beside_grpo, across_prompts])


def small_model_in_words() -> list[str]:
    """What the README says of our own runs."""
    settings = _small_model_settings()
    over_ga = _ended_higher(settings, _pods, _grpo_ga)
    over_grpo = _ended_higher(settings, _pods, _best_grpo)
    return [
        "On a model of 0.8 million parameters, in a minute or two on one core, PODS ended higher"
        f" than GRPO-GA in {over_ga} of {len(settings)} settings, and higher than the best GRPO in"
        f" {over_grpo} of {len(settings)}."
    ]


def _small_model_settings() -> list[Setting]:
    """The settings of the small model, except the one with another optimiser."""
    of_name = json.loads((RESULTS / "rows.json").read_text(encoding="utf-8"))
    return [setting for name, setting in of_name.items() if name != "sgd-16"]


def _pods(setting: Setting) -> str:
    return "pods"


def _grpo_ga(setting: Setting) -> str:
    return "grpo_ga"


def _best_grpo(setting: Setting) -> str:
    return str(setting["reference"])


def _rows_across_prompts(setting: Setting) -> str:
    return next(arm for arm in setting["arms"] if arm.startswith("across"))


def _ended_higher(settings: Sequence[Setting], find_arm: FindArm, find_other: FindArm) -> int:
    """In how many settings an arm ended higher than another one."""
    count = 0
    for setting in settings:
        if _end(setting, find_arm(setting)) > _end(setting, find_other(setting)):
            count += 1
    return count


def _end(setting: Setting, arm: str) -> float:
    """The accuracy at the end in percent, which the file has as text: "48.0 ± 1.2%"."""
    return float(setting["arms"][arm]["end"].split()[0])


def _ratios(settings: Sequence[Setting], find_arm: FindArm) -> list[float]:
    """How many times as fast as the best GRPO an arm was; 0 where it never got there."""
    ratios = []
    for setting in settings:
        speedup = setting["arms"][find_arm(setting)]["measured"]
        ratios.append(speedup["ratio"] or 0.0)
    return ratios


def _number_above_1(ratios: Sequence[float]) -> int:
    return sum(ratio > 1 for ratio in ratios)


# ---- families of methods, over all series -------------------------------------------------------

#: How the names of a family's methods begin.
FAMILIES = {
    "PODS": ("pods", "pods-32"),
    "rows across prompts (`max_contrast`)": ("max_contrast", "max_contrast-group"),
    "right answers alone (rejection sampling)": ("best-",),
    "2-GRPO": ("grpo-2",),
}
#: How the names of the settings of each kind of model begin.
MODELS = {
    "small model": ("mixed", "rare", "few"),
    "SmolLM2-135M, CPU": ("answers", "pretrained", "char"),
    "SmolLM2-135M, GPU": ("gpu",),
}


class Lead(NamedTuple):
    """Whether a method had more right than the best other GRPO of its series."""

    over_run: bool
    at_end: bool


def families() -> list[str]:
    """The table of each family beside the best other GRPO of the same series."""
    every_series = list(all_series())

    rows = []
    for family, methods in FAMILIES.items():
        cells = [family]
        for settings in MODELS.values():
            leads: list[Lead] = []
            for series in every_series:
                if series.setting.startswith(settings):
                    leads += _leads_over_grpo(series, methods)

            over_run = sum(lead.over_run for lead in leads)
            at_end = sum(lead.at_end for lead in leads)
            cells.append(f"{over_run} and {at_end} of {len(leads)}" if leads else "not run")

        rows.append(cells)

    return table(["beside the best GRPO of the same series", *MODELS], rows)


def _leads_over_grpo(series: Series, names: tuple[str, ...]) -> Iterator[Lead]:
    """The lead of each method whose name begins so, over a GRPO of another family."""
    others = [method for method in series.grpos() if not method.startswith(names)]
    if not others:
        return

    best_over_run = max(map(series.over_run, others))
    best_at_end = max(map(series.end, others))
    for method, runs in series.by_method.items():
        if method.startswith(names) and "prompt_selection" not in runs[0]["arm"]:
            yield Lead(
                over_run=series.over_run(method) > best_over_run,
                at_end=series.end(method) > best_at_end,
            )


# ---- learning rates, and the long run -----------------------------------------------------------


def learning_rates() -> list[str]:
    """How far learning rates lie apart on the middle set of the GPU, and how far methods do."""
    file = METHODS / "gpu-middle" / "tuning.json"
    tuning = json.loads(file.read_text(encoding="utf-8"))

    best_of_method = []
    for accuracies_by_rate in tuning.values():
        of_first_seed = [accuracies[0] for accuracies in accuracies_by_rate.values()]
        best_of_method.append(max(of_first_seed))

    grpo = {float(rate): accuracies[0] for rate, accuracies in tuning["grpo-8"].items()}
    best_rate = max(grpo, key=lambda rate: grpo[rate])
    worst_rate = min(grpo, key=lambda rate: grpo[rate])
    return [
        f"On the middle set of the GPU, with one seed, GRPO of 8 had {100 * grpo[best_rate]:.0f} %"
        f" right over the run at {best_rate:g} and {100 * grpo[worst_rate]:.0f} % at"
        f" {worst_rate:g}. At their best rates the {len(best_of_method)} methods had"
        f" {100 * min(best_of_method):.0f} to {100 * max(best_of_method):.0f} %."
    ]


#: The one long run, and the seconds that its runs were given.
_LONG_SERIES = METHODS / "answers-long-greedy" / "2026-11-26-c646925"
_LONG_SECONDS = 600


def long_run() -> list[str]:
    """The table of the one long run of right answers alone, beside 2-GRPO."""
    series = read_series(_LONG_SERIES)
    times = _times_asked_for(series)[1:]

    rows = []
    for method, name in (("best-4", "right answers alone, 4 → 1"), ("grpo-2", "2-GRPO")):
        accuracies = _mean_accuracies(series, method)[1:]
        rows.append([name, *(f"{100 * accuracy:.1f} %" for accuracy in accuracies)])
    return table(["likeliest answers right after", *(f"{time:.0f} s" for time in times)], rows)


def long_run_in_words() -> list[str]:
    """The long run in two sentences, from its second evaluation on."""
    series = read_series(_LONG_SERIES)
    times = [f"{time:.0f}" for time in _times_asked_for(series)[2:]]
    alone = [f"{100 * accuracy:.1f} %" for accuracy in _mean_accuracies(series, "best-4")[2:]]
    pairs = [f"{100 * accuracy:.1f} %" for accuracy in _mean_accuracies(series, "grpo-2")[2:]]
    return [
        f"In our one long run ({len(series.by_method['best-4'])} seeds, the middle set, likeliest"
        f" answers) right answers alone had {_listed(alone)} right after {_listed(times)} s."
        f" 2-GRPO had {_listed(pairs)}: it still rose."
    ]


def _times_asked_for(series: Series) -> npt.NDArray[np.float64]:
    """When the runs were to be evaluated; each waited for its step to end."""
    return np.linspace(0, _LONG_SECONDS, series.evaluations + 1)


def _mean_accuracies(series: Series, method: str) -> npt.NDArray[np.float64]:
    """The accuracy at each evaluation, as measured, on average over the seeds."""
    accuracies_S_T = [run["curve"]["accuracy"] for run in series.by_method[method]]
    return np.asarray(np.mean(accuracies_S_T, axis=0))


def _listed(words: Sequence[str]) -> str:
    """The words as a list in a sentence: "a, b and c"."""
    return f"{', '.join(words[:-1])} and {words[-1]}"
