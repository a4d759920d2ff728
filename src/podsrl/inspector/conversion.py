"""Rollouts of other programs, as parquet with the columns that `podsrl.rollout_log` writes.

A file is read row by row and written in small pieces, so that its size does not matter.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from podsrl.advantages import group_advantages
from podsrl.errors import InvalidInputError, needed
from podsrl.rewards import as_number, is_number
from podsrl.rollout_log.files import json_object
from podsrl.rollout_log.run_folder import OPTIONAL_COLUMNS, REWARD_PREFIX, ROLLOUT_COLUMNS
from podsrl.rollout_log.turns import text_of, turns_of
from podsrl.selection import Selection

_ROWS = 2_000  # written at a time: a row group

#: What programs call the fields that are shown, in the order in which they are looked for.
_NAMES = {
    "prompt": ("prompt", "input", "question", "query"),
    "completion": ("completion", "output", "response", "answer_text"),
    "reward": ("reward", "score"),
    "answer": ("answer", "gts", "label", "ground_truth"),
}


@dataclass(frozen=True)
class Keep:
    """What `max_variance` is asked to keep of groups of which nothing says what was kept.

    Args:
        num_kept: The rollouts that are kept of each prompt; None: a quarter, and at least 2.
    """

    num_kept: int | None = None

    def __str__(self) -> str:
        share = f"{self.num_kept}" if self.num_kept else "a quarter, and at least 2,"
        return f"what max_variance would keep: {share} of each prompt (--keep M)"

    def of(self, rewards_N: np.ndarray) -> list[int]:
        """The places that are kept of a group's rewards, shape (N,); NaN has no reward."""
        kept = self.num_kept or max(2, len(rewards_N) // 4)
        if len(rewards_N) <= kept:
            return list(range(len(rewards_N)))
        return Selection(len(rewards_N), kept, baseline="group").select([rewards_N.tolist()])[0]


def rows_of_file(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSONL or parquet file."""
    if path.suffix == ".parquet":
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_ROWS):
                    yield from batch.to_pylist()
        except pa.ArrowException as error:
            raise InvalidInputError(f"{path} is damaged: {error}") from error
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield json_object(line.removeprefix(b"\xef\xbb\xbf"), f"{path}, line {number}")


def rows_of_verl(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of verl's dump of a step; numbers of its reward function are parts of the reward."""
    known = {"input", "output", "gts", "score", "step", "kept", "uid", "request_id"}
    for row in rows_of_file(path):
        parts = {
            REWARD_PREFIX + name: value
            for name, value in row.items()
            if name not in known and is_number(value)
        }
        yield {
            "step": row.get("step", int(path.stem)),
            # podsrl writes verl's key of a row, "{uid of the prompt}_{session}_{index}".
            "group": str(row["uid"]).rsplit("_", 2)[0] if "uid" in row else None,
            "prompt": row.get("input"),
            "completion": row.get("output"),
            "reward": row.get("score"),
            "answer": row.get("gts"),
            "kept": row.get("kept"),
            **parts,
        }


def rows_of_slime(path: Path) -> Iterator[dict[str, Any]]:
    """The samples of a file of slime's, which are dictionaries of `slime.utils.types.Sample`."""
    with needed("trl"):
        import torch

    # Only plain values are unpickled: a file of strangers can't run code.
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        samples = saved["samples"]
    except Exception as error:
        raise InvalidInputError(
            f"{path} is no file of slime's debug rollout data that can be read safely: {error}"
        ) from error

    for sample in samples:
        metadata = sample.get("metadata") or {}
        reward = sample.get("reward")
        parts = {}
        if isinstance(reward, Mapping):
            parts = {REWARD_PREFIX + str(k): v for k, v in reward.items() if is_number(v)}
            reward = reward.get("score", next(iter(parts.values()), None))
        yield {
            "step": int(saved.get("rollout_id", 0)) + 1,
            "group": sample.get("group_index"),
            "prompt": sample.get("prompt"),
            "completion": sample.get("response"),
            "reward": reward,
            "answer": sample.get("label"),
            "tokens": sample.get("response_length"),
            "advantage": metadata.get("pods_advantage"),
            "kept": True if "pods_advantage" in metadata else None,
            **parts,
        }


def as_rollouts(rows: Iterator[Mapping[str, Any]], path: Path, keep: Keep, target: Path) -> None:
    """Write rows as rollouts of `podsrl.rollout_log`.

    Args:
        rows: Each has prompt, completion and reward, under one of the names in `_NAMES`, and may
            have step, group, kept, advantage, tokens, answer and "rewards/<function>".
        path: Where they come from, for messages.
        keep: What is kept where no row says so.
        target: The file to write.

    Raises:
        InvalidInputError: A row lacks a field, or its reward is no number.
    """
    plain = target.with_suffix(".plain")
    groups: dict[tuple[int, str], list[int]] = {}  # the places of each group's rollouts
    rewards: list[float] = []
    said: list[bool | None] = []
    writer: pq.ParquetWriter | None = None
    pending: list[dict[str, Any]] = []
    schema = pa.schema([])

    def flush() -> None:
        nonlocal writer, schema
        if writer is None:
            schema = _schema(pending)
            writer = pq.ParquetWriter(plain, schema, compression="zstd", use_dictionary=["prompt"])
        writer.write_table(pa.Table.from_pylist(pending, schema))
        pending.clear()

    numbers: dict[int, dict[str, int]] = {}  # of the groups in each step
    for place, row in enumerate(rows):
        rollout = _rollout(row, f"{path}, rollout {place + 1}")
        key = rollout.pop("key")
        of_step = numbers.setdefault(rollout["step"], {})
        rollout["group"] = of_step.setdefault(key, len(of_step))
        places = groups.setdefault((rollout["step"], key), [])
        rollout["rollout"] = len(places)

        places.append(place)
        rewards.append(as_number(rollout["reward"]))
        said.append(rollout["kept"])
        pending.append(rollout)
        if len(pending) == _ROWS:
            flush()

    if pending:
        flush()
    if writer is None:
        raise InvalidInputError(f"{path}: there are no rollouts in it")
    writer.close()

    kept, advantages = _selected(groups, np.array(rewards, dtype=float), said, keep)
    _add_selection(plain, kept, advantages, target)
    plain.unlink()


def _rollout(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A row as the columns of a rollout, with the "key" of its group."""
    found = {}
    for field, names in _NAMES.items():
        name = next((name for name in names if name in row), None)
        if name is None and field != "answer":
            given = ", ".join(map(repr, row))
            raise InvalidInputError(
                f"{where}: no field {field!r} (nor {', '.join(names[1:])}); it has {given}"
            )
        found[field] = None if name is None else row[name]

    reward = found["reward"]
    if reward is not None and not is_number(reward):
        raise InvalidInputError(f"{where}: the reward must be a number or null; got {reward!r}")
    prompt = _as_text(found["prompt"])
    completion = found["completion"]
    is_conversation = isinstance(completion, list)
    group = row.get("group", row.get("group_index"))
    kept = row.get("kept")
    advantage = row.get("advantage")
    tokens = row.get("tokens")
    return {
        "key": prompt if group is None else str(group),
        "step": int(row.get("step") or 1),
        "prompt": prompt,
        "completion": text_of(completion if is_conversation else _as_text(completion)),
        "turns": turns_of(completion) if is_conversation else row.get("turns"),
        "answer": None if found["answer"] is None else _as_text(found["answer"]),
        "reward": _number(reward),
        "kept": kept if isinstance(kept, bool) else None,
        "advantage": _number(advantage),
        "tokens": None if _number(tokens) is None else round(as_number(tokens)),
        **{
            name: _number(value)
            for name, value in row.items()
            if name.startswith(REWARD_PREFIX) and is_number(value)
        },
    }


def _number(value: Any) -> float | None:
    """A number as parquet has it: null where there is none, or NaN."""
    number = as_number(value)
    return None if math.isnan(number) else number


def _as_text(value: Any) -> str:
    """A prompt or an answer as text; of a conversation all its messages."""
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, list) and all(isinstance(message, Mapping) for message in value):
        return "\n\n".join(text_of([{**message, "role": "assistant"}]) for message in value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _schema(rollouts: list[dict[str, Any]]) -> pa.Schema:
    """The types of the columns; reward functions are those of the first rollouts."""
    kinds = {name: kind for name, (kind, _) in {**ROLLOUT_COLUMNS, **OPTIONAL_COLUMNS}.items()}
    for rollout in rollouts:
        kinds |= {name: "float64" for name in rollout if name.startswith(REWARD_PREFIX)}
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in kinds.items()])


def _selected(
    groups: Mapping[tuple[int, str], list[int]],
    rewards_R: np.ndarray,
    said_R: list[bool | None],
    keep: Keep,
) -> tuple[np.ndarray, np.ndarray]:
    """What is kept, and with which advantages; NaN of those that are dropped."""
    kept_R = np.zeros(len(rewards_R), dtype=bool)
    advantages_R = np.full(len(rewards_R), math.nan)

    for places in groups.values():
        rewards_N = rewards_R[places]
        said_N = [said_R[place] for place in places]
        if any(said is not None for said in said_N):
            kept = [number for number, said in enumerate(said_N) if said]
        else:
            kept = keep.of(rewards_N)

        if kept:
            kept_places = np.array(places)[kept]
            kept_R[kept_places] = True
            # A file may say of an infinite reward that it was kept; its advantage is not known.
            finite_N = np.where(np.isfinite(rewards_N), rewards_N, math.nan)
            advantages_R[kept_places] = group_advantages(finite_N, np.array(kept))

    return kept_R, advantages_R


def _add_selection(plain: Path, kept_R: np.ndarray, advantages_R: np.ndarray, target: Path) -> None:
    """Copy a file with what was selected; an advantage that it says itself stays."""
    with (
        pq.ParquetFile(plain) as file,
        pq.ParquetWriter(
            target, file.schema_arrow, compression="zstd", use_dictionary=["prompt"]
        ) as writer,
    ):
        first = 0
        for batch in file.iter_batches(_ROWS):
            rows = slice(first, first + batch.num_rows)
            first += batch.num_rows

            table = pa.Table.from_batches([batch])
            columns = {name: table.column(name) for name in table.column_names}
            columns["kept"] = pa.array(kept_R[rows])
            known = columns["advantage"].to_numpy().astype(float)
            filled = np.where(np.isnan(known), advantages_R[rows], known)
            columns["advantage"] = pa.array(filled, from_pandas=True)

            writer.write_table(pa.table(columns, schema=file.schema_arrow))
