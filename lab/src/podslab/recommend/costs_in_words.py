"""What the costs of saved runs say: seconds of other steps, and whom to ask what pays."""

from podslab.durations import duration
from podslab.recommend.costs_of_runs import Costs
from podslab.recommend.our_comparison import our_advice_in_words
from podslab.report.summary import memory

#: Rollouts per row, GRPO first.
_SIZES = (1, 2, 4, 8)


def costs_in_words(costs: Costs, seconds: float | None) -> str:
    """What was measured, what other steps would take, and what our comparison advises.

    Args:
        costs: Of the user's runs.
        seconds: A step may take this long; None where there is no wish.
    """
    lines = [
        f"measured over {costs.steps} steps: generating a rollout {duration(costs.rollout)} (g),"
        f" updating on a row {duration(costs.row)} (u), g/u {costs.ratio:.2g};",
        f"    {costs.rows:.0f} rows a step, {costs.rollouts_per_row:.1f} rollouts for each,"
        f" {costs.tokens:.0f} tokens a completion, peak memory {memory(costs.peak_memory)};",
        f"    {100 * costs.equal_share:.0f} % of prompts had equal rewards, and taught nothing",
        "",
        "What a step of so many rows takes, if all have a pass:",
        *_steps(costs),
    ]
    if seconds is not None:
        lines.append(_within(costs, seconds))
    lines += [
        "The first number holds where rollouts that are generated side by side cost nothing more,",
        "as nearly with vLLM on a GPU that is not full, and the second where each costs as much as",
        "in this run. What a step teaches is not in it.",
        "",
        our_advice_in_words(),
        "",
        "No line knows your task. What pays on it is measured by: pods compare train.py",
    ]
    return "\n".join(lines)


def _steps(costs: Costs) -> list[str]:
    """Seconds of a step by rollouts per row, beside GRPO's."""
    lines = []
    for per_row in _SIZES:
        name = "n = m, GRPO" if per_row == 1 else f"n = {per_row} m"
        least, most = costs.seconds(per_row)
        of_grpo = costs.beside_grpo(per_row)
        times = duration(least) if least == most else f"{duration(least)} to {duration(most)}"
        beside = "" if per_row == 1 else f"1.0 to {of_grpo:.1f} times as long as GRPO"
        lines.append(f"    {name:<12} {times:<20} {beside}".rstrip())
    return lines


def _within(costs: Costs, seconds: float) -> str:
    """The most rollouts within a wish, if each costs as much as in the run."""
    per_row = (seconds / costs.rows - costs.row) / costs.rollout
    if per_row < 1:
        return f"    within {duration(seconds)} not even GRPO's rollouts fit: fewer rows"
    return f"    within {duration(seconds)}: n up to {per_row:.1f} m, or more (see below)"
