"""docs/rules.svg: which rows of a batch each rule keeps. `python docs/site/rules.py`"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import podsrl
from podslab.report.drawing import INK, SOFT, render, style
from podsrl.rollout_log.files import write_whole

N, ROWS = 8, 12
#: Right answers of each prompt, of 8 rollouts.
RIGHT = (0, 1, 3, 4, 7, 8)
RULES = (
    *("max_variance", "max_contrast", "top_advantage"),
    *("advantage_variance", "dynamic_sampling", "variance_top_p"),
)
COLOURS = {1.0: "#0072B2", 0.0: "#E69F00"}


def main() -> None:
    """Draw a panel for each rule."""
    rewards = np.array([[1.0] * right + [0.0] * (N - right) for right in RIGHT])
    with style():
        drawn = Figure(figsize=(9.0, 4.9), layout="constrained")
        for axes, rule in zip(drawn.subplots(2, 3).flat, RULES, strict=True):
            if rule == "max_variance":
                kept = np.zeros(rewards.shape, dtype=bool)
                places = podsrl.downsample(rewards, ROWS // len(RIGHT), rule)
                np.put_along_axis(kept, places, True, axis=1)
            else:
                kept = podsrl.downsample_batch(rewards, ROWS, rule)
            for p, i in np.ndindex(rewards.shape):
                look: dict[str, Any] = {
                    "facecolor": COLOURS[float(rewards[p, i])],
                    "edgecolor": INK,
                    "linewidth": 1.8,
                }
                if not kept[p, i]:
                    look |= {"alpha": 0.18, "linewidth": 0}
                axes.add_patch(Rectangle((i + 0.08, p + 0.08), 0.84, 0.84, **look))
            axes.set(xlim=(0, N), ylim=(len(RIGHT), 0), aspect="equal", title=rule)
            axes.set_xticks([])
            axes.set_yticks(np.arange(len(RIGHT)) + 0.5, [f"{right} of {N}" for right in RIGHT])
            axes.grid(False)
            axes.spines[:].set_visible(False)
        what = f"Each line is a prompt with its right (blue) and wrong (orange) answers; {ROWS} of"
        drawn.supxlabel(f"{what} {rewards.size} rows are kept", fontsize="medium", color=SOFT)
    write_whole(Path("docs/rules.svg"), render(drawn, "svg"))


if __name__ == "__main__":
    main()
