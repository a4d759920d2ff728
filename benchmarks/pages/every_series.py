"""Every series of runs: a line of results/log.md, and a table of results/series.md."""

import tomllib
from collections import Counter
from typing import Any

from benchmarks.markdown import table
from benchmarks.series import METHODS, Runs, Series, all_series, times_as_fast, with_interval


def one_line_each() -> list[str]:
    """The table of all series."""
    all_left_out = _read_left_out()
    rows = []
    for series in all_series():
        folder = f"{series.setting}/{series.name}"
        methods = [f"`{method}` {len(runs)}" for method, runs in series.by_method.items()]
        first = series.runs[0]
        machine = first.get("gpu") or first["cpu"]

        left_out = ""
        if folder in all_left_out:
            left_out = f"{len(all_left_out[folder]['runs'])} of {len(series.runs)}"

        rows.append(
            [
                f"[{folder}](methods/{folder})",
                ", ".join(methods),
                _learning_rates(series.runs),
                f"{machine}, {series.seconds:.0f} s",
                left_out,
            ]
        )
    heads = ["series", "methods, with seeds", "learning rates", "machine, seconds of a run"]
    return table([*heads, "left out"], rows)


def left_out() -> list[str]:
    """What the pages of 2026-11-27 left out, and why."""
    lines = []
    for folder, entry in _read_left_out().items():
        seeds_of_method = Counter(run.rpartition("-")[0] for run in entry["runs"])
        methods = [f"`{method}` {seeds}" for method, seeds in seeds_of_method.items()]
        lines.append(f"* **{folder}**: {', '.join(methods)}. Why: {entry['why']}.")
    return lines


def one_table_each() -> list[str]:
    """A section for each series, the latest last."""
    lines = []
    for series in all_series():
        lines += [f"### {series.setting}, {series.name}", ""]
        lines += [conditions(series), ""]
        lines += [*methods_of(series), ""]
    return lines


def conditions(series: Series) -> str:
    """The machine, the time and the evaluations of a series, in a sentence."""
    first = series.runs[0]
    machine = first.get("gpu") or f"{first['cpu']}, one thread"
    answers = sorted({run["curve"]["answers"][0] for run in series.runs})
    asked = " or ".join(str(number) for number in answers)
    often = "once" if series.evaluations == 1 else f"{series.evaluations} times"
    return f"{machine}; {series.seconds:.0f} s; evaluated {often} on {asked} answers."


def methods_of(series: Series) -> list[str]:
    """The table of the methods of a series, the best over the run first."""
    reference = series.best_grpo()
    heads = [
        "method",
        "learning rate",
        "rows per step",
        "seeds",
        "right over the run",
        "at the end",
    ]
    heads.append("each seed")
    if reference is not None:
        heads.append("times as fast as the best GRPO")

    rows = []
    for method in sorted(series.by_method, key=series.over_run, reverse=True):
        runs = series.by_method[method]
        rows_per_step = sorted({run["rows"] for run in runs})
        ends = series.accuracies(method)[:, -1]
        cells = [
            f"`{method}`: {runs[0]['name']}",
            _learning_rates(runs),
            ", ".join(str(number) for number in rows_per_step),
            str(len(runs)),
            f"{100 * series.over_run(method):.1f} %",
            f"{100 * series.end(method):.1f} %",
            ", ".join(f"{100 * end:.0f}" for end in ends),
        ]
        if method == reference:
            cells.append("1")
        elif reference is not None:
            cells.append(with_interval(times_as_fast(series.by_method[reference], runs)))
        rows.append(cells)
    return table(heads, rows)


def _learning_rates(runs: Runs) -> str:
    rates = sorted({run["learning_rate"] for run in runs})
    return ", ".join(f"{rate:g}" for rate in rates)


def _read_left_out() -> dict[str, Any]:
    """Of each series, by its folder: the runs that earlier pages left out, and why."""
    return tomllib.loads((METHODS / "left-out.toml").read_text(encoding="utf-8"))
