"""Draws docs/film.svg: twenty seconds of a real run, from its rollouts.

    python examples/sums.py && python docs/site/film.py out    # a run, and results/film.json
    python docs/site/film.py                                   # draws what is in that file

Four prompts of a step: their answers appear, are scored, and of those that differ the best is kept.
Beside them the share of right answers grows.
"""

import json
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
OUT, VALUES = DOCS / "film.svg", DOCS.parent / "results" / "film.json"
STEPS = (1, 6, 12, 20, 40)
SECONDS = 20
BLUE, ORANGE, INK, SOFT = "#0072B2", "#D55E00", "#1f2933", "#5f6b76"
LEFT, TOP, WIDE, HIGH = 152, 74, 82, 44  # of the first answer; an answer's cell
PLOT = (540, 74, 250, 176)  # x, y, width, height of the curve
SAID = (
    "1  The model gives four answers to each prompt.",
    "2  They are scored: blue is right, orange is wrong.",
    "3  Of a prompt whose answers differ the best one is kept, and trains the model.",
)


def condense(run: Path) -> dict[str, Any]:
    """Of some steps four prompts with their answers, and the reward of every step."""
    log = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "rewards": [round(row["reward"], 4) for row in log if "reward" in row],
        "steps": [{"step": step, "prompts": list(_prompts(run, step))} for step in STEPS],
    }


def _prompts(run: Path, step: int) -> Iterator[dict[str, Any]]:
    """The first two prompts whose rewards differ, and the first two with equal ones."""
    import pyarrow.parquet as pq

    groups: dict[int, list[dict[str, Any]]] = {}
    for row in pq.read_table(run / "rollouts" / f"step_{step:06}.parquet").to_pylist():
        groups.setdefault(row["group"], []).append(row)
    wanted = [True, False, True, False]
    for rows in groups.values():
        differ = len({row["reward"] for row in rows}) > 1
        if differ in wanted:
            wanted.remove(differ)
            yield {
                "prompt": rows[0]["prompt"].strip(),
                "answers": [
                    [_answer(row["completion"]), row["reward"], row["kept"] and differ]
                    for row in rows
                ],
            }


def _answer(completion: str) -> str:
    found = re.search(r"<answer>(\d{1,7})</answer>", completion)
    return found[1] if found else "none"


def keyframes(name: str, *moments: tuple[float, str]) -> str:
    """A CSS animation: values that are held from these seconds on."""
    steps = [f"{100 * second / SECONDS:.2f}% {{{value}}}" for second, value in moments]
    return f"@keyframes {name} {{{' '.join(steps)}}}"


def shown(name: str, start: float, end: float) -> str:
    """Keyframes of what is seen from `start` to `end`."""
    moments = [(0.0, "opacity:0")] if start else []
    moments += [(start, "opacity:0"), (start + 0.25, "opacity:1"), (end - 0.05, "opacity:1")]
    last = "opacity:1" if end >= SECONDS else "opacity:0"
    return keyframes(name, *moments, (min(end, SECONDS), last), (SECONDS, last))


def draw(film: dict[str, Any]) -> str:
    """The whole film; where motion is not wanted, its last picture."""
    each = SECONDS / len(film["steps"])
    style, scenes = [], []
    for place, scene in enumerate(film["steps"]):
        start, end = place * each, (place + 1) * each
        for part, late in (("a", 0.0), ("b", 0.25 * each), ("c", 0.5 * each)):
            style.append(shown(f"{part}{place}", start + late, end))
            style.append(f".{part}{place} {{animation-name:{part}{place}}}")
        for phase, (begin, until) in enumerate(((0, 0.25), (0.25, 0.5), (0.5, 1.0))):
            style.append(shown(f"s{place}{phase}", start + begin * each, start + until * each))
            style.append(f".s{place}{phase} {{animation-name:s{place}{phase}}}")
        scenes += _scene(place, scene, film["rewards"], last=place == len(film["steps"]) - 1)
    style.append(_growth(film, each))
    rules = "\n".join(
        [
            f".t {{animation-duration:{SECONDS}s;animation-iteration-count:infinite;opacity:0}}",
            ".last {opacity:1}",
            *style,
            "@media (prefers-reduced-motion: reduce) {.t {animation:none}}",
        ]
    )
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 310" role="img"'
            ' aria-label="Five steps of a run. Each shows four prompts with four answers. They'
            " appear, are scored, and of a prompt whose answers differ the best one is kept."
            ' The share of right answers grows" font-family="sans-serif" font-size="15">',
            f"<style>{rules}</style>",
            '<rect width="100%" height="100%" rx="10" fill="#fff"/>',
            *_axes(len(film["rewards"])),
            f'<path class="t last grow" pathLength="1" d="{_curve(film["rewards"])}" fill="none"'
            f' stroke="{BLUE}" stroke-width="3" stroke-dasharray="1"/>',
            *scenes,
            "</svg>\n",
        ]
    )


def _scene(place: int, scene: dict[str, Any], rewards: list[float], last: bool) -> Iterator[str]:
    more = " last" if last else ""
    now = f"step {scene['step']}: {100 * rewards[scene['step'] - 1]:.0f} % right"
    yield f'<g class="t a{place}{more}">'
    yield _text(PLOT[0], 44, now, 'font-weight="bold" font-size="17"')
    for line, prompt in enumerate(scene["prompts"]):
        y = TOP + line * HIGH
        yield _text(LEFT - 14, y + 22, prompt["prompt"] + " =", 'text-anchor="end"')
        for column, (answer, _, _) in enumerate(prompt["answers"]):
            x = LEFT + column * WIDE
            yield f'<rect x="{x}" y="{y}" width="74" height="34" rx="6" fill="#F0F2F4"/>'
            yield _text(x + 37, y + 22, answer, 'text-anchor="middle"')
    yield "</g>"
    for part, draws in (("b", _scored), ("c", _kept)):
        yield f'<g class="t {part}{place}{more}">'
        for line, prompt in enumerate(scene["prompts"]):
            for column, answer in enumerate(prompt["answers"]):
                yield draws(LEFT + column * WIDE, TOP + line * HIGH, answer)
        yield "</g>"
    for phase, words in enumerate(SAID):
        seen = " last" if last and phase == len(SAID) - 1 else ""
        yield f'<g class="t s{place}{phase}{seen}">{_text(28, 286, words)}</g>'


def _scored(x: int, y: int, answer: list[Any]) -> str:
    """The colour of an answer's reward."""
    text, reward, _ = answer
    colour = BLUE if reward else ORANGE
    cell = f'<rect x="{x}" y="{y}" width="74" height="34" rx="6" fill="{colour}"/>'
    return cell + _text(x + 37, y + 22, text, 'text-anchor="middle"', "#fff")


def _kept(x: int, y: int, answer: list[Any]) -> str:
    """A dropped answer fades; a kept one has a frame."""
    if answer[2]:
        frame = f'x="{x - 3}" y="{y - 3}" width="80" height="40" rx="8"'
        return f'<rect {frame} fill="none" stroke="{INK}" stroke-width="3"/>'
    colour = "#CCE3F0" if answer[1] else "#F7DFCC"
    pale = f'<rect x="{x}" y="{y}" width="74" height="34" rx="6" fill="{colour}"/>'
    return pale + _text(x + 37, y + 22, answer[0], 'text-anchor="middle"', SOFT)


def _text(x: float, y: float, words: str, more: str = "", fill: str = INK) -> str:
    return f'<text x="{x}" y="{y}" fill="{fill}" {more}>{words}</text>'


def _axes(steps: int) -> Iterator[str]:
    x, y, width, height = PLOT
    yield f'<path d="M{x} {y}v{height}h{width}" fill="none" stroke="{SOFT}"/>'
    for share in (0, 50, 100):
        at = y + height * (1 - share / 100)
        yield _text(x - 8, at + 5, f"{share} %", 'text-anchor="end" font-size="13"', SOFT)
    yield _text(x, y + height + 20, "1", 'text-anchor="middle" font-size="13"', SOFT)
    yield _text(x + width, y + height + 20, str(steps), 'text-anchor="middle" font-size="13"', SOFT)
    middle = x + width / 2
    yield _text(middle, y + height + 20, "step", 'text-anchor="middle" font-size="13"', SOFT)
    yield _text(28, 44, "four of the 64 prompts of a step", 'font-size="13"', SOFT)


def _curve(rewards: list[float]) -> str:
    x, y, width, height = PLOT
    last = len(rewards) - 1
    points = [
        f"{x + width * i / last:.1f} {y + height * (1 - r):.1f}" for i, r in enumerate(rewards)
    ]
    return "M" + "L".join(points)


def _lengths(rewards: list[float]) -> list[float]:
    """How long the curve is up to each step, as a share of the whole."""
    _, _, width, height = PLOT
    step = width / (len(rewards) - 1)
    parts = [
        (step**2 + (height * (after - before)) ** 2) ** 0.5 for before, after in pairwise(rewards)
    ]
    return [sum(parts[:i]) / sum(parts) for i in range(len(rewards))]


def _growth(film: dict[str, Any], each: float) -> str:
    """The curve up to the step of each scene, from the moment when rollouts are kept."""
    lengths = _lengths(film["rewards"])
    moments, before = [(0.0, "stroke-dashoffset:1")], 1.0
    for place, scene in enumerate(film["steps"]):
        offset = 1 - lengths[scene["step"] - 1]
        start = place * each
        moments += [
            (start + 0.01, f"stroke-dashoffset:{before:.3f}"),
            (start + 0.25 * each, f"stroke-dashoffset:{offset:.3f}"),
        ]
        before = offset
    moments.append((SECONDS, f"stroke-dashoffset:{before:.3f}"))
    return keyframes("grow", *moments) + "\n.grow {animation-name:grow}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        lines = [
            f'"{key}": {json.dumps(value)}' for key, value in condense(Path(sys.argv[1])).items()
        ]
        VALUES.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    OUT.write_text(draw(json.loads(VALUES.read_text(encoding="utf-8"))), encoding="utf-8")
