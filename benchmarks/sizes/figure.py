"""The paper's figure of the asymmetry: seconds per rollout and per row, over their number."""

from statistics import median

from matplotlib.figure import Figure

from benchmarks.sizes.steps import TRANSFORMERS, VLLM, Measured
from podslab.report.drawing import looks, style

_TICKS = (8, 16, 32, 64, 128, 256)


def figure(measured: Measured) -> Figure:
    """A panel for each way to generate, and one for updating; a line for each size.

    A line goes through medians, and each measurement is a point.
    """
    with style():
        drawn = Figure(figsize=(11.0, 3.6), layout="constrained")
        by_vllm, by_transformers, update = drawn.subplots(1, 3, sharex=True, sharey=True)
        for shape, look in looks(measured.shapes).items():
            seconds_on = {
                by_vllm: measured.generating(shape, VLLM),
                by_transformers: measured.generating(shape, TRANSFORMERS),
                update: measured.updating(shape),
            }
            for axes, seconds in seconds_on.items():
                middle = [median(found) / count for count, found in seconds.items()]
                axes.plot(list(seconds), middle, color=look.color, ls=look.dashes, label=shape)
                for count, found in seconds.items():
                    of_each = [one / count for one in found]
                    axes.plot(
                        [count] * len(found), of_each, color=look.color, marker=look.marker, ls=""
                    )

        by_vllm.set(title="generating, vLLM", xlabel="rollouts", ylabel="seconds of each")
        by_transformers.set(title="generating, transformers", xlabel="rollouts")
        update.set(title="updating", xlabel="rows of a pass")
        for axes in (by_vllm, by_transformers, update):
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(_TICKS, [str(count) for count in _TICKS])
            axes.minorticks_off()
        update.legend()
    return drawn
