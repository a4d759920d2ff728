"""TRL's table of completions (`log_completions`), with the dropped rollouts and a column `kept`.

TRL's method writes the table to a file, to the terminal, to wandb and to trackio, from what the
trainer holds in `_logs`. It gets ours for as long as it does. TensorBoard gets none from TRL.
"""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from accelerate.utils import gather_object
from transformers.integrations import TensorBoardCallback

from podsrl.rollout_log.turns import text_of
from podsrl.trl.columns import extra_logs_of
from podsrl.trl.generation import Selected

#: Rows and characters of a text that TensorBoard gets; it draws the whole table for each step.
_ROWS = 64
_CHARACTERS = 1_000

#: What means something in a cell of Markdown.
_MARKDOWN = str.maketrans({c: f"&#{ord(c)};" for c in "\\|`*_[]"} | {"\n": "<br>"})

Logs = dict[str, Any]


def with_dropped(logs: Mapping[str, Any], selected: Selected, names_F: Sequence[str]) -> Logs:
    """What TRL's trainer holds of a generation for its table, followed by the dropped rollouts.

    All processes must call it, as TRL gathers texts, too.

    Args:
        logs: TRL's `_logs` after its method: the kept rows are the last ones.
        selected: What was kept.
        names_F: The names of the reward functions.
    """
    rollouts = selected.rollouts
    dropped_P_N = ~selected.kept_P_N
    is_dropped = dropped_P_N.ravel()[rollouts.share]
    own = np.flatnonzero(is_dropped).tolist()  # the dropped ones of this process's share

    def of_dropped(column: Sequence[Any] | None) -> list[Any]:
        values = [column[index] for index in own] if column else [None] * len(own)
        gathered: list[Any] = gather_object(values)
        return gathered

    rows = int(selected.kept_P_N.sum())
    dropped = int(dropped_P_N.sum())
    rewards_F_D = rollouts.by_function_P_N_F[dropped_P_N].T.tolist()
    extra = extra_logs_of(rollouts.columns)
    images = _last(logs.get("images", ()), rows)
    return {
        "prompt": _last(logs["prompt"], rows) + of_dropped(rollouts.columns["prompt"]),
        "completion": _last(logs["completion"], rows) + of_dropped(rollouts.columns["completion"]),
        "rewards": {
            name: _last(logs["rewards"][name], rows) + rewards_D
            for name, rewards_D in zip(names_F, rewards_F_D, strict=True)
        },
        "advantages": _last(logs["advantages"], rows) + [math.nan] * dropped,
        "extra": {
            "kept": [True] * rows + [False] * dropped,
            **{
                name: _last(logs["extra"][name], rows) + of_dropped(extra[name])
                for name in sorted(extra)
            },
        },
        "images": images + [None] * dropped if images else [],
    }


def _last(column: Iterable[Any], rows: int) -> list[Any]:
    return list(column)[-rows:]


def write_to_tensorboard(callbacks: Iterable[Any], logs: Logs, step: int) -> None:
    """Write the table as text, where a run reports to TensorBoard; the first rows of it."""
    for callback in callbacks:
        writer = getattr(callback, "tb_writer", None)
        if isinstance(callback, TensorBoardCallback) and writer is not None:
            writer.add_text("completions", as_markdown(logs), step)


def as_markdown(logs: Logs) -> str:
    """The table in Markdown: half of its rows kept and half dropped, as far as there are any.

    What models wrote is escaped, so that it stays text, and stays in its cell.
    """
    kept = logs["extra"]["kept"]
    kept_places = [place for place, is_kept in enumerate(kept) if is_kept is True]
    dropped_places = [place for place, is_kept in enumerate(kept) if is_kept is False]
    places = kept_places[: _ROWS // 2] + dropped_places[: _ROWS // 2]

    columns: dict[str, Sequence[Any]] = {
        "kept": kept,
        "prompt": logs["prompt"],
        "completion": logs["completion"],
        **logs["rewards"],
        "advantage": logs["advantages"],
    }
    lines = [_line(columns), _line(["---"] * len(columns))]
    for place in places:
        lines.append(_line([column[place] for column in columns.values()]))
    return "\n".join(lines)


def _line(values: Iterable[Any]) -> str:
    return "| " + " | ".join(map(_cell, values)) + " |"


def _cell(value: Any) -> str:
    """A value as the text of a cell."""
    if isinstance(value, list):  # a conversation
        value = "\n".join(text_of([{**message, "role": "assistant"}]) for message in value)
    elif isinstance(value, float):
        value = None if math.isnan(value) else f"{value:.4g}"
    text = html.escape("" if value is None else str(value)[:_CHARACTERS])
    return text.translate(_MARKDOWN)
