"""Draws docs/rows.svg: sixteen rows of GRPO, and the right ones that the best of four keeps.

python docs/site/rows.py
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import podsrl

OUT = Path(__file__).parents[1] / "rows.svg"
#: Right answers of each prompt: of 8 rollouts with GRPO, of 4 across the batch.
GRPO, ACROSS = (0, 2), (0, 1, 0, 2, 4, 1, 0, 3, 0, 1, 2, 0, 4, 1, 0, 2)
BLUE, ORANGE, INK, SOFT = "#0072B2", "#D55E00", "#1f2933", "#5f6b76"
CELL = 23  # from one rollout to the next


def text(x: float, y: float, words: str, size: int = 16, fill: str = INK, more: str = "") -> str:
    """Words, beginning at `x`."""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" {more}>{words}</text>'


def square(x: float, y: float, right: bool, kept: bool) -> str:
    """A rollout: full colour and a frame where it is a row of the update, pale elsewhere."""
    colour = BLUE if right else ORANGE
    look = f'stroke="{INK}" stroke-width="2"' if kept else 'opacity="0.25"'
    return f'<rect x="{x}" y="{y}" width="17" height="17" rx="3" fill="{colour}" {look}/>'


def batch(x: float, rewards: np.ndarray, kept: np.ndarray, at: Sequence[float]) -> list[str]:
    """A line of squares for each prompt."""
    return [
        square(x + CELL * i, at[p], bool(rewards[p, i]), bool(kept[p, i]))
        for p, i in np.ndindex(rewards.shape)
    ]


def draw() -> str:
    """The figure, with what the real rule keeps."""
    grpo = np.array([[1.0] * right + [0.0] * (8 - right) for right in GRPO])
    across = np.array([[1.0] * right + [0.0] * (4 - right) for right in ACROSS])
    best = np.array(podsrl.downsample(across, 1, rule="max_reward"))
    differs = np.ptp(across, axis=1, keepdims=True) > 0
    kept = (np.arange(4) == best) & differs
    more = 'font-weight="bold"'
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 500 400" role="img"'
        ' aria-label="A step of 16 rows. GRPO: two prompts with eight rows each, and one prompt has'
        " no right answer, so one prompt teaches. Best of four: sixteen prompts with four rollouts"
        f' each; {kept.sum()} of them have right and wrong ones, and one right row of each is kept"'
        ' font-family="sans-serif">',
        '<rect width="100%" height="100%" rx="10" fill="#fff"/>',
        text(20, 36, "GRPO", more=more),
        text(20, 58, "2 prompts; 1 of them teaches", 14, SOFT),
        *batch(20, grpo, np.ones_like(grpo, dtype=bool), [78, 78 + CELL]),
        text(20, 150, "A prompt teaches if its", 14, SOFT),
        text(20, 170, "answers differ in reward.", 14, SOFT),
        text(250, 36, "Best of four", more=more),
        text(250, 58, f"16 prompts; {kept.sum()} of them teach", 14, SOFT),
        *batch(250, across[:8], kept[:8], [78 + CELL * p for p in range(8)]),
        *batch(368, across[8:], kept[8:], [78 + CELL * p for p in range(8)]),
        square(20, 295, True, True) + text(46, 309, "right", 14),
        square(100, 295, False, True) + text(126, 309, "wrong", 14),
        square(190, 295, True, False) + square(213, 295, False, False),
        text(240, 309, "generated, not trained on", 14),
        text(20, 352, "One step of 16 rows. Generating four rollouts of each prompt", 14, SOFT),
        text(20, 372, "costs four times as much generation as GRPO.", 14, SOFT),
    ]
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    OUT.write_text(draw(), encoding="utf-8")
