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
        f"    {costs.rows:.0f} rows a generation, {costs.rollouts_per_row:.1f} rollouts for each,"
        f" {costs.tokens:.0f} tokens a completion, peak memory {memory(costs.peak_memory)};",
        f"    {100 * costs.equal_share:.0f} % of prompts had equal rewards, and taught nothing",
        "",
        "What so many rows take with their rollouts, if all have a pass, lies between two",
        "extremes. Either rollouts that are generated side by side cost nothing more, which is",
        "nearly so on a GPU that is not full; or each costs as much as in this run. What a step",
        "teaches is not in it.",
        "",
        *_steps(costs),
    ]
    if seconds is not None:
        lines.append(_within(costs, seconds))
    lines += [
        "",
        our_advice_in_words(),
        "",
        "No line knows your task. What pays on it is measured by: pods compare train.py",
    ]
    return "\n".join(lines)


def _steps(costs: Costs) -> list[str]:
    """Seconds of a step by rollouts per row, beside GRPO's."""
    lines = [f"    {'':<12}  {'nothing more':<24}each costs as much"]
    for per_row in _SIZES:
        name = "n = m, GRPO" if per_row == 1 else f"n = {per_row} m"
        free, in_proportion = map(duration, costs.seconds(per_row))
        if per_row > 1:
            free += " (1.0 of GRPO's)"
            in_proportion += f" ({costs.beside_grpo(per_row):.1f} of GRPO's)"
        lines.append(f"    {name:<12}  {free:<24}{in_proportion}")
    return lines


def _within(costs: Costs, seconds: float) -> str:
    """The most rollouts within a wish, if each costs as much as in the run."""
    per_row = (seconds / costs.rows - costs.row) / costs.rollout
    if per_row < 1:
        return f"    within {duration(seconds)} not even GRPO's rollouts fit: fewer rows"
    return f"    within {duration(seconds)}: n up to {per_row:.1f} m if each costs as much, or more"
