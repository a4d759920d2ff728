"""What was found wrong with the comparison on a GPU, each number recomputed from the raw files."""

import json
from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.answers.sets import kinds_of
from benchmarks.markdown import table
from benchmarks.series import (
    METHODS,
    Runs,
    Series,
    curves,
    equally_long,
    read_series,
    times_as_fast,
    with_interval,
)
from podslab.report.statistics import Speedup, speed_up
from podslab.tasks.answers import Answers

SETS = ("easy", "middle", "hard")
_EARLIER, _LATER = "2026-11-26-88e3def", "2026-11-26-8e63ae7"
#: The seeds of the later series that the front page counted: it left out the sixth.
_COUNTED = 5
#: Right answers alone, and the 2-GRPO that it was set beside.
_ALONE, _PAIRS = "best-4", "grpo-2-rows256"
_TEST_QUESTIONS = 256


@dataclass(frozen=True)
class GpuSet:
    """The two series of a set of questions on the GPU."""

    earlier: Series
    later: Series


def gpu_set(name: str) -> GpuSet:
    """The series of the set of this name, one of `SETS`."""
    folder = METHODS / f"gpu-{name}"
    return GpuSet(read_series(folder / _EARLIER), read_series(folder / _LATER))


@dataclass(frozen=True)
class Claims:
    """Right answers alone over the best GRPO: as the front page said it, and with all runs."""

    middle: Speedup
    middle_beside_the_better_grpo: Speedup
    middle_within_the_earlier_series: Speedup
    easy: Speedup
    easy_with_the_sixth_seed: Speedup
    hard_across_series: Speedup
    hard_within_the_earlier_series: Speedup


def read_claims() -> Claims:
    """The claims, from the runs of the three sets."""
    middle = gpu_set("middle")
    earlier_grpo = middle.earlier.by_method["grpo-8"]
    later_grpo = middle.later.by_method["grpo-8"]
    earlier_alone = middle.earlier.by_method[_ALONE]
    later_alone = middle.later.by_method[_ALONE]

    easy = gpu_set("easy")
    easy_pairs = easy.later.by_method[_PAIRS]
    easy_alone = easy.later.by_method[_ALONE]

    hard = gpu_set("hard")
    hard_pairs = hard.earlier.by_method[_PAIRS]

    return Claims(
        middle=times_as_fast(_counted(later_grpo), _counted(later_alone)),
        middle_beside_the_better_grpo=times_as_fast(_counted(earlier_grpo), _counted(later_alone)),
        middle_within_the_earlier_series=times_as_fast(earlier_grpo, earlier_alone),
        easy=times_as_fast(_counted(easy_pairs), _counted(easy_alone)),
        easy_with_the_sixth_seed=times_as_fast(easy_pairs, easy_alone),
        hard_across_series=times_as_fast(hard_pairs, hard.later.by_method[_ALONE]),
        hard_within_the_earlier_series=times_as_fast(hard_pairs, hard.earlier.by_method[_ALONE]),
    )


def _counted(runs: Runs) -> Runs:
    """The runs of the seeds that the front page counted."""
    return [run for run in runs if run["seed"] < _COUNTED]


def claims() -> list[str]:
    """The table of what the front page said until 2026-11-27, and of what all runs say."""
    found = read_claims()
    middle = (
        f"{with_interval(found.middle_beside_the_better_grpo)} beside the GRPO of the earlier"
        f" series, at half the rate; {found.middle_within_the_earlier_series.ratio:.3f}x within"
        " that series"
    )
    easy = f"{with_interval(found.easy_with_the_sixth_seed)} with the sixth seed"
    hard = f"{with_interval(found.hard_within_the_earlier_series)} within one series"

    rows = [
        ["middle", with_interval(found.middle), middle],
        ["easy", with_interval(found.easy), easy],
        ["hard", with_interval(found.hard_across_series), hard],
    ]
    return table(["set", "it said", "what the runs that were left out say"], rows)


def claims_in_words() -> list[str]:
    """The same in a sentence."""
    found = read_claims()
    better = found.middle_beside_the_better_grpo
    middle = found.middle_within_the_earlier_series.ratio or 0.0
    easy = found.easy_with_the_sixth_seed.ratio or 0.0
    hard = found.hard_within_the_earlier_series.ratio or 0.0
    return [
        f"The {found.middle.ratio:.2f}x is {better.ratio:.2f}x ({better.low:.2f} to"
        f" {better.high:.2f}) beside the better GRPO that had been removed, and {middle:.3f}x"
        f" within that GRPO's own series. With the sixth seed the easy set reads {easy:.2f}x, and"
        f" within one series the hard set reads {hard:.2f}x."
    ]


def points() -> list[str]:
    """What was found wrong, point by point."""
    found = read_claims()
    easy, middle, hard = gpu_set("easy"), gpu_set("middle"), gpu_set("hard")
    return [
        _a_better_grpo_was_taken_out(middle, easy),
        _a_sixth_seed_was_taken_out(easy.later, found),
        _rates_were_not_tuned_alike(),
        _budgets_differed(hard, found),
        _the_reference_was_chosen_by_another_measure(easy.later),
    ]


def _a_better_grpo_was_taken_out(middle: GpuSet, easy: GpuSet) -> str:
    earlier = middle.earlier.end("grpo-8")
    later = max(middle.later.end("grpo-4"), middle.later.end("grpo-8"))
    pairs = easy.earlier.end("grpo-2")
    alone = easy.later.end(_ALONE)
    return (
        f"1. **A better GRPO was taken out.** On the middle set GRPO of 8 at 1e-5 ends at"
        f" {100 * earlier:.1f} % in the earlier series (2 seeds). The best GRPO of the later one"
        f" ends at {100 * later:.1f} % (6 seeds). On the easy set 2-GRPO with 64 rows at 5e-6 ended"
        f" at {100 * pairs:.1f} % (2 seeds), rejection sampling in the later series"
        f" at {100 * alone:.1f} %."
    )


def _a_sixth_seed_was_taken_out(later: Series, found: Claims) -> str:
    # The sixth run made many more steps: the machine was emptier.
    emptier = []
    for method, runs in later.by_method.items():
        if len(runs) == _COUNTED + 1:
            steps = [run["curve"]["steps"][-1] for run in runs]
            emptier.append(f"`{method}` {steps[-1] / fmean(steps[:-1]):.1f}")
    return (
        f"2. **A sixth seed was taken out.** On the easy set the ratio is"
        f" {found.easy.ratio:.2f}x without it and {found.easy_with_the_sixth_seed.ratio:.2f}x with"
        f" it. Steps of that seed over those of the others: {', '.join(emptier)}."
    )


def _rates_were_not_tuned_alike() -> str:
    """How many variants of GRPO had how many learning rates, on each set."""
    of_sets = []
    for name in SETS:
        screened = _read_tried(name, "screening")
        tuned = _read_tried(name, "tuning")
        variants = [method for method in screened if method.startswith("grpo")]
        only_screened = [method for method in variants if method not in tuned]
        rates = max(len(screened[method]) for method in only_screened)
        of_sets.append(
            f"{name}: {len(only_screened)} of {len(variants)} variants of GRPO had {rates} rates"
        )

    was_tuned = "was" if _PAIRS in _read_tried("hard", "tuning") else "was not"
    return (
        f"3. **Rates were not tuned alike.** {'; '.join(of_sets)}, one seed and a third of the"
        f" time. The reference of the hard set {was_tuned} tuned there."
    )


def _read_tried(name: str, stage: str) -> dict[str, Any]:
    """The accuracies of "screening" or "tuning" on a set, by method and learning rate."""
    file = METHODS / f"gpu-{name}" / f"{stage}.json"
    return dict(json.loads(file.read_text(encoding="utf-8")))


def _budgets_differed(hard: GpuSet, found: Claims) -> str:
    pairs = curves(_PAIRS, hard.earlier.by_method[_PAIRS])
    alone = curves(_ALONE, hard.later.by_method[_ALONE])
    cut_to_equal_times = speed_up(*equally_long(pairs, alone))

    earlier_rate = hard.earlier.by_method[_ALONE][0]["learning_rate"]
    later_rate = hard.later.by_method[_ALONE][0]["learning_rate"]
    return (
        "4. **Different budgets on the hard set**: the two series lasted"
        f" {hard.earlier.seconds:.0f} and {hard.later.seconds:.0f} s. Within the earlier one"
        f" rejection sampling is {found.hard_within_the_earlier_series.ratio:.2f}x as fast. Cut to"
        f" equal times, the later one at {later_rate:g} is {with_interval(cut_to_equal_times)}; so"
        " its rate counts more than its budget. In the earlier series it had"
        f" {earlier_rate:g}."
    )


def _the_reference_was_chosen_by_another_measure(easy: Series) -> str:
    best = easy.best_grpo() or ""
    highest = max(("grpo-8", _PAIRS), key=easy.end)
    return (
        "5. **The reference was chosen by the mean over the run, and shown by its end.** On the"
        f" easy set `{best}` has most over the run ({100 * easy.over_run(best):.1f} %) and ends"
        f" at {100 * easy.end(best):.1f} %; `{highest}` ends at {100 * easy.end(highest):.1f} %."
    )


def questions() -> list[str]:
    """The table of how many different test questions the sets for the pretrained model have."""
    rows = []
    for name in SETS:
        asked = Answers(kinds_of(name), test_size=_TEST_QUESTIONS).load("test")
        frequencies = np.array(list(Counter(row["question"] for row in asked).values()))

        # A question that is asked k times counts k times in the mean, with one and the same answer.
        deviation = 0.5 * np.sqrt(np.sum(frequencies**2)) / len(asked)
        known_to = f"±{100 * deviation:.1f} points"
        rows.append([name, str(len(asked)), str(len(frequencies)), known_to])
    return table(["set", "test questions", "different ones", "known to, at 50 % right"], rows)
