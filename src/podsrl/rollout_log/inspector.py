"""The page of `pods inspect`: the rollouts of runs, packed step by step and unpacked by a reader.

The page asks for nothing over the network and runs no script but its own. The same inspector stands
at the end of the laboratory's reports.
"""

import base64
import gzip
import hashlib
import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from podsrl.rollout_log.run_folder import REWARD_PREFIX, RunFolder

_HERE = Path(__file__).parent
#: The style sheet and the script of the inspector.
STYLE = (_HERE / "inspector.css").read_text(encoding="utf-8")
SCRIPT = (_HERE / "inspector.js").read_text(encoding="utf-8")


@dataclass
class PackedRollouts:
    """What the inspector of a page needs.

    Its index is {"runs": [{"name", "steps": [{"step", "chunk"}], "past"}]}, where the past is
    {prompt: [[step, mean reward]]} of the prompts that several steps generated for.
    """

    index: dict[str, Any] = field(default_factory=lambda: {"runs": []})
    chunks: dict[str, str] = field(default_factory=dict)  # rollouts as gzip of JSON in base64
    note: str = ""  # how many were left out, if any


def pack_rollouts(named_folders: Sequence[tuple[str, RunFolder]], limit: int) -> PackedRollouts:
    """Pack the rollouts of runs, no more than about `limit` in all, of evenly spaced steps.

    Steps whose file is damaged are left out with a `DamagedFileWarning`.
    """
    counts = []  # of each run, the rollouts of its steps
    for _, run in named_folders:
        counts.append({step: run.rollout_count(step) for step in run.rollout_steps()})
    total = sum(sum(of_steps.values()) for of_steps in counts)
    share = min(1.0, limit / total) if total else 0.0

    packed = PackedRollouts()
    shown = 0
    for number, (name, run) in enumerate(named_folders):
        steps = _evenly_spaced(list(counts[number]), share)
        shown += _pack_run(packed, f"rollouts-{number}", name, run, steps)
    if shown < total:
        count = f"{shown:,} of {total:,} rollouts"
        packed.note = f"{count} are on this page, in evenly spaced steps; --rollouts allows more."
    return packed


def _evenly_spaced(steps: Sequence[int], share: float) -> list[int]:
    """About this share of the steps, the first and the last among them."""
    places = np.linspace(0, len(steps) - 1, math.ceil(share * len(steps))).round().astype(int)
    return [steps[place] for place in dict.fromkeys(places.tolist())]


def _pack_run(
    packed: PackedRollouts, prefix: str, name: str, run: RunFolder, steps: Sequence[int]
) -> int:
    """Add steps of a run; the number of their rollouts."""
    shown = 0
    entries: list[dict[str, Any]] = []
    past: dict[str, list[list[float | None]]] = {}
    for step in steps:
        table = run.rollouts(step)
        if table is None or not table.num_rows:
            continue
        chunk = f"{prefix}-{step}"
        packed.chunks[chunk] = _pack(table)
        entries.append({"step": step, "chunk": chunk})
        shown += table.num_rows

        by_prompt = table.group_by("prompt").aggregate([("reward", "mean")]).to_pydict()
        means = _short(by_prompt["reward_mean"])
        for prompt, mean in zip(by_prompt["prompt"], means, strict=True):
            past.setdefault(prompt, []).append([step, mean])

    if entries:
        several = {prompt: of_prompt for prompt, of_prompt in past.items() if len(of_prompt) > 1}
        packed.index["runs"].append({"name": name, "steps": entries, "past": several})
    return shown


def render_page(title: str, rollouts: PackedRollouts, notes: Sequence[str]) -> str:
    """The page that holds the inspector alone, as HTML; every text in it is escaped."""
    return _template("page.html").substitute(
        title=html.escape(title),
        policy=content_policy(STYLE),
        style=STYLE,
        notes="\n".join(f'<p class="notes">{html.escape(note)}</p>' for note in notes),
        inspector=inspector_section(rollouts),
    )


def inspector_section(rollouts: PackedRollouts) -> str:
    """The inspector with its rollouts and its script: a part of a page's body, as HTML."""
    chunks = [
        f'<script type="application/gzip" id="{name}">{chunk}</script>'
        for name, chunk in rollouts.chunks.items()
    ]
    index = json.dumps(rollouts.index, ensure_ascii=False, allow_nan=False)
    for character in "&<>":  # whatever names it holds, it ends no element and opens no comment
        index = index.replace(character, f"\\u{ord(character):04x}")
    note = f'<p class="small">{html.escape(rollouts.note)}</p>' if rollouts.note else ""
    return _template("inspector.html").substitute(
        note=note, index=index, chunks="\n".join(chunks), script=SCRIPT
    )


def content_policy(style: str) -> str:
    """The content security policy of a page with this style sheet and the inspector's script."""
    digests = [hashlib.sha256(text.encode()).digest() for text in (SCRIPT, style)]
    script, sheet = ("sha256-" + base64.b64encode(digest).decode() for digest in digests)
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{sheet}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )


def _template(name: str) -> Template:
    return Template((_HERE / name).read_text(encoding="utf-8"))


def _pack(table: Any) -> str:
    """The rollouts of a step as gzip of JSON in base64; each prompt stands in it once."""
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    prompts = dict(zip(columns["group"], columns["prompt"], strict=True))
    places = {group: place for place, group in enumerate(prompts)}
    answers = dict(zip(columns["group"], columns.get("answer", ()), strict=False))
    rewards = [name for name in columns if name.startswith(REWARD_PREFIX)]

    value = {
        "prompts": list(prompts.values()),
        "answers": [answers.get(group) for group in prompts],
        "prompt": [places[group] for group in columns["group"]],
        "rollout": columns["rollout"],
        "completion": columns["completion"],
        "turns": columns.get("turns", []),
        "reward": _short(columns["reward"]),
        "kept": [int(kept) for kept in columns["kept"]],
        "advantage": _short(columns["advantage"]),
        "tokens": columns["tokens"],
        "rewards": {name.removeprefix(REWARD_PREFIX): _short(columns[name]) for name in rewards},
    }
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _short(values: Sequence[float | None]) -> list[float | None]:
    """Numbers to five significant digits, for a smaller page; NaN as None."""
    return [None if v is None or not np.isfinite(v) else float(f"{v:.5g}") for v in values]
