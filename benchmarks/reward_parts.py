"""The figure of docs/reward-parts.md: `python -m benchmarks.reward_parts`, about 15 seconds.

Writes docs/results/reward-parts.svg and prints its numbers.
"""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from benchmarks.part_signals import answer_and_form, mixture_signals
from podslab.report.drawing import COLOURS, render, style

OUT = Path(__file__).parents[1] / "docs/results/reward-parts.svg"
M, FORMED = 16, 0.3
SIZES = (16, 24, 32, 48, 64)
WEIGHTS = (1.0, 0.2, 0.0)
#: Where the form is paid, and what is selected by.
CASES = {
    "form paid always": ("every", None),
    "form paid for wrong answers": ("wrong", None),
    "form paid always, selected by the answer": ("every", (1.0, 0.0, 0.0)),
}
PANELS = {"half of the answers right": 0.5, "1 in 50 right": 0.02}


def main() -> None:
    """Draw, and print each line's first and last value."""
    with style():
        figure = Figure(figsize=(8.6, 3.9), layout="constrained")
        for axes, (title, right) in zip(
            figure.subplots(1, 2, sharey=True), PANELS.items(), strict=True
        ):
            for (name, (paid, selection)), colour in zip(CASES.items(), COLOURS, strict=False):
                mixture = answer_and_form(right, FORMED, paid)
                found = [mixture_signals(mixture, n, M, WEIGHTS, selection) for n in SIZES]
                for part, label, dashes in ((2, "well formed", "-"), (0, "answer", ":")):
                    values = [float(signals.signal_F[part]) for signals in found]
                    axes.plot(SIZES, values, dashes, color=colour, label=f"{label}: {name}")
                    print(f"{title}, {name}, {label}: {values[0]:.3f} -> {values[-1]:.3f}")
            axes.set(title=title.capitalize(), xlabel=f"rollouts per prompt, n (m = {M})", ylim=0)
            axes.set_xscale("log", base=2)
            axes.set_xticks(SIZES, [str(size) for size in SIZES])
            axes.xaxis.set_minor_locator(NullLocator())
            if not axes.get_subplotspec().is_first_col():
                continue
            axes.set_ylabel("covariance with the advantage")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8)
    OUT.write_bytes(render(figure, "svg"))
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main()
