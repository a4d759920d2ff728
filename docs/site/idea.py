"""Draws docs/idea.svg: one prompt, sixteen rollouts, and the four that the rule keeps.

python docs/site/idea.py
"""

from pathlib import Path

import podsrl

OUT = Path(__file__).parents[1] / "idea.svg"
RIGHT = (2, 6, 9)  # of sixteen rollouts
BLUE, ORANGE = "#0072B2", "#D55E00"
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 292" role="img" \
aria-label="One prompt, sixteen rollouts; the two highest and the two lowest rewards are kept, and \
only those four are trained on. Blue dots are right answers, orange ones wrong; rings are dropped" \
font-family="sans-serif" font-size="15" fill="#222">
<rect width="100%" height="100%" rx="10" fill="#fff"/>
<rect x="22" y="95" width="104" height="60" rx="8" fill="#F2F2F2"/>\
<text x="74" y="131" text-anchor="middle">prompt</text>"""


def dot(x: float, y: float, right: bool, kept: bool = True) -> str:
    """A rollout: filled, or a ring where it is dropped."""
    colour = BLUE if right else ORANGE
    if kept:
        return f'<circle cx="{x}" cy="{y}" r="9" fill="{colour}"/>'
    return f'<circle cx="{x}" cy="{y}" r="8" fill="none" stroke="{colour}" stroke-width="2"/>'


def arrow(x: float, length: float) -> str:
    """From `x` to the right."""
    way = f"M{x} 125h{length}m-9 -6l9 6l-9 6"
    return f'<path d="{way}" stroke="#777" fill="none" stroke-width="2"/>'


def text(x: float, y: float, words: str, style: str = 'fill="#555"', anchor: str = "middle") -> str:
    """Words, in the middle of `x` or from it on."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {style}>{words}</text>'


def column(x: float, title: str, first_line: str, *in_the_middle: str) -> list[str]:
    """What stands above and below the dots of a phase, and between them."""
    heading = text(x, 36, title, 'font-weight="bold"')
    below = text(x, 226, first_line)
    return [heading, below, *(text(x, 150, line, 'font-size="14"') for line in in_the_middle)]


def legend() -> list[str]:
    """Which dot means what."""
    look = 'font-size="14" fill="#333"'
    return [
        '<path d="M22 246h836" stroke="#E3E6E8"/>',
        dot(258, 269, True),
        dot(388, 269, False),
        dot(526, 269, True, kept=False),
        dot(548, 269, False, kept=False),
        text(274, 274, "right answer", look, "start"),
        text(404, 274, "wrong answer", look, "start"),
        text(564, 274, "dropped", look, "start"),
    ]


def draw() -> str:
    """The figure, with what the real rule keeps."""
    rewards = [float(i in RIGHT) for i in range(16)]
    kept = podsrl.downsample(rewards, m=4)
    places = [(38 * (i % 4), 70 + 38 * (i // 4)) for i in range(16)]

    parts = [HEAD, arrow(132, 44)]
    parts += column(262, "generate n, score all", "parallel, light on memory")
    for i, (x, y) in enumerate(places):
        parts.append(dot(205 + x, y, i in RIGHT))

    parts.append(arrow(345, 60))
    parts += column(505, "keep highest and lowest", "max-variance: exact, one sort")
    for i, (x, y) in enumerate(places):
        parts.append(dot(448 + x, y, i in RIGHT, kept=i in kept))

    parts.append(arrow(588, 60))
    heavy = "heavy, now on m of n rows"
    parts += column(757, "update on those only", heavy, "log-probs, forward, backward")
    right_first = sorted((i in RIGHT for i in kept), reverse=True)
    for i, is_right in enumerate(right_first):
        parts.append(dot(700 + 38 * i, 108, is_right))

    return "\n".join([*parts, *legend(), "</svg>\n"])


if __name__ == "__main__":
    OUT.write_text(draw(), encoding="utf-8")
