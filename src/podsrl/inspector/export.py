"""One page with a sample of rollouts, for sharing: the same front end, with its answers inside it.

The page asks for nothing over the network, and its content security policy names its own scripts
and style sheets by their hashes.
"""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.inspector.answers import (
    curves_of,
    groups_of,
    histogram_of,
    settings_of,
    state_of,
    step_of,
)
from podsrl.inspector.app import STATIC
from podsrl.inspector.index import Index, Run, coarse_to_fine

#: Bytes of the page at most: what mail takes, and a phone opens.
LARGEST = 20_000_000
_GROUPS_AT_ONCE = 32  # in memory, of those that may not fit
_POINTS = 1_000  # of a curve


@dataclass
class _Step:
    """A step on the page: the server's answers about it and its prompts."""

    run: Run
    step: int
    answer: dict[str, Any]
    groups: dict[int, dict[str, Any]]

    def packed(self) -> str:
        """As gzip of JSON in base64."""
        text = json.dumps(
            {"step": self.answer, "groups": self.groups}, ensure_ascii=False, allow_nan=False
        )
        # What JSON allows and UTF-8 does not: a half of a surrogate pair.
        data = gzip.compress(text.encode(errors="replace"), compresslevel=7, mtime=0)
        return base64.b64encode(data).decode()


def export_page(
    index: Index,
    steps: Sequence[int] = (),
    prompts: Sequence[int] = (),
    largest: int = LARGEST,
    tell: Callable[[str], None] = lambda message: None,
) -> str:
    """The page, as HTML.

    Args:
        index: The runs; all of them are read first.
        steps: The steps to take; none: as many as there is room for, evenly spaced.
        prompts: The numbers of the prompts to take of each step; none: all, or those with the most
            contrast where a step is large.
        largest: Bytes of the page at most.
        tell: Is told how far it is, in words, every few files.

    Raises:
        InvalidInputError: There are no rollouts, or none of the named ones.
    """
    index.refresh(lambda done, of: tell(f"read {done:,} of {of:,} files"))
    curves = [_thinned(curves_of(index, run)) for run in index.runs]
    histograms = [
        histogram_of(index, run, function)
        for run in index.runs
        for function in (None, *run.functions)
    ]
    room = largest - len(_page({}, {})) - len(json.dumps([curves, histograms])) - 50_000
    taken = _take(index, steps, prompts, room, tell)
    if not taken:
        what = "of these steps and prompts " if steps or prompts else ""
        damaged = [note for run in index.runs for note in run.damaged.values()]
        raise InvalidInputError(" ".join([f"no rollouts {what}to export", *damaged]))

    _refer_to_each_other(taken)
    chunks = {f"step-{place}": step.packed() for place, step in enumerate(taken)}
    packed = {
        "state": _state(index, taken, _rule(index, taken, steps, prompts)),
        "curves": curves,
        "settings": [settings_of(run, for_sharing=True) for run in index.runs],
        "histograms": histograms,
        "featured": _featured(taken),
        "steps": [
            {"run": step.run.source.name, "step": step.step, "id": name}
            for name, step in zip(chunks, taken, strict=True)
        ],
    }
    return _page(packed, chunks)


def _take(
    index: Index,
    steps: Sequence[int],
    prompts: Sequence[int],
    room: int,
    tell: Callable[[str], None],
) -> list[_Step]:
    """As many steps as there is room for, in the order of runs and steps."""
    of_runs = []
    for run in index.runs:
        logged = index.rows(
            "SELECT step FROM steps WHERE run = $run ORDER BY step", {"run": run.number}
        )
        numbers = [row["step"] for row in logged if not steps or row["step"] in steps]
        of_runs.append([(run, step) for step in coarse_to_fine(numbers)])

    taken: list[_Step] = []
    longest = max(map(len, of_runs), default=0)
    for place in range(longest):
        for wanted in of_runs:  # by turns, so that no run takes all the room
            if place >= len(wanted):
                continue
            run, step = wanted[place]

            step_taken = _step(index, run, step, prompts, min(room, LARGEST // 4))
            if step_taken is None and not prompts:
                return _in_order(taken)  # the page is full

            if step_taken is not None:
                room -= len(step_taken.packed()) + 100
                taken.append(step_taken)
                tell(f"packed {len(taken):,} steps, room for {max(0, room) / 1e6:.1f} MB more")
    return _in_order(taken)


def _in_order(taken: list[_Step]) -> list[_Step]:
    return sorted(taken, key=lambda step: (step.run.number, step.step))


def _step(index: Index, run: Run, step: int, prompts: Sequence[int], room: int) -> _Step | None:
    """A step with the prompts that there is room for, those with the most contrast first."""
    answer = step_of(index, run, step, most=1_000_000)
    ranked = sorted(answer["groups"], key=lambda group: -(group["contrast"] or 0.0))
    wanted = [group["group"] for group in ranked if not prompts or group["group"] in prompts]

    groups: dict[int, dict[str, Any]] = {}
    used = 0
    for first in range(0, len(wanted), _GROUPS_AT_ONCE):
        numbers = wanted[first : first + _GROUPS_AT_ONCE]
        read = groups_of(index, run, step, numbers)
        for number in numbers:
            used += len(gzip.compress(json.dumps(read[number]).encode(), 1)) * 4 // 3
            if used > room:
                break
            groups[number] = read[number]
        if used > room:
            break

    if not groups:
        return None
    answer["groups"] = [group for group in answer["groups"] if group["group"] in groups]
    return _Step(run, step, answer, groups)


def _refer_to_each_other(taken: Sequence[_Step]) -> None:
    """Let what is on the page name nothing that is not."""
    there = {(step.run.source.name, step.step, group) for step in taken for group in step.groups}
    for step in taken:
        others = [other.step for other in taken if other.run is step.run]
        around = {
            "earlier": max((n for n in others if n < step.step), default=None),
            "later": min((n for n in others if n > step.step), default=None),
        }
        step.answer |= around
        for group in step.groups.values():
            group |= around
            group["groups"] = [number for number in group["groups"] if number in step.groups]
            group["elsewhere"] = [
                other
                for other in group["elsewhere"]
                if (other["run"], other["step"], other["group"]) in there
            ]


def _state(index: Index, taken: Sequence[_Step], rule: str) -> dict[str, Any]:
    """The state of the runs, as it was when the page was made."""
    state = state_of(index) | {"note": rule}
    for run in state["runs"]:
        of_run = [step.step for step in taken if step.run.source.name == run["name"]]
        run["last_step"] = max(of_run, default=None)
        run["first_step"] = min(of_run, default=None)
        run["seconds_left"] = None
        run["notes_file"] = ""
        if run["state"] == "training":
            run["state"] = "stopped"
    return state


def _rule(
    index: Index, taken: Sequence[_Step], steps: Sequence[int], prompts: Sequence[int]
) -> str:
    """The sentence of the page about what it holds; "" where it holds everything."""
    [known] = index.rows("SELECT sum(rollouts) AS rollouts, count(*) AS steps FROM steps")
    held = sum(len(group["rollouts"]) for step in taken for group in step.groups.values())
    if held == known["rollouts"]:
        return ""
    rule = "evenly spaced steps, and of a large step the prompts whose rewards differ most"
    if steps or prompts:
        rule = "the steps and prompts that were named, as far as there was room"
    return (
        f"This page holds {held:,} of {known['rollouts']:,} rollouts, in {len(taken)} of"
        f" {known['steps']:,} logged steps: {rule}. Curves are of all rollouts. Of a completion it"
        " has the first 20,000 characters."
    )


def _featured(taken: Sequence[_Step]) -> dict[str, Any] | None:
    """Where to begin: the newest prompt on the page whose kept rollouts differ most."""
    best = None
    for step in taken:
        for number, group in step.groups.items():
            kept = [r["reward"] for r in group["rollouts"] if r["kept"] and r["reward"] is not None]
            dropped = sum(not rollout["kept"] for rollout in group["rollouts"])
            spread = max(kept) - min(kept) if kept else 0.0
            rank = (dropped > 0 and spread > 0, step.step, spread)
            if best is None or rank > best[0]:
                best = (
                    rank,
                    {"run": step.run.source.name, "step": step.step, "group": number},
                )
    return best and best[1]


def _thinned(curves: dict[str, Any]) -> dict[str, Any]:
    """Curves of no more points than a screen shows."""
    for kind in ("steps", "metrics"):
        columns = curves[kind]
        points = max(map(len, columns.values()), default=0)
        every = -(-points // _POINTS) or 1
        curves[kind] = {name: column[::every] for name, column in columns.items()}
    return curves


def _page(index: Mapping[str, Any], chunks: Mapping[str, str]) -> str:
    """The front end with its parts inside it."""
    template = (STATIC / "index.html").read_text(encoding="utf-8")
    styles = [_part(name) for name in re.findall(r'<link rel="stylesheet" href="(.+?)">', template)]
    scripts = [_part(name) for name in re.findall(r'<script defer src="(.+?)">', template)]
    template = re.sub(r'<link rel="stylesheet".+?>\n|<script defer.+?</script>\n', "", template)

    policy = (
        f"default-src 'none'; script-src {_digests(scripts)}; style-src {_digests(styles)};"
        " img-src data:; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    head = [f'<meta http-equiv="Content-Security-Policy" content="{policy}">']
    head += [f"<style>{style}</style>" for style in styles]
    body = [
        f'<script type="application/gzip" id="{name}">{chunk}</script>'
        for name, chunk in chunks.items()
    ]
    body.append(f'<script type="application/json" id="packed">{_inert(index)}</script>')
    body += [f"<script>{script}</script>" for script in scripts]
    before, after = template.split("</head>")
    before = before.replace('<meta charset="utf-8">\n', '<meta charset="utf-8">\n' + head[0] + "\n")
    after = after.replace("</body>", "\n".join(body) + "\n</body>")
    return before + "\n".join(head[1:]) + "\n</head>" + after


def _part(address: str) -> str:
    return (STATIC.parent / address).read_text(encoding="utf-8")


def _digests(texts: Sequence[str]) -> str:
    """The texts as a content security policy names them."""
    digests = [hashlib.sha256(text.encode()).digest() for text in texts]
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def _inert(value: Any) -> str:
    """JSON that ends no element and opens no comment, whatever it holds."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    for character in "&<>":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode(errors="replace").decode()
