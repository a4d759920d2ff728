"""Down-sampling of rollouts that are already in a file."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from podsrl.downsampling import Rule, downsample, is_batch_rule, resolve_rule
from podsrl.downsampling.doors import keep_rows
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import ROLLOUT_COLUMNS
from podsrl.selection import padded

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SavedRollouts:
    """The rollouts of a file, which may be written again as they were.

    where: The file or folder.
    group_by: The fields that say which group a rollout belongs to, unless the user names one.
    rows: The rollouts; those of parquet without their completions.
    source: The lines of the file, or its table.
    """

    where: Path
    group_by: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]
    source: "list[str] | pa.Table"

    def text(self, kept: Sequence[int]) -> str | None:
        """These lines; None for parquet."""
        if not isinstance(self.source, list):
            return None
        return "".join(self.source[i] + "\n" for i in kept)

    def write(self, path: Path, kept: Sequence[int]) -> None:
        """Write these rollouts to a file of the same kind."""
        text = self.text(kept)
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(text, encoding="utf-8")
        else:
            import pyarrow.parquet as pq

            pq.write_table(self.source.take(kept), path, compression="zstd")  # type: ignore[union-attr]


def read_rollouts(path: Path) -> SavedRollouts:
    """The rollouts of a JSONL file, of a parquet file, or of a run's folder (or its rollouts/).

    Raises:
        InvalidInputError: There is no such file, or it is damaged, or holds none.
    """
    if path.is_dir():
        folder = path / "rollouts" if (path / "rollouts").is_dir() else path
        files = sorted(folder.glob("*.parquet"))
        if not files:
            raise InvalidInputError(f"{path} holds no rollouts: no rollouts/step_*.parquet")
        return _read_parquet(path, files)
    if path.suffix == ".parquet":
        return _read_parquet(path, [path])
    return _read_lines(path)


def _read_lines(path: Path) -> SavedRollouts:
    if not path.is_file():
        raise InvalidInputError(f"no file {path}")
    lines, rows = [], []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            rows.append(json.loads(lines[-1]))
        except ValueError as error:  # broken JSON, or bytes that are not UTF-8
            raise InvalidInputError(f"{path}, line {number}: not JSON ({error})") from error
        if not isinstance(rows[-1], dict):
            raise InvalidInputError(f"{path}, line {number}: not a JSON object")
    if not rows:
        raise InvalidInputError(f"{path}: there are no rollouts in it")
    return SavedRollouts(path, ("prompt",), rows, lines)


def _read_parquet(where: Path, files: Sequence[Path]) -> SavedRollouts:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for file in files:
        try:
            tables.append(pq.read_table(file))
        except FileNotFoundError as error:
            raise InvalidInputError(f"no file {file}") from error
        except (pa.ArrowInvalid, OSError) as error:
            raise InvalidInputError(f"{file} is damaged: {error}") from error
    table = pa.concat_tables(tables, promote_options="default")
    if not table.num_rows:
        raise InvalidInputError(f"{where}: there are no rollouts in it")
    ours = {*ROLLOUT_COLUMNS} <= {*table.column_names}
    cheap = [name for name in table.column_names if name != "completion"]
    rows = table.select(cheap).to_pylist()
    return SavedRollouts(where, ("step", "group") if ours else ("prompt",), rows, table)


def select_rollouts(
    rollouts: SavedRollouts,
    keep: int,
    rule: str | Rule,
    group_field: str | None,
    reward_field: str,
    seed: int | None,
) -> tuple[list[int], int]:
    """The rollouts that a rule keeps, in the order of the file, and the number of groups.

    Groups may differ in size; a group rule keeps one of `keep` rollouts or fewer whole. A reward of
    null means that the rollout could not be scored.

    Args:
        rollouts: What `read_rollouts` gave.
        keep: The number of rollouts to keep of each group; with a batch rule, of the whole file.
        rule: A rule of either kind.
        group_field: The field whose value, of any JSON type, says which group a rollout belongs to;
            None takes the usual one.
        reward_field: The field with the reward.
        seed: As in `downsample`.

    Raises:
        InvalidInputError: A missing field, or a reward that is no finite number.
        UnknownNameError: There is no such rule.
    """
    fields = (group_field,) if group_field else rollouts.group_by
    members: dict[str, list[int]] = defaultdict(list)
    rewards: dict[str, list[float]] = defaultdict(list)
    for i, row in enumerate(rollouts.rows):
        where = f"{rollouts.where}, rollout {i + 1}"
        for field in fields:
            if row.get(field) in (None, ""):
                raise InvalidInputError(f"{where}: no field {field!r}")
        key = json.dumps([row[field] for field in fields], sort_keys=True, default=str)
        members[key].append(i)
        rewards[key].append(_reward(row.get(reward_field, "missing"), where, reward_field))
    rewards_P_N, there_P_N = padded(list(rewards.values()))
    if is_batch_rule(resolve_rule(rule)):
        kept_P_N = keep_rows(rewards_P_N, there_P_N, keep, rule, seed)
    else:
        kept_P_N = there_P_N.copy()
        sizes = there_P_N.sum(axis=1)
        for size in np.unique(sizes[sizes > keep]):
            places = np.flatnonzero(sizes == size)
            kept_P_N[places] = False
            kept_P_M = downsample(rewards_P_N[places, :size], keep, rule, seed)
            kept_P_N[places[:, None], kept_P_M] = True
    groups = list(members.values())
    return sorted(groups[g][i] for g, i in np.argwhere(kept_P_N)), len(groups)


def _reward(reward: Any, where: str, field: str) -> float:
    if reward is None:
        return np.nan
    if isinstance(reward, bool) or not isinstance(reward, (int, float)):
        raise InvalidInputError(f"{where}: {field!r} must be a number or null; got {reward!r}")
    return float(reward) if abs(reward) < 1e300 else np.inf  # which is refused
