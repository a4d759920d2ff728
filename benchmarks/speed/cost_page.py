"""The page of what selecting costs, and its figure, from the raw file alone."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from benchmarks.markdown import table
from benchmarks.speed.exchange import PHASES
from benchmarks.speed.numbers import slope
from podslab.durations import duration
from podslab.report.drawing import look, render, style
from podsrl.rollout_log.files import write_whole

Raw = Mapping[str, Any]

#: The phases that a step waits for; the log is on disk later, while training goes on.
WAITED = tuple(phase for phase in PHASES if phase != "write")
_HEAD = """# What selecting costs

Between rewards and update podsrl gathers numbers, selects, moves rows and hands rollouts to the
log. Look up your number of rollouts in a step, and of processes. Compare the seconds with those of
your own step: `pods/seconds_generate` and `pods/seconds_update` in its metrics.
"""


def write(raw: Path) -> None:
    """Write the page and the figure beside a raw file."""
    content = json.loads(raw.read_text(encoding="utf-8"))
    write_whole(raw.with_suffix(".png"), render(figure(content), "png"))
    write_whole(raw.with_suffix(".md"), page(content).encode())


def page(raw: Raw) -> str:
    """The text of the page."""
    parts = [
        _HEAD,
        _in_short(raw),
        "![What selecting costs](cost.png)\n",
        _conditions(raw),
        _waited(raw),
        _phases(raw),
        _many(raw),
        _rules(raw),
        _hosts(raw),
    ]
    return "\n".join(part for part in parts if part)


# ---- what is told


def waited(processes: Sequence[Raw]) -> float:
    """The seconds that a step waits: those of the slowest process."""
    seconds = [sum(of["seconds"][phase] for phase in WAITED) for of in processes]
    return max(seconds)


def worked(processes: Sequence[Raw]) -> float:
    """The processor time of knowing, selecting and moving, of the busiest main thread."""
    return _largest(processes, "processor")


def _largest(processes: Sequence[Raw], name: str) -> float:
    return max(of[name] for of in processes)


def _slowest(processes: Sequence[Raw], phase: str) -> float:
    return max(of["seconds"][phase] for of in processes)


def _in_short(raw: Raw) -> str:
    size = raw["size"]
    most = max(of["rollouts"] for of in raw["measured"])
    of_most = {of["world"]: of["processes"] for of in raw["measured"] if of["rollouts"] == most}
    few, many = min(of_most), max(of_most)  # processes
    slopes = [_slope_of(raw, world, worked, _sizes(raw)[-2:]) for world in of_most]
    bytes_of_one = of_most[few][0]["numbers"] * few // most

    lines = [
        f"* **Seconds.** With {most:,} rollouts of {size['tokens']:,} tokens a step waits"
        f" {duration(waited(of_most[few]))} on {_processes(few)}, and"
        f" {duration(waited(of_most[many]))} on {many} that share {raw['environment']['cores']}"
        " cores.",
        f"* **Growth.** From {_sizes(raw)[-2]:,} to {most:,} rollouts processor time grows with a"
        f" slope of {min(slopes):.2f} to {max(slopes):.2f} between logarithms; 1 is in proportion.",
        f"* **Bytes.** A process gives {bytes_of_one} bytes of numbers for each of its rollouts"
        " to all others, and sends the rollouts that another process trains on. The first process"
        " also tells which are kept, a byte for each. Nothing else that is sent grows with"
        " rollouts.",
    ]
    return "\n".join(lines) + "\n"


def _conditions(raw: Raw) -> str:
    size = raw["size"]
    return (
        f"**Conditions.** `nox -s bench`; {_machine(raw['environment'])}. The load was"
        f" {_load(raw['load']['before'])} before and {_load(raw['load']['after'])} after, of which"
        " one is a busy core. More processes than cores share the cores, so that their seconds"
        " hold waiting for each other. Processor time does not hold it, nor what gloo's threads"
        " send and receive. Processes are real, with gloo; NCCL is not measured."
        f" {size['tokens']:,} tokens in each completion, and log-probs;"
        f" {size['num_kept']} of {size['num_rollouts']} kept on average by `{size['rule']}`."
        " Prompts of later processes are harder, so that rows must move. Medians over"
        f" {size['generations']} generations, after one that does not count; of the slowest"
        " process.\n"
    )


def _machine(environment: Raw) -> str:
    commit = environment["git"]["commit"][:12] if environment["git"] else "none"
    names = ("podsrl", "torch", "trl", "verl", "numpy")
    known = environment["versions"]
    versions = ", ".join(f"{name} {known[name]}" for name in names if name in known)
    return (
        f"{environment['started'][:10]}, commit {commit}, {environment['cpu']},"
        f" {environment['cores']} cores, Python {environment['python']}, {versions}"
    )


def _load(load: Sequence[float]) -> str:
    return f"{load[0]:.1f}"


def _waited(raw: Raw) -> str:
    lines = [
        "## Seconds by rollouts and processes",
        "",
        "Seconds that a step waits:",
        "",
        *_by_size(raw, waited),
        "",
        "Processor time of knowing, selecting and moving, of the busiest process's main thread:",
        "",
        *_by_size(raw, worked),
        "",
    ]
    return "\n".join(lines)


def _by_size(raw: Raw, value: Callable[[Sequence[Raw]], float]) -> list[str]:
    """A table of seconds: a row for each number of rollouts, a column for each of processes."""
    worlds = _worlds(raw)
    sizes = _sizes(raw)

    rows = []
    for rollouts in sizes:
        seconds = [value(_found(raw, world, rollouts)) for world in worlds]
        rows.append([f"{rollouts:,}", *map(duration, seconds)])

    for name, chosen in (("slope", sizes), ("slope of the last two", sizes[-2:])):
        slopes = [_slope_of(raw, world, value, chosen) for world in worlds]
        rows.append([name, *(f"{found:.2f}" for found in slopes)])

    heads = ["rollouts", *map(_processes, worlds)]
    return table(heads, rows, align_right=True)


def _phases(raw: Raw) -> str:
    heads = [
        "rollouts on processes",
        *PHASES,
        "numbers",
        "moved",
        "rows moved",
        "on the wire",
        "memory",
    ]
    notes = (
        "Each column has the largest number of any process. *know*: gather the numbers of all"
        " rollouts. *select*: choose, and compute advantages. *move*: bring kept rows to the"
        " process that trains on them. *log*: hand the rollouts to the log. *write*: until they are"
        " on disk, which training does not wait for. *numbers*, *moved*: what a process gives to"
        " all others, and to the one that trains on it. *rows moved*, *on the wire*: of all"
        " processes together, the second with what gloo adds. *memory*: how far the largest"
        " resident memory of a process rose, in any generation."
    )

    rows = []
    for of in raw["measured"]:
        processes = of["processes"]
        any_process = processes[0]  # what is of all processes together, each of them has
        rows.append(
            [
                f"{of['rollouts']:,} on {of['world']}",
                *(duration(_slowest(processes, phase)) for phase in PHASES),
                _bytes(_largest(processes, "numbers")),
                _bytes(_largest(processes, "moved")),
                f"{any_process['rows_moved']:,}",
                _bytes(any_process["on_the_wire"]),
                _bytes(_largest(processes, "memory")),
            ]
        )

    return _table_with_notes("By phase", notes, heads, rows)


def _many(raw: Raw) -> str:
    heads = [
        "processes",
        "rollouts",
        "of each",
        "numbers",
        "moved, median process",
        "moved, largest",
        "moved by all",
        "others",
    ]
    notes = (
        "What a process gives to the collectives, counted by going through the trainer's own code"
        " for one process after the other, without sending. Where the same size was measured"
        " above, the counts are the same. *others*: names of columns, 8 bytes for each process,"
        " and of the first process which rollouts are kept. Every process receives the numbers of"
        " all rollouts. A transport may send them through other processes."
    )

    # First come the processes that share as many rollouts as were measured at most.
    most = max(_sizes(raw))
    in_order = sorted(raw["simulated"], key=lambda of: (of["rollouts"] != most, of["world"]))
    rows = []
    for of in in_order:
        rows.append(
            [
                f"{of['world']:,}",
                f"{of['rollouts']:,}",
                f"{of['rollouts'] // of['world']:,}",
                _bytes(of["numbers"]),
                _bytes(of["moved_median"]),
                _bytes(of["moved_most"]),
                _bytes(of["moved_by_all"]),
                _bytes(of["others"]),
            ]
        )

    return _table_with_notes("Bytes of many processes", notes, heads, rows)


def _rules(raw: Raw) -> str:
    slopes = [
        f"`{rule}` {slope_of_rule(raw, rule):.2f}" for rule in ("max_variance", "max_contrast")
    ]
    notes = (
        "Processor time of one thread for all prompts, the median of a few calls; a quarter of the"
        f" rollouts is kept. Slopes, over prompts of {_usual_n(raw)} rollouts: {', '.join(slopes)}."
    )

    rows = []
    for of in raw["rules"]:
        rows.append(
            [
                f"{of['prompts']:,} x {of['n']}",
                of["rewards"],
                duration(of["max_variance"]),
                duration(of["max_contrast"]),
                f"{of['max_contrast'] / of['max_variance']:.1f}",
            ]
        )

    heads = ["prompts x n", "rewards", "max_variance", "max_contrast", "ratio"]
    return _table_with_notes("Rules", notes, heads, rows)


def _table_with_notes(
    title: str, notes: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    return "\n".join([f"## {title}", "", notes, "", *table(heads, rows, align_right=True), ""])


def _hosts(raw: Raw) -> str:
    lines = ["## verl and slime", ""]
    for host, what in _MEASURED_OF_HOSTS.items():
        if host in raw:
            lines += _host(raw[host], what)
        for name in sorted(raw, key=len):
            if re.fullmatch(rf"{host}_\d+", name):
                lines += _host(raw[name], f"{host} with longer responses:")
    if "verl_balance" in raw:
        lines += _balance(raw["verl_balance"])
    return "\n".join(lines)


def _balance(balance: Raw) -> list[str]:
    """The simulated balance of ranks in mini-batches."""
    note = (
        "How long the slowest rank of verl takes beside the mean, summed over the mini-batches of a"
        " step; 1 is even. verl balances the whole batch, and podsrl each mini-batch, where passes"
        " can be spared. Simulated with verl's own count of work, for rows of 528 to"
        f" {balance['longest']:,} tokens; `python -m benchmarks.speed.balance`."
    )
    rows = []
    for of in balance["measured"]:
        sizes = [f"{of[name]:,}" for name in ("ranks", "mini_batches", "rows")]
        slowest = [f"{of[name]:.2f}" for name in ("verl", "podsrl")]
        rows.append([*sizes, *slowest, duration(of["seconds"])])
    heads = ["ranks", "mini-batches", "rows", "verl", "podsrl", "processor time of the driver"]
    return [note, "", *table(heads, rows, align_right=True), ""]


_MEASURED_OF_HOSTS = {
    "verl": "verl's driver with a real TransferQueue on a local Ray, `nox -s hosts`:"
    " *select* fetches rewards from the queue and selects, *drop* clears dropped rows"
    " there, *metrics* computes what is logged of the rollouts, *advantages* writes those of"
    " `baseline=group` to it. *processor*: the driver's processor time of all that, with verl's own"
    " balancing of rows.",
    "slime": "podsrl's two functions for slime on stand-ins of its samples, in processor time;"
    " slime itself was not installed.",
}


def _host(of_host: Raw, what: str) -> list[str]:
    """The measurements of a host, and their conditions."""
    note = (
        f"{what} {of_host['m']} of {of_host['n']} kept, responses of {of_host['tokens']}"
        f" tokens, medians of {of_host['repeats']}, load {_load(of_host['load'])};"
        f" {_machine(of_host['environment'])}."
    )
    measured = of_host["measured"]
    phases = list(measured[0]["seconds"])

    rows = []
    for of in measured:
        seconds = [duration(of["seconds"][phase]) for phase in phases]
        rows.append([f"{of['rows']:,}", *seconds, _bytes(of["memory"])])

    slopes = [f"{slope_of_host(of_host, phase):.2f}" for phase in phases]
    rows.append(["slope", *slopes, ""])

    heads = ["rows", *phases, "memory of the driver"]
    return [note, "", *table(heads, rows, align_right=True), ""]


# ---- what is drawn


def figure(raw: Raw) -> Figure:
    """Seconds, phases, memory, bytes, rules and hosts, a panel for each."""
    with style():
        drawn = Figure(figsize=(12.0, 7.0), layout="constrained")
        panels = drawn.subplots(2, 3)
        draws = (_draw_seconds, _draw_phases, _draw_memory, _draw_bytes, _draw_rules, _draw_hosts)
        for axes, draw in zip(panels.flat, draws, strict=True):
            draw(axes, raw)
    return drawn


def _draw_seconds(axes: Axes, raw: Raw) -> None:
    for number, world in enumerate(_worlds(raw)):
        seconds = [waited(_found(raw, world, rollouts)) for rollouts in _sizes(raw)]
        label = f"{_processes(world)}, slope {_slope_of(raw, world, waited, _sizes(raw)):.2f}"
        _line(axes, number, _sizes(raw), seconds, label)
    _finish(axes, "A step waits", "rollouts of all processes", "seconds")


def _draw_phases(axes: Axes, raw: Raw) -> None:
    worlds = _worlds(raw)
    names = [str(world) for world in worlds]
    most = max(_sizes(raw))
    measured = [_found(raw, world, most) for world in worlds]

    # Each phase stands on those before it.
    below = [0.0] * len(worlds)
    for number, phase in enumerate(WAITED):
        seconds = [_slowest(processes, phase) for processes in measured]
        axes.bar(names, seconds, bottom=below, color=look(number).color, label=phase)
        below = [before + more for before, more in zip(below, seconds, strict=True)]

    axes.set_title(f"Phases of {most:,} rollouts")
    axes.set_xlabel("processes")
    axes.set_ylabel("seconds")
    axes.set_ylim(top=1.2 * max(below))  # room for the legend
    axes.legend(fontsize=8, ncols=len(WAITED))


def _draw_memory(axes: Axes, raw: Raw) -> None:
    for number, world in enumerate(_worlds(raw)):
        found = [_found(raw, world, rollouts) for rollouts in _sizes(raw)]
        memory = [_largest(processes, "memory") / 1e6 for processes in found]
        own = [rollouts // world for rollouts in _sizes(raw)]
        _line(axes, number, own, memory, _processes(world))
    _finish(axes, "Memory of a process", "its own rollouts", "MB")


def _draw_bytes(axes: Axes, raw: Raw) -> None:
    total = max(_sizes(raw))
    each = raw["by_process"]
    counted = {
        f"{total:,} rollouts": [of for of in raw["simulated"] if of["rollouts"] == total],
        f"{each:,} of each process": [
            of for of in raw["simulated"] if of["rollouts"] == each * of["world"]
        ],
    }
    for number, (label, sizes) in enumerate(counted.items()):
        worlds = [of["world"] for of in sizes]
        sent = [of["numbers"] + of["moved_most"] + of["others"] for of in sizes]
        _line(axes, number, worlds, sent, label)

    several = [world for world in _worlds(raw) if world > 1]
    measured = []
    for world in several:
        processes = _found(raw, world, total)
        measured.append(max(of["numbers"] + of["moved"] for of in processes))
    axes.scatter(several, measured, color="k", zorder=3, label="measured")

    _finish(axes, "What a process sends, at most", "processes", "bytes")


def _draw_rules(axes: Axes, raw: Raw) -> None:
    for number, rule in enumerate(("max_variance", "max_contrast")):
        rollouts, seconds = _of_rule(raw, rule)
        axes.scatter(rollouts, seconds, s=14, color=look(number).color)

        # The line goes through the means over all kinds of rewards.
        by_size: dict[float, list[float]] = {size: [] for size in rollouts}
        for size, of_one_kind in zip(rollouts, seconds, strict=True):
            by_size[size].append(of_one_kind)
        means = [sum(of_kinds) / len(of_kinds) for of_kinds in by_size.values()]
        label = f"{rule}, slope {slope_of_rule(raw, rule):.2f}"
        _line(axes, number, list(by_size), means, label)

    _finish(axes, f"Rules, {_usual_n(raw)} rollouts a prompt", "rollouts", "seconds")


def _draw_hosts(axes: Axes, raw: Raw) -> None:
    number = 0
    for host in [name for name in ("verl", "slime") if name in raw]:
        of_host = raw[host]
        for phase in of_host["measured"][0]["seconds"]:
            rows = [of["rows"] for of in of_host["measured"]]
            seconds = [of["seconds"][phase] for of in of_host["measured"]]
            label = f"{host}: {phase}, {slope_of_host(of_host, phase):.2f}"
            _line(axes, number, rows, seconds, label)
            number += 1
    _finish(axes, "verl and slime, with slopes", "rollouts", "seconds")
    axes.set_ylim(bottom=axes.get_ylim()[0] / 100)  # room for the legend
    axes.legend(fontsize=7, ncols=2, loc="lower center", columnspacing=0.8, handlelength=1.5)


def _line(axes: Axes, number: int, xs: Sequence[float], ys: Sequence[float], label: str) -> None:
    drawn = look(number)
    axes.plot(xs, ys, color=drawn.color, ls=drawn.dashes, marker=drawn.marker, label=label)


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set(title=title, xlabel=x, ylabel=y, xscale="log", yscale="log")
    axes.xaxis.set_minor_formatter(NullFormatter())  # they would stand on each other
    axes.legend(fontsize=8)


# ---- what is looked up


def slope_of_rule(raw: Raw, rule: str) -> float:
    """The slope of a rule's seconds over rollouts, all kinds of rewards together."""
    return slope(*_of_rule(raw, rule))


def slope_of_host(of_host: Raw, phase: str) -> float:
    """The slope of a phase's seconds over rows."""
    measured = of_host["measured"]
    return slope([of["rows"] for of in measured], [of["seconds"][phase] for of in measured])


def _of_rule(raw: Raw, rule: str) -> tuple[list[float], list[float]]:
    usual = [of for of in raw["rules"] if of["n"] == _usual_n(raw)]
    return [of["prompts"] * of["n"] for of in usual], [of[rule] for of in usual]


def _usual_n(raw: Raw) -> int:
    return int(raw["rules"][0]["n"])


def _slope_of(
    raw: Raw, world: int, value: Callable[[Sequence[Raw]], float], sizes: Sequence[int]
) -> float:
    """The slope of a value over these numbers of rollouts."""
    return slope(sizes, [value(_found(raw, world, rollouts)) for rollouts in sizes])


def _found(raw: Raw, world: int, rollouts: int) -> list[Raw]:
    for of in raw["measured"]:
        if (of["world"], of["rollouts"]) == (world, rollouts):
            return list(of["processes"])
    raise KeyError((world, rollouts))


def _worlds(raw: Raw) -> list[int]:
    return sorted({of["world"] for of in raw["measured"]})


def _sizes(raw: Raw) -> list[int]:
    return sorted({of["rollouts"] for of in raw["measured"]})


def _processes(world: int) -> str:
    return "1 process" if world == 1 else f"{world} processes"


def _bytes(number: float) -> str:
    """Bytes as people read them.

    >>> _bytes(0), _bytes(896), _bytes(31376), _bytes(12.3e6)
    ('0', '896 B', '31.4 kB', '12.3 MB')
    """
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= length:
            return f"{number / length:.3g} {unit}"
    return f"{number:.0f} B" if number else "0"
