"""results/rows.md: the page of `benchmarks.evidence.rows`, from what was measured alone."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.evidence.harness import RESULTS, mean_and_spread, with_interval
from benchmarks.evidence.rows_settings import AUTHORS, ROWS, SEEDS, SETTINGS, WORDS
from benchmarks.evidence.tuning import best
from podslab.report import summary as words
from podslab.report.statistics import Speedup


def page(found: Mapping[str, Any]) -> str:
    """The whole page, from what `measure` gave of each setting; those not run are named."""
    missing = [name for name in ROWS if name not in found]
    parts = [
        "# Where to spend the rows of an update, measured\n",
        "> Conditions: a model of 0.8 million parameters that knows its tasks before training and"
        " becomes surer, two CPU cores, rates tuned on two seeds. Only [sums over the"
        " runs](rows.json) were kept.\n",
        "`python -m benchmarks.evidence.rows`; with `--only condense` this page is written again."
        " Time is processor time of one thread (`training_clock: cpu`). *Times as fast*: to 99 % of"
        " the best mean accuracy of the best GRPO, with the 95 % interval over seeds."
        " *Median over seeds*: of the same ratio of each seed's own runs; one that does not get"
        " there counts as 0. *At the"
        f" authors' costs*: the same curves where generating a rollout takes {AUTHORS.generate:g} s"
        f" and each pass over one {AUTHORS.update:g} s, up to the time that both last; *whole run*:"
        " to 99 % of what that GRPO reaches in all of its time. What it means:"
        " [evidence](../docs/evidence.md).\n",
        "![Speed-up over the best GRPO in every setting](rows.png)\n",
        *(section(name, one) for name, one in found.items()),
        rates_table(found),
    ]
    if missing:
        parts.append(f"Not run so far: {', '.join(missing)}.\n")
    return "\n".join(parts)


def section(name: str, found: Mapping[str, Any]) -> str:
    """One setting: every arm beside the best GRPO, by measured time and at the authors' costs."""
    setting = SETTINGS[name]
    lines = [
        f"## {setting.what[0].upper()}{setting.what[1:]}, {setting.rows} rows per step\n",
        f"`--settings {name}`, {found['seconds']} s a run, {SEEDS} seeds; {found['made']}.\n",
        "| arm | prompts | n → m | learning rate | steps | mean over the run | at the end"
        " | times as fast | median over seeds | at the authors' costs | whole run"
        " | rows that teach nothing |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    columns = [("measured", with_interval), ("measured", words.median)]
    columns += [("at_costs", with_interval), ("at_costs_whole", with_interval)]
    for arm, one in found["arms"].items():
        prompts, n, m = one["sizes"]
        speeds = [_shown(one[clock], show) for clock, show in columns]
        lines.append(
            f"| {WORDS[arm]} | {prompts} | {n} → {m} | {one['learning_rate']:.3g} |"
            f" {one['steps']:.0f} | {mean_and_spread(one['over_run'])} | {one['end']} |"
            f" {' | '.join(speeds)} | {one['filler_share']:.0%} |"
        )
    arms = ", ".join(f"`{arm}` is {WORDS[arm]}" for arm in found["arms"])
    figure = f"rows-{name}.png"  # where the runs are still there to draw it
    drawn = [f"![{found['caption']}]({figure})\n\n*In the figure {arms}.*", ""]
    drawn = drawn if (RESULTS / figure).is_file() else []
    return "\n".join([*lines, "", *answers_table(found), *drawn])


def answers_table(found: Mapping[str, Any]) -> list[str]:
    """By right answers alone, where the measure is another."""
    if not found.get("answers"):
        return []
    return [
        "The numbers above count answers that are right and well formed. By right answers alone:\n",
        "| arm | mean over the run | at the end | times as fast |",
        "|---|---|---|---|",
        *(
            f"| {WORDS[arm]} | {mean_and_spread(one['over_run'])} | {one['end']} |"
            f" {_shown(one['measured'], with_interval)} |"
            for arm, one in sorted(
                found["answers"].items(), key=lambda pair: list(WORDS).index(pair[0])
            )
        ),
        "",
    ]


def _shown(values: Mapping[str, Any] | None, show: Callable[[Speedup], str]) -> str:
    return "reference" if values is None else show(Speedup(**values))


def rates_table(found: Mapping[str, Any]) -> str:
    """What each learning rate gave; the chosen ones stand out."""
    lines = [
        "## Learning rates\n",
        "Mean accuracy over a run of three quarters of the time, on average over seeds that nothing"
        " else uses; the best rate is used.\n",
        "| setting | arm | seeds | tried |",
        "|---|---|---|---|",
    ]
    for name, one in found.items():
        for arm, by_text in one["rates"].items():
            of_arm = {float(rate): accuracies for rate, accuracies in by_text.items()}
            texts = {rate: f"{rate:g}: {np.mean(of_arm[rate]):.1%}" for rate in sorted(of_arm)}
            texts[best(of_arm)] = f"**{texts[best(of_arm)]}**"
            seeds = max(map(len, of_arm.values()))
            lines.append(f"| {name} | {WORDS[arm]} | {seeds} | {', '.join(texts.values())} |")
    return "\n".join([*lines, ""])
