"""Rollouts of other programs, as parquet with the columns that `podsrl.rollout_log` writes.

A file is read row by row and written in small pieces, so that its size does not matter. It is
written twice: which rollouts are of one prompt, and which are kept, is known once all were read.
"""

import json
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from podsrl.errors import InvalidInputError
from podsrl.inspector.grouping import Groups, are_split, group_rollouts
from podsrl.inspector.images import images_of
from podsrl.inspector.keeping import Keep
from podsrl.rewards import as_number, is_number
from podsrl.rollout_log.columns import COLUMNS, REWARD_PREFIX, column_kinds
from podsrl.rollout_log.run_folder import arrow_type
from podsrl.rollout_log.turns import text_of, turns_of

_ROWS = 2_000  # written at a time: a row group
_LARGEST_INTEGER = 2**31 - 1  # of the columns of the index
#: In a group advantages follow the reward on a line; with a correlation below this they don't.
_ON_A_LINE = 0.999
#: Rewards, or advantages, that differ by less are equal but for rounding.
_EQUAL = 1e-5
#: Where they don't in a larger share of groups, the reward is another one.
_OTHER_REWARD = 0.05


@dataclass
class Converted:
    """The findings about a file that was read.

    Args:
        says_kept: Whether it says of any rollout whether it was kept.
        says_advantage: Whether it says the advantage of any rollout.
        notes: What the reader should know.
    """

    says_kept: bool = False
    says_advantage: bool = False
    notes: list[str] = field(default_factory=list)


def as_rollouts(
    rollouts: Iterator[Mapping[str, Any]],
    path: Path,
    keep: Keep,
    target: Path,
    first_group: Callable[[int], int] = lambda step: 0,
) -> Converted:
    """Write the rollouts of a file as those of `podsrl.rollout_log`.

    Args:
        rollouts: Each has prompt, completion and reward, and may have any other column, "group" as
            anything that tells groups apart, and "rewards/<function>".
        path: Where they come from, for messages.
        keep: What is kept where no rollout says so.
        target: The file to write.
        first_group: The number of the first group of a step, where another file has others of it.

    Raises:
        InvalidInputError: A reward is no number, a step is none from 0, or there are no rollouts.
    """
    plain = target.with_suffix(".plain")
    numbers = _Numbers()
    try:
        with _RolloutWriter(plain) as writer:
            for place, row in enumerate(rollouts):
                rollout = _rollout(row, f"{path}, rollout {place + 1}")
                numbers.add(rollout, by_text=row.get("group") is None)
                writer.write(rollout)
        if not numbers.steps:
            raise InvalidInputError(f"{path}: there are no rollouts in it")

        converted = Converted(
            says_kept=numbers.any_says_kept,
            says_advantage=numbers.says_advantage,
        )
        groups = group_rollouts(numbers.steps, numbers.keys, numbers.by_text)
        converted.notes = [
            *_doubts_of_groups(groups, numbers),
            *_doubts_of_reward(groups, numbers),
        ]
        _write_selected(plain, groups, numbers, keep, target, first_group)
    finally:
        plain.unlink(missing_ok=True)
    return converted


class _Numbers:
    """The numbers of each rollout that are remembered while a file is written, in its order."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.keys: list[str] = []
        self.prompts = array("q")  # hashes of their texts
        self.rewards = array("d")
        self.advantages = array("d")
        self.says_kept: list[bool | None] = []
        self.by_text = True
        self._known: dict[str, str] = {}

    @property
    def any_says_kept(self) -> bool:
        """Whether any rollout says whether it was kept; then one that does not was dropped."""
        return any(kept is not None for kept in self.says_kept)

    @property
    def says_advantage(self) -> bool:
        """Whether any rollout has an advantage."""
        return not all(map(math.isnan, self.advantages))

    def add(self, rollout: dict[str, Any], by_text: bool) -> None:
        key = rollout.pop("key")
        self.steps.append(rollout["step"])
        self.keys.append(self._known.setdefault(key, key))  # a prompt's text is held once
        self.prompts.append(hash(rollout["prompt"]))
        self.rewards.append(as_number(rollout["reward"]))
        self.advantages.append(as_number(rollout["advantage"]))
        self.says_kept.append(rollout["kept"])
        self.by_text = self.by_text and by_text


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


def _schema(rollouts: Sequence[Mapping[str, Any]]) -> pa.Schema:
    """The types of the columns; reward functions are those of the first rollouts."""
    names = {column.name for column in COLUMNS}
    for rollout in rollouts:
        names |= {name for name in rollout if name.startswith(REWARD_PREFIX)}
    kinds = column_kinds(sorted(names))
    return pa.schema([(name, arrow_type(kind)) for name, kind in kinds.items()])


def _rollout(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A row as the columns of a rollout, with the "key" of its group."""
    reward = row.get("reward")
    if reward is not None and not is_number(reward):
        raise InvalidInputError(f"{where}: the reward must be a number or null; got {reward!r}")

    prompt = _as_text(row.get("prompt"))
    completion = row.get("completion")
    is_conversation = _is_conversation(completion)
    answer = row.get("answer")
    group = row.get("group")
    parts = {
        name: _number(value)
        for name, value in row.items()
        if name.startswith(REWARD_PREFIX) and is_number(value)
    }
    return {
        "key": _key(prompt, answer) if group is None else str(group),
        "step": _step(row.get("step"), where),
        "group": None,
        "rollout": None,
        "prompt": prompt,
        "completion": text_of(completion if is_conversation else _as_text(completion)),
        "turns": turns_of(completion) if is_conversation else _turns(row.get("turns")),
        "images": images_of(row.get("prompt"), completion, row.get("images")),
        "answer": None if answer is None else _as_text(answer),
        "reward": _number(reward),
        "kept": _truth(row.get("kept")),
        "advantage": _number(row.get("advantage")),
        "tokens": _tokens(row.get("tokens")),
        "cut_off": _truth(row.get("cut_off")),
        "token_ends": _numbers(row.get("token_ends")),
        "token_logprobs": _numbers(row.get("token_logprobs")),
        "token_entropies": _numbers(row.get("token_entropies")),
        **parts,
    }


def _key(prompt: str, answer: Any) -> str:
    """Two questions of one text may have different answers, which tell them apart."""
    return prompt if answer is None else f"{prompt}\0{_as_text(answer)}"


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


def _truth(value: Any) -> bool | None:
    """Yes or no, be it as 1 or 0; None where the file does not say it, or something else."""
    return bool(value) if is_number(value) and value in (0, 1) else None


def _tokens(value: Any) -> int | None:
    """The length of a completion; None where the file does not say it."""
    tokens = as_number(value)
    return round(tokens) if 0 <= tokens <= _LARGEST_INTEGER else None


def _numbers(value: Any) -> list[float] | None:
    """Numbers of the tokens of a completion; None where the file has none, or something else."""
    is_list = isinstance(value, list) and bool(value) and all(is_number(one) for one in value)
    return list(value) if is_list else None


def _turns(value: Any) -> str | None:
    """Turns as `turns_of` writes them. Other programs call their number so, which is none."""
    return text_of(value) if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    """A number as parquet has it: null where there is none, or NaN."""
    number = as_number(value)
    return None if math.isnan(number) else number


def _is_conversation(value: Any) -> bool:
    """Whether it is a list of messages, and not of something else."""
    return isinstance(value, list) and all(isinstance(message, Mapping) for message in value)


def _as_text(value: Any) -> str:
    """A prompt or an answer as text; of a conversation all its messages, with who says them."""
    if isinstance(value, str):
        return text_of(value)
    if _is_conversation(value):
        texts = [text_of([{**message, "role": "assistant"}]) for message in value]
        if len(value) == 1:
            return texts[0]
        roles = [str(message.get("role")) for message in value]
        return "\n\n".join(f"{role}: {text}" for role, text in zip(roles, texts, strict=True))
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _doubts_of_groups(groups: Groups, numbers: _Numbers) -> list[str]:
    """Where one group may be several, or several may be one."""
    if are_split(groups, numbers.prompts):
        return [
            "each rollout is a group of its own, though prompts come again: what was taken for"
            " their groups, or their right answers, may be something else; --group FIELD names a"
            " field that tells groups apart"
        ]
    if not groups.doubtful:
        return []
    (step, group), (size, usual) = next(iter(groups.doubtful.items()))
    prompt = numbers.keys[groups.places[step, group][0]].partition("\0")[0]
    more = len(groups.doubtful) - 1
    return [
        f"in step {step} {size} rollouts have the prompt {_short(prompt)}, and of other prompts"
        f" there are {usual}: they may be {size // usual} questions of one text"
        + (f" (and {more} more like it)" if more else "")
        + "; --group FIELD names a field that tells them apart"
    ]


def _doubts_of_reward(groups: Groups, numbers: _Numbers) -> list[str]:
    """Where the advantages that the file has do not follow the reward that was taken."""
    if not numbers.says_advantage:
        return []
    rewards_R = np.array(numbers.rewards)
    advantages_R = np.array(numbers.advantages)

    compared = 0
    against = 0
    for places in groups.places.values():
        both = [p for p in places if np.isfinite(rewards_R[p]) and np.isfinite(advantages_R[p])]
        if len(both) < 2:
            continue
        away_N = rewards_R[both] - rewards_R[both].mean()
        given_N = advantages_R[both]
        if abs(given_N.mean()) > 0.1 * given_N.std():
            continue  # compared with the rewards of others, too
        if given_N.std() < _EQUAL and away_N.std() < _EQUAL:
            continue

        compared += 1
        spread = away_N.std() * given_N.std()
        correlation = (away_N * given_N).mean() / spread if spread > 0 else 0.0
        against += int(correlation < _ON_A_LINE)
    if not compared or against / compared <= _OTHER_REWARD:
        return []
    return [
        f"of {against} of {compared} prompts the advantages do not follow the reward: it may have"
        " other weights, or not be the reward; --reward right=1,form=0.2 names fields and their"
        " weights"
    ]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= 60 else line[:59] + "…")


def _write_selected(
    plain: Path,
    groups: Groups,
    numbers: _Numbers,
    keep: Keep,
    target: Path,
    first_group: Callable[[int], int],
) -> None:
    """Copy a file with the groups and with what is kept; an advantage that it says itself stays."""
    rows = len(numbers.steps)
    group_R = np.zeros(rows, dtype=np.int64)
    rollout_R = np.zeros(rows, dtype=np.int64)
    for (step, group), places in groups.places.items():
        group_R[places] = first_group(step) + group
        rollout_R[places] = np.arange(len(places))
    kept_R, advantages_R = _selected(groups, numbers, keep)

    with (
        pq.ParquetFile(plain) as file,
        pq.ParquetWriter(
            target, file.schema_arrow, compression="zstd", use_dictionary=["prompt"]
        ) as writer,
    ):
        first = 0
        for batch in file.iter_batches(_ROWS):
            part = slice(first, first + batch.num_rows)
            first += batch.num_rows

            table = pa.Table.from_batches([batch])
            columns = {name: table.column(name) for name in table.column_names}
            columns["group"] = pa.array(group_R[part])
            columns["rollout"] = pa.array(rollout_R[part])
            columns["kept"] = pa.array(kept_R[part])
            columns["advantage"] = pa.array(advantages_R[part], from_pandas=True)
            writer.write_table(pa.table(columns, schema=file.schema_arrow))


def _selected(groups: Groups, numbers: _Numbers, keep: Keep) -> tuple[np.ndarray, np.ndarray]:
    """The kept rollouts and their advantages; NaN where there is none.

    A file that says what was kept has the advantages that it says, and no others. Of one that does
    not, they are what PODS would give, unless it says its own.
    """
    rewards_R = np.array(numbers.rewards, dtype=float)
    advantages_R = np.array(numbers.advantages, dtype=float)
    if numbers.any_says_kept:
        return np.array([bool(kept) for kept in numbers.says_kept]), advantages_R

    kept_R = np.zeros(len(rewards_R), dtype=bool)
    of_steps: dict[int, list[list[int]]] = {}
    for (step, _), places in groups.places.items():
        of_steps.setdefault(step, []).append(places)
    for of_step in of_steps.values():
        in_step = np.concatenate(of_step)
        kept_R[in_step], chosen_advantages = keep.choice([rewards_R[places] for places in of_step])
        if not numbers.says_advantage:
            advantages_R[in_step] = chosen_advantages
    return kept_R, advantages_R
