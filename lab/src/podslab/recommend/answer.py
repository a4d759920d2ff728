"""The table of costs and worths, and which number of rollouts pays most."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from podslab.columns import aligned
from podslab.durations import duration
from podslab.recommend.known_worth import KnownWorth
from podslab.recommend.measured_steps import MeasuredStep, MeasuredSteps
from podslab.report.summary import UNKNOWN, memory
from podslab.statistics.worth import Ratio

_AUTHORS_TASK = (
    "authors': of a step with 16 rows of a prompt, on GSM8K with Qwen2.5-3B-Instruct"
    " (arXiv 2504.13818; results/worth.md of podsrl). Yours may differ: pods compare train.py"
    " measures it, on a small machine as well, and in the same folder."
)


class _Choice(NamedTuple):
    """A size that may pay: its step, what it is worth over what it costs, and whose worth."""

    step: MeasuredStep
    gain: Ratio
    whose: str


def answer(measured: MeasuredSteps, known: Mapping[float, KnownWorth]) -> str:
    """What steps take, what they are worth, and which pays most.

    Args:
        measured: Steps of several sizes, among them one of GRPO.
        known: The worth of a step of PODS by n/m.
    """
    where = f" on {measured.machine}" if measured.machine else ""
    steps = max((step.steps for step in measured.steps), default=0)
    lines = [
        f"{measured.of}{where}: seconds of a step, the mean of {steps}",
        "",
        _table(measured, known),
        "",
    ]
    for step in measured.steps:
        if step.problem:
            lines.append(f"{_name(step, measured.grpo)} could not be run: {step.problem}")

    if measured.grpo is None:
        lines.append(
            "No step of GRPO is among them, in which all rollouts are trained on, so costs are not"
            " known: add a run of it, or let `pods recommend train.py` measure both"
        )
        return "\n".join(lines)

    if len({step.rows for step in measured.steps if not step.trains_on_all} - {measured.grpo.rows}):
        lines.append("Rows of a step differ, so that costs are of steps of different sizes.")
    if all(step.trains_on_all for step in measured.steps if step.steps):
        lines += _bounds(measured.grpo, known)
    else:
        lines += _which_pays(_choices(measured, known), measured.grpo)
    whose = {one.whose for one in known.values()}
    if "yours" in whose:
        lines.append("yours: measured by pods compare, in this folder.")
    if "authors'" in whose:
        lines.append(_AUTHORS_TASK)
    return "\n".join(lines)


def _table(measured: MeasuredSteps, known: Mapping[float, KnownWorth]) -> str:
    """A line for each size; GRPO's step is 1."""
    phases = list(dict.fromkeys(phase for step in measured.steps for phase in step.seconds))
    heads = ["", "rollouts → rows", *phases, "step", "cost", "memory", "worth", "worth / cost"]
    rows = [heads]
    grpo = measured.grpo
    for step in measured.steps:
        if not step.steps:
            continue
        cost = worth = gain = ""
        if grpo is not None:
            cost = f"{step.cost(grpo):.2f}"
            if found := _worth_of(step, known):
                worth = f"{found.ratio} {found.whose}"
                gain = str(over_cost(found.ratio, step.cost(grpo)))
            elif step is not grpo:
                worth = f"pays above {cost}"
        rows.append(
            [
                _name(step, grpo),
                _sizes(step),
                *(_seconds(step, phase) for phase in phases),
                duration(step.total),
                cost,
                memory(step.peak_memory),
                worth,
                gain,
            ]
        )
    return aligned(rows, numbers=True)


def _name(step: MeasuredStep, grpo: MeasuredStep | None) -> str:
    """How many rollouts of a prompt are generated, and whether all are trained on."""
    if not step.trains_on_all:
        return f"n = {step.rollouts_per_row:.3g} m"
    if grpo is None or step.rows is None or grpo.rows is None or step.rows == grpo.rows:
        return "n = m, GRPO"
    return f"n = {step.rows / grpo.rows:.3g} m, all rows"


def _sizes(step: MeasuredStep) -> str:
    if step.rows is None:
        return UNKNOWN
    return f"{step.rows * step.rollouts_per_row:.0f} → {step.rows:.0f}"


def _seconds(step: MeasuredStep, phase: str) -> str:
    return duration(step.seconds[phase]) if step.seconds.get(phase) else UNKNOWN


def _worth_of(step: MeasuredStep, known: Mapping[float, KnownWorth]) -> KnownWorth | None:
    return None if step.trains_on_all else known.get(step.rollouts_per_row)


def _with_worth(measured: MeasuredSteps, known: Mapping[float, KnownWorth]) -> list[MeasuredStep]:
    return [step for step in measured.steps if step.steps and _worth_of(step, known)]


def over_cost(worth: Ratio, cost: float) -> Ratio:
    """A worth over a cost, whose own error is small beside that of the worth."""
    ends = [end if end is None else end / cost for end in (worth.low, worth.high)]
    return Ratio(worth.value / cost, *ends)


def _bounds(grpo: MeasuredStep, known: Mapping[float, KnownWorth]) -> list[str]:
    """What follows for sizes that were not measured, from a step of GRPO alone.

    A part of generating takes as long for any number of rollouts, and a part is of each; one step
    can't tell them apart. So a step with n = k m takes at least as long as one of GRPO, and at most
    (k g + u) / (g + u) times as long, with g the seconds before the update, and u those of it.
    """
    before_update = sum(grpo.seconds.get(phase, 0.0) for phase in ("generate", "score", "select"))
    if not before_update:
        return ["Its log does not tell generating from updating: add a run with n = 4 m."]

    rows = [["", "cost, at least", "at most", "worth", "worth / cost, at least", "at most"]]
    for size, worth in sorted(known.items()):
        most = ((size - 1) * before_update + grpo.total) / grpo.total
        value = worth.ratio.value
        cells = ["1.00", f"{most:.2f}", f"{worth.ratio} {worth.whose}"]
        rows.append([f"n = {size:.3g} m", *cells, f"{value / most:.2f}", f"{value:.2f}"])
    return [
        "Only GRPO was measured. What other sizes cost lies between two extremes: rollouts side by"
        " side cost nothing more, or each as much as here.",
        "",
        aligned(rows, numbers=True),
        "",
        "`pods recommend train.py` measures them.",
    ]


def _choices(measured: MeasuredSteps, known: Mapping[float, KnownWorth]) -> list[_Choice]:
    """The sizes whose worth is known, the best first."""
    grpo = measured.grpo
    found = []
    for step in _with_worth(measured, known):
        worth = _worth_of(step, known)
        if grpo is not None and worth is not None:
            found.append(_Choice(step, over_cost(worth.ratio, step.cost(grpo)), worth.whose))
    return sorted(found, key=lambda choice: -choice.gain.value)


def _which_pays(choices: Sequence[_Choice], grpo: MeasuredStep) -> list[str]:
    """The size that pays most, or that none does."""
    if not choices:
        return ["The worth of none of these sizes is known, so only their costs are told."]

    best = choices[0]
    of_each = _name(best.step, grpo)
    said = (
        f"a step is worth {best.gain.value * best.step.cost(grpo):.2f} steps of GRPO and takes"
        f" {best.step.cost(grpo):.2f} times as long"
    )
    if best.gain.value <= 1:
        return [f"None pays. The nearest is {of_each}: {said}. Stay with GRPO."]

    lines = [f"{of_each} pays most: {said}, so it is {best.gain} times as good as GRPO."]
    if best.gain.low is None or best.gain.low <= 1:
        lines.append("But the interval holds 1: it is open whether it pays at all.")
    return lines
