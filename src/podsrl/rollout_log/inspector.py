"""The rollouts of runs, packed into a page: compressed step by step, unpacked when looked at."""

import base64
import gzip
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from podslab.report.load_runs import Run
from podsrl.rollout_log.run_folder import REWARD_PREFIX, DamagedFileWarning

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class PackedRollouts:
    """What the rollout inspector of a page needs.

    index: {"runs": [{"name", "steps": [{"step", "chunk"}]}], "range": [lowest reward, highest]}.
    chunks: by the name in the index, gzip of JSON in base64.
    note: what was left out, in words.
    """

    index: dict[str, Any] = field(default_factory=lambda: {"runs": [], "range": [0.0, 0.0]})
    chunks: dict[str, str] = field(default_factory=dict)
    note: str = ""


def pack_rollouts(runs: Sequence[Run], limit: int) -> PackedRollouts:
    """Pack the rollouts of runs, no more than about `limit` in all.

    If there are more, every run keeps evenly spaced steps, first and last included. Steps whose
    file is damaged are left out with a `DamagedFileWarning`.
    """
    packed = PackedRollouts()
    folders = [run.folder for run in runs]
    counts = [{step: one.rollout_sizes(step)[0] for step in one.rollout_steps()} for one in folders]
    total = sum(sum(of_run.values()) for of_run in counts)
    shown = 0
    ends: list[float] = []
    for number, (run, of_run) in enumerate(zip(runs, counts, strict=True)):
        steps = []
        for step in _choose(of_run, min(1.0, limit / total) if total else 0.0):
            table = run.folder.rollouts(step)
            if table is None or not table.num_rows:
                continue
            name = f"rollouts-{number}-{step}"
            try:
                packed.chunks[name] = _pack(table)
            except ValueError as error:
                path = run.folder.rollout_path(step)
                message = f"{path} is damaged and was skipped: its turns are no JSON ({error})"
                warnings.warn(message, DamagedFileWarning, 2)
                continue
            steps.append({"step": step, "chunk": name})
            shown += table.num_rows
            found = [value for value in table.column("reward").to_pylist() if value is not None]
            ends = [min(ends + found), max(ends + found)] if found else ends
        if steps:
            packed.index["runs"].append({"name": f"{run.arm}, seed {run.seed}", "steps": steps})
    if ends:
        packed.index["range"] = _short(ends)
    if shown < total:
        packed.note = (
            f"{shown:,} of {total:,} rollouts are on this page, in evenly spaced steps; more with"
            " pods report --rollouts"
        )
    return packed


def _choose(counts: dict[int, int], share: float) -> list[int]:
    steps = list(counts)
    number = min(len(steps), int(np.ceil(share * len(steps))))
    places = np.linspace(0, len(steps) - 1, number).round().astype(int)
    return [steps[place] for place in dict.fromkeys(places.tolist())]


def _pack(table: "pa.Table") -> str:
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    prompts: dict[int, str] = {}
    for group, prompt in zip(columns["group"], columns["prompt"], strict=True):
        prompts.setdefault(group, prompt)
    places = {group: place for place, group in enumerate(prompts)}
    answers = dict(zip(columns["group"], columns.get("answer", ()), strict=False))
    rewards = [name for name in columns if name.startswith(REWARD_PREFIX)]
    value = {
        "prompts": list(prompts.values()),
        "answers": [answers.get(group) for group in prompts],
        "prompt": [places[group] for group in columns["group"]],
        "rollout": columns["rollout"],
        "completion": columns["completion"],
        "turns": [text and json.loads(text) for text in columns.get("turns", ())],
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
