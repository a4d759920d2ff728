"""Three lines that say what to try, by what generating and updating cost.

How well the middle line did where it was measured, and that it was written afterwards, stands in
results/foreseen.md.
"""

from dataclasses import dataclass

from podslab.durations import duration
from podslab.recommend.costs_of_runs import Costs
from podslab.recommend.our_comparison import our_advice_in_words
from podslab.report.summary import memory
from podsrl.methods import METHODS

#: From here on generating a rollout takes as long as updating on a row.
_GENERATING_DOMINATES = 1.0


@dataclass(frozen=True)
class Line:
    """A line of the table.

    Args:
        when: What holds of the costs.
        do: What to try.
        method: The method to paste; None for GRPO, as it is.
        because: Why.
    """

    when: str
    do: str
    method: str | None
    because: str


#: By g/u, the time to generate a rollout over that to update on a row.
LINES = (
    Line(
        when="g/u of 1 or more",
        do="GRPO, as it is; make generation faster first (vLLM)",
        method=None,
        because="dropped rollouts cost as much as trained rows",
    ),
    Line(
        when="g/u below 1, and prompts enough",
        do="max_contrast: 4 rollouts of each prompt, as many prompts as rows",
        method="max_contrast",
        because="more prompts of the same rows taught more in our small runs",
    ),
    Line(
        when="g/u below 1, and few prompts",
        do="PODS: n = 4 m, the paper's method",
        method="pods",
        because="more rollouts of a prompt find both kinds of answers",
    ),
)


def line_for_ratio(ratio: float) -> Line:
    """The line that holds for this g/u, where prompts are enough."""
    return LINES[0] if ratio >= _GENERATING_DOMINATES else LINES[1]


def advice_in_words(costs: Costs, seconds: float | None) -> str:
    """What was measured of costs, the table, and what a step would take.

    Args:
        costs: Of the user's runs.
        seconds: A step may take this long; None where there is no wish.
    """
    chosen = line_for_ratio(costs.ratio)
    lines = [
        f"measured over {costs.steps} steps: generating a rollout {duration(costs.rollout)} (g),"
        f" updating on a row {duration(costs.row)} (u), g/u {costs.ratio:.2g};",
        f"    {costs.rows:.0f} rows a step, {costs.tokens:.0f} tokens a completion, peak memory"
        f" {memory(costs.peak_memory)}; {100 * costs.equal_share:.0f} % of prompts had equal"
        " rewards, and taught nothing",
        "",
    ]

    for line in LINES:
        mark = "→" if line is chosen else " "
        lines.append(f"{mark} {line.when:<32}{line.do}: {line.because}")

    lines += [
        "",
        "A step of so many rows, by g and u, all rows passed (a prediction of seconds, not of what"
        " is learned):",
        *_steps(costs, seconds),
        "g is that of this run's batch. Of more rollouts, generated side by side, each usually",
        "costs less, so that a larger n may take less time than this says.",
        "",
    ]
    if chosen.method is not None:
        method = METHODS[chosen.method]
        lines.append(
            f'To try: PODSConfig(..., method="{chosen.method}"), {method.num_rollouts} rollouts for'
            f" {method.num_kept} row"
        )
        lines.append("")
    lines += [our_advice_in_words(), ""]
    lines.append("No line knows your task. What pays on it is measured by: pods compare train.py")

    return "\n".join(lines)


def _steps(costs: Costs, seconds: float | None) -> list[str]:
    """Seconds of a step by rollouts per row, and the most rollouts within a wish."""
    as_grpo = costs.seconds(1.0)
    lines = []
    for per_row in (1, 2, 4, 8):
        name = "n = m, GRPO" if per_row == 1 else f"n = {per_row} m"
        total = costs.seconds(per_row)
        lines.append(f"    {name:<12} {duration(total):>9}   {total / as_grpo:.2f} of GRPO's")

    if seconds is not None:
        per_row_within = (seconds / costs.rows - costs.row) / costs.rollout
        if per_row_within < 1:
            lines.append(f"    within {duration(seconds)} not even GRPO's rollouts fit: fewer rows")
        else:
            lines.append(f"    within {duration(seconds)}: n up to {per_row_within:.1f} m")
    return lines
