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


def column(x: float, title: str, *lines: str) -> list[str]:
    """What stands above and below the dots of a phase."""
    said = [text(x, 36, title, 'font-weight="bold"'), text(x, 226, lines[0])]
    return [*said, *(text(x, 150, line, 'font-size="14"') for line in lines[1:])]


def legend() -> list[str]:
    """Which dot means what."""
    dots = [dot(258, 269, True), dot(388, 269, False)]
    dots += [dot(526, 269, True, kept=False), dot(548, 269, False, kept=False)]
    named = ((274, "right answer"), (404, "wrong answer"), (564, "dropped"))
    words = [text(x, 274, name, 'font-size="14" fill="#333"', "start") for x, name in named]
    return ['<path d="M22 246h836" stroke="#E3E6E8"/>', *dots, *words]


def draw() -> str:
    """The figure, with what the real rule keeps."""
    rewards = [float(i in RIGHT) for i in range(16)]
    kept = podsrl.downsample(rewards, m=4)
    places = [(38 * (i % 4), 70 + 38 * (i // 4)) for i in range(16)]
    parts = [
        HEAD,
        arrow(132, 44),
        *column(262, "generate n, score all", "parallel, light on memory"),
    ]
    parts += [dot(205 + x, y, i in RIGHT) for i, (x, y) in enumerate(places)]
    parts += [arrow(345, 60)]
    parts += column(505, "keep highest and lowest", "max-variance: exact, one sort")
    parts += [dot(448 + x, y, i in RIGHT, i in kept) for i, (x, y) in enumerate(places)]
    parts += [arrow(588, 60)]
    parts += column(757, "update on those only", "heavy, now on m of n rows",
                    "log-probs, forward, backward")  # fmt: skip
    trained = sorted((i in RIGHT for i in kept), reverse=True)
    parts += [dot(700 + 38 * i, 108, right) for i, right in enumerate(trained)]
    return "\n".join([*parts, *legend(), "</svg>\n"])


if __name__ == "__main__":
    OUT.write_text(draw(), encoding="utf-8")
