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
    "max_variance",
    "max_contrast",
    "top_advantage",
    "advantage_variance",
    "dynamic_sampling",
    "variance_top_p",
)
BLUE, ORANGE = "#0072B2", "#E69F00"


def main() -> None:
    """Draw a panel for each rule."""
    rewards_P_N = np.array([[1.0] * right + [0.0] * (N - right) for right in RIGHT])
    with style():
        drawn = Figure(figsize=(9.0, 4.9), layout="constrained")
        for axes, rule in zip(drawn.subplots(2, 3).flat, RULES, strict=True):
            panel(axes, rule, rewards_P_N)
        drawn.supxlabel(
            "Each line is a prompt with its right (blue) and wrong (orange) answers;"
            f" {ROWS} of {rewards_P_N.size} rows are kept",
            fontsize="medium",
            color=SOFT,
        )
    write_whole(Path("docs/rules.svg"), render(drawn, "svg"))


def kept_by(rule: str, rewards_P_N: np.ndarray) -> np.ndarray:
    """What a rule keeps: of each prompt as many, or rows across prompts."""
    if podsrl.rules.RULES[rule].across_prompts:
        return np.asarray(podsrl.downsample_batch(rewards_P_N, ROWS, rule))

    kept_P_N = np.zeros(rewards_P_N.shape, dtype=bool)
    places_P_M = podsrl.downsample(rewards_P_N, ROWS // len(RIGHT), rule)
    np.put_along_axis(kept_P_N, places_P_M, True, axis=1)
    return kept_P_N


def panel(axes: Any, rule: str, rewards_P_N: np.ndarray) -> None:
    """A square for each rollout: with a border where it is kept, pale where it is not."""
    kept_P_N = kept_by(rule, rewards_P_N)
    for prompt, rollout in np.ndindex(rewards_P_N.shape):
        look: dict[str, Any] = {"edgecolor": INK, "linewidth": 1.8}
        if not kept_P_N[prompt, rollout]:
            look = {"edgecolor": INK, "linewidth": 0, "alpha": 0.18}
        colour = BLUE if rewards_P_N[prompt, rollout] == 1 else ORANGE
        corner = (rollout + 0.08, prompt + 0.08)
        axes.add_patch(Rectangle(corner, 0.84, 0.84, facecolor=colour, **look))

    axes.set(xlim=(0, N), ylim=(len(RIGHT), 0), aspect="equal", title=rule)
    axes.set_xticks([])
    axes.set_yticks(np.arange(len(RIGHT)) + 0.5, [f"{right} of {N}" for right in RIGHT])
    axes.grid(False)
    axes.spines[:].set_visible(False)


if __name__ == "__main__":
    main()
