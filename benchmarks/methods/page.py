"""The table of a series: what each of its methods learned, beside the best GRPO of the same go.

`python -m benchmarks.pages` writes the tables of all series to results/series.md.
"""

from collections.abc import Iterator

from benchmarks.evidence.harness import with_interval
from benchmarks.series import Series, all_series, curves, is_grpo
from podslab.report.statistics import speed_up

#: The fields of a method that every table shows.
_COLUMNS = ("method", "learning rate", "rows per step", "seeds", "right over the run", "at the end")


def best_grpo(series: Series) -> str | None:
    """The GRPO of the series that had most right over the run; None where it has none."""
    grpos = [key for key, runs in series.by_method.items() if is_grpo(runs[0]["arm"])]
    return max(grpos, key=series.over_run, default=None)


def sections() -> Iterator[str]:
    """A section for each series, the latest last."""
    for series in all_series():
        yield f"### {series.setting}, {series.name}"
        yield ""
        yield conditions(series)
        yield ""
        yield from table(series)
        yield ""


def conditions(series: Series) -> str:
    """The machine, the time and the evaluations of a series, in a sentence."""
    first = series.runs[0]
    machine = str(first.get("gpu") or f"{first['cpu']}, one thread")
    answers = sorted({run["curve"]["answers"][0] for run in series.runs})
    asked = " or ".join(map(str, answers))
    often = "once" if series.evaluations == 1 else f"{series.evaluations} times"
    return f"{machine}; {series.seconds:.0f} s; evaluated {often} on {asked} answers."


def table(series: Series) -> Iterator[str]:
    """The methods of a series in Markdown, best over the run first."""
    reference = best_grpo(series)
    heads = [*_COLUMNS, "each seed", *(["times as fast as the best GRPO"] if reference else [])]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for key in sorted(series.by_method, key=lambda key: -series.over_run(key)):
        runs = series.by_method[key]
        ends = ", ".join(f"{100 * one:.0f}" for one in series.accuracies(key)[:, -1])
        cells = [
            f"`{key}`: {runs[0]['name']}",
            ", ".join(f"{rate:g}" for rate in sorted({run["learning_rate"] for run in runs})),
            ", ".join(map(str, sorted({run["rows"] for run in runs}))),
            str(len(runs)),
            f"{100 * series.over_run(key):.1f} %",
            f"{100 * series.end(key):.1f} %",
            ends,
        ]
        if reference:
            cells.append("1" if key == reference else _times_as_fast(series, reference, key))
        yield f"| {' | '.join(cells)} |"


def _times_as_fast(series: Series, reference: str, method: str) -> str:
    found = speed_up(curves(series.by_method[reference]), curves(series.by_method[method]))
    return with_interval(found)
