"""Rollouts of other programs, as parquet with the columns that `podsrl.rollout_log` writes.

A file is read row by row and written in small pieces, so that its size does not matter.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from podsrl.advantages import group_advantages
from podsrl.errors import FieldError, InvalidInputError, needed
from podsrl.rewards import as_number, is_number
from podsrl.rollout_log.files import json_object
from podsrl.rollout_log.run_folder import OPTIONAL_COLUMNS, REWARD_PREFIX, ROLLOUT_COLUMNS
from podsrl.rollout_log.turns import text_of, turns_of
from podsrl.selection import Selection

_ROWS = 2_000  # written at a time: a row group
_LARGEST_INTEGER = 2**31 - 1  # of the columns of the index

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
        num_kept: The rollouts that are kept of each prompt, 2 or more; None: a quarter, and at
            least 2.

    Raises:
        FieldError: It is no integer, or less than 2.
    """

    num_kept: int | None = None

    def __post_init__(self) -> None:
        if self.num_kept is None:
            return
        if not isinstance(self.num_kept, Integral) or self.num_kept < 2:
            raise FieldError(
                "$num_kept must be an integer >= 2, as one kept rollout has no other to compare"
                " with; got $given",
                given=repr(self.num_kept),
            )

    def __str__(self) -> str:
        share = "a quarter, and at least 2," if self.num_kept is None else f"{self.num_kept}"
        return f"what max_variance would keep: {share} of each prompt (--keep M)"

    def of(self, rewards_N: np.ndarray) -> list[int]:
        """The places that are kept of a group's rewards, shape (N,); NaN has no reward."""
        kept = max(2, len(rewards_N) // 4) if self.num_kept is None else self.num_kept
        if len(rewards_N) <= kept:
            return list(range(len(rewards_N)))
        return Selection(len(rewards_N), kept).select([rewards_N.tolist()])[0]


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
        InvalidInputError: A row lacks a field, its reward is no number, or its step none from 0.
    """
    plain = target.with_suffix(".plain")
    places_of_group: dict[tuple[int, str], list[int]] = {}  # by step and key, in the whole file
    number_of_group: dict[int, dict[str, int]] = {}  # by step and key, within the step
    rewards: list[float] = []
    says_kept: list[bool | None] = []

    with _RolloutWriter(plain) as writer:
        for place, row in enumerate(rows):
            rollout = _rollout(row, f"{path}, rollout {place + 1}")
            key = rollout.pop("key")
            step = rollout["step"]

            places = places_of_group.setdefault((step, key), [])
            numbers = number_of_group.setdefault(step, {})
            rollout["group"] = numbers.setdefault(key, len(numbers))
            rollout["rollout"] = len(places)
            writer.write(rollout)

            places.append(place)
            rewards.append(as_number(rollout["reward"]))
            says_kept.append(rollout["kept"])

    if not rewards:
        raise InvalidInputError(f"{path}: there are no rollouts in it")
    kept, advantages = _selected(
        places_of_group.values(), np.array(rewards, dtype=float), says_kept, keep
    )
    _add_selection(plain, kept, advantages, target)
    plain.unlink()


class _RolloutWriter:
    """Writes rollouts one by one to a parquet file, some thousands at a time.

    Without a rollout it makes no file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: list[dict[str, Any]] = []
        self._file: pq.ParquetWriter | None = None
        self._schema = pa.schema([])

    def __enter__(self) -> "_RolloutWriter":
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self._waiting and error is None:
            self._flush()
        if self._file is not None:
            self._file.close()

    def write(self, rollout: dict[str, Any]) -> None:
        """Add a rollout."""
        self._waiting.append(rollout)
        if len(self._waiting) == _ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._file is None:
            self._schema = _schema(self._waiting)
            self._file = pq.ParquetWriter(
                self._path, self._schema, compression="zstd", use_dictionary=["prompt"]
            )
        self._file.write_table(pa.Table.from_pylist(self._waiting, self._schema))
        self._waiting.clear()


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
    is_conversation = _is_conversation(completion)
    group = row.get("group", row.get("group_index"))
    kept = row.get("kept")
    parts = {
        name: _number(value)
        for name, value in row.items()
        if name.startswith(REWARD_PREFIX) and is_number(value)
    }
    return {
        "key": prompt if group is None else str(group),
        "step": _step(row.get("step"), where),
        "prompt": prompt,
        "completion": text_of(completion if is_conversation else _as_text(completion)),
        "turns": turns_of(completion) if is_conversation else _turns(row.get("turns")),
        "answer": None if found["answer"] is None else _as_text(found["answer"]),
        "reward": _number(reward),
        "kept": kept if isinstance(kept, bool) else None,
        "advantage": _number(row.get("advantage")),
        "tokens": _tokens(row.get("tokens")),
        **parts,
    }


def _step(value: Any, where: str) -> int:
    """The step of a rollout; 1 where the file does not say it."""
    if value is None or value == "":
        return 1
    try:
        step = float(value)
    except (TypeError, ValueError, OverflowError):
        step = math.nan
    if not (step.is_integer() and 0 <= step <= _LARGEST_INTEGER):
        raise InvalidInputError(f"{where}: the step must be a whole number from 0; got {value!r}")
    return int(step)


def _tokens(value: Any) -> int | None:
    """The length of a completion; None where the file does not say it."""
    tokens = as_number(value)
    return round(tokens) if 0 <= tokens <= _LARGEST_INTEGER else None


def _turns(value: Any) -> str | None:
    """Turns as `turns_of` writes them. Other programs call their number so, which is none."""
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    """A number as parquet has it: null where there is none, or NaN."""
    number = as_number(value)
    return None if math.isnan(number) else number


def _is_conversation(value: Any) -> bool:
    """Whether it is a list of messages, and not of something else."""
    return isinstance(value, list) and all(isinstance(message, Mapping) for message in value)


def _as_text(value: Any) -> str:
    """A prompt or an answer as text; of a conversation all its messages."""
    if isinstance(value, str):
        return text_of(value)
    if _is_conversation(value):
        return "\n\n".join(text_of([{**message, "role": "assistant"}]) for message in value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _schema(rollouts: list[dict[str, Any]]) -> pa.Schema:
    """The types of the columns; reward functions are those of the first rollouts."""
    kinds = {name: kind for name, (kind, _) in {**ROLLOUT_COLUMNS, **OPTIONAL_COLUMNS}.items()}
    for rollout in rollouts:
        kinds |= {name: "float64" for name in rollout if name.startswith(REWARD_PREFIX)}
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in kinds.items()])


def _selected(
    groups: Iterable[list[int]],
    rewards_R: np.ndarray,
    says_kept_R: list[bool | None],
    keep: Keep,
) -> tuple[np.ndarray, np.ndarray]:
    """What is kept, and with which advantages; NaN of those that are dropped.

    Args:
        groups: The places of each group's rollouts in the file.
        rewards_R: The reward of each rollout of the file, shape (R,).
        says_kept_R: Whether the file says that it was kept; None where it does not say.
        keep: How to choose in groups of which it says nothing.
    """
    kept_R = np.zeros(len(rewards_R), dtype=bool)
    advantages_R = np.full(len(rewards_R), math.nan)

    for places in groups:
        rewards_N = rewards_R[places]
        says_kept_N = [says_kept_R[place] for place in places]
        if any(says_kept is not None for says_kept in says_kept_N):
            kept = [number for number, says_kept in enumerate(says_kept_N) if says_kept]
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
