"""The table of costs and worths, and which number of rollouts pays most."""

from collections.abc import Sequence
from typing import NamedTuple

from podslab.columns import aligned
from podslab.durations import duration
from podslab.recommend.known_worth import AUTHORS, YOURS, Known, KnownWorth
from podslab.recommend.measured_steps import GRPO, MeasuredStep, MeasuredSteps
from podslab.report.summary import UNKNOWN, memory
from podslab.statistics.worth import Ratio
from podsrl.errors import listed

_AUTHORS_TASK = (
    "authors': on GSM8K with Qwen2.5-3B-Instruct, 16 rows of a prompt (arXiv 2504.13818). Your task"
    " may differ:\n    `pods compare` with your script and the same --output_dir measures it, also"
    " on a small machine."
)


class _Choice(NamedTuple):
    """A size that may pay: its step, what it is worth over what it costs, and whose worth."""

    step: MeasuredStep
    gain: Ratio
    whose: str


def answer(measured: MeasuredSteps, known: Known) -> str:
    """The answer in words: the seconds of steps, their worth, and the one that pays most.

    Args:
        measured: Steps of several sizes, among them one of GRPO.
        known: The worth of a step by method and n/m.
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
            "No step of GRPO is among them, so costs are unknown: a cost is a multiple of its time."
            " Add a run that trains on all rollouts, or let `pods recommend` run your script."
        )
        return "\n".join(lines)

    if _rows_differ(measured):
        lines.append("The steps have different numbers of rows, so their costs can't be compared.")
    if all(step.method == GRPO for step in measured.steps if step.steps):
        lines += _bounds(measured.grpo, known)
    else:
        lines += _which_pays(_choices(measured, known), measured.grpo)
    whose = {one.whose for one in known.values()}
    if YOURS in whose:
        lines.append("yours: measured by pods compare in this folder. Only these are compared.")
    if AUTHORS in whose:
        lines.append(_AUTHORS_TASK)
    return "\n".join(lines)


def _rows_differ(measured: MeasuredSteps) -> bool:
    """Whether steps of other methods have another number of rows than that of GRPO."""
    rows = {step.rows for step in measured.steps if step.method != GRPO and step.steps}
    of_grpo = measured.grpo.rows if measured.grpo else None
    return of_grpo is not None and bool(rows - {of_grpo, None})


def _table(measured: MeasuredSteps, known: Known) -> str:
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

        row = [_name(step, grpo), _sizes(step)]
        row += [_seconds(step, phase) for phase in phases]
        row += [duration(step.total), cost, memory(step.peak_memory), worth, gain]
        rows.append(row)
    return aligned(rows, numbers=True)


def _name(step: MeasuredStep, grpo: MeasuredStep | None) -> str:
    """The method, with the rollouts of a prompt that are generated."""
    if step.method != GRPO:
        return f"{step.method}, n = {step.rollouts_per_row:.3g} m"
    if grpo is None or step.rows is None or grpo.rows is None or step.rows == grpo.rows:
        return "grpo, n = m"
    return f"grpo, all of n = {step.rows / grpo.rows:.3g} m"


def _sizes(step: MeasuredStep) -> str:
    if step.rows is None:
        return UNKNOWN
    return f"{step.rows * step.rollouts_per_row:.0f} → {step.rows:.0f}"


def _seconds(step: MeasuredStep, phase: str) -> str:
    return duration(step.seconds[phase]) if step.seconds.get(phase) else UNKNOWN


def _worth_of(step: MeasuredStep, known: Known) -> KnownWorth | None:
    return known.get((step.method, step.rollouts_per_row))


def _with_worth(measured: MeasuredSteps, known: Known) -> list[MeasuredStep]:
    return [step for step in measured.steps if step.steps and _worth_of(step, known)]


def over_cost(worth: Ratio, cost: float) -> Ratio:
    """A worth over a cost, whose own error is small beside that of the worth."""
    ends = [end if end is None else end / cost for end in (worth.low, worth.high)]
    return Ratio(worth.value / cost, *ends)


def _bounds(grpo: MeasuredStep, known: Known) -> list[str]:
    """The bounds for sizes that were not measured, from a step of GRPO alone.

    A part of generating takes as long for any number of rollouts, and a part is of each; one step
    can't tell them apart. So a step with n = k m takes at least as long as one of GRPO, and at most
    (k g + u) / (g + u) times as long, with g the seconds before the update, and u those of it.
    """
    before_update = sum(grpo.seconds.get(phase, 0.0) for phase in ("generate", "score", "select"))
    if not before_update:
        return ["Its log does not tell generating from updating: add a run with n = 4 m."]

    rows = [["", "cost, at least", "at most", "worth", "worth / cost, at least", "at most"]]
    for (method, size), worth in sorted(known.items()):
        if method != "pods":
            continue
        most = ((size - 1) * before_update + grpo.total) / grpo.total
        value = worth.ratio.value
        cells = ["1.00", f"{most:.2f}", f"{worth.ratio} {worth.whose}"]
        rows.append([f"pods, n = {size:.3g} m", *cells, f"{value / most:.2f}", f"{value:.2f}"])
    return [
        "Only GRPO was measured. The cost of another size lies between two extremes: further"
        " rollouts take no time, or each takes as long as here.",
        "",
        aligned(rows, numbers=True),
        "",
        "`pods recommend train.py` measures them.",
    ]


def _choices(measured: MeasuredSteps, known: Known) -> list[_Choice]:
    """The sizes whose worth is known, the best first.

    If any was measured on the user's task, those alone: worths of two tasks are not compared.
    """
    grpo = measured.grpo
    found = []
    for step in _with_worth(measured, known):
        worth = _worth_of(step, known)
        if grpo is not None and worth is not None:
            found.append(_Choice(step, over_cost(worth.ratio, step.cost(grpo)), worth.whose))
    yours = [choice for choice in found if choice.whose == YOURS]
    return sorted(yours or found, key=lambda choice: -choice.gain.value)


def _which_pays(choices: Sequence[_Choice], grpo: MeasuredStep) -> list[str]:
    """The size that pays most, or that none does."""
    if not choices:
        return ["The worth of these sizes is unknown, so only their costs stand here."]

    best = choices[0]
    of_each = _name(best.step, grpo)
    said = (
        f"a step is worth {best.gain.value * best.step.cost(grpo):.2f} steps of GRPO and takes"
        f" {best.step.cost(grpo):.2f} times as long"
    )
    if best.gain.value <= 1:
        return [f"No size is shown to pay: stay with GRPO. The best is {of_each}: {said}."]

    lines = [f"{of_each} pays most: {said}, so it is {best.gain} times as good as GRPO."]
    if best.gain.low is None or best.gain.low <= 1:
        lines.append("But its interval contains 1, so it may not pay at all.")
    alike = [
        _name(choice.step, grpo)
        for choice in choices[1:]
        if choice.gain.high is None or choice.gain.high >= best.gain.value
    ]
    if alike:
        lines.append(f"These may pay as much: {listed(alike)}.")
    return lines
