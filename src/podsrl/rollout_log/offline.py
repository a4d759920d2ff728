"""Down-sampling of rollouts that are already in a file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podslab.tasks.data_files import read_jsonl
from podsrl.downsampling.ragged import downsample_ragged
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import ROLLOUT_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Rollouts:
    """The rollouts of a file, which may be written again as they were.

    where: the file. group_by: the fields that say which group a rollout is of, unless the user
    does. rows: the rollouts; of parquet only what is asked for. source: the lines, or the table.
    """

    where: Path
    group_by: tuple[str, ...]
    rows: Sequence[dict[str, Any]]
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


def read_rollouts(path: Path) -> Rollouts:
    """The rollouts of a JSONL file, of a parquet file, or of a run's folder (or its rollouts/).

    Raises:
        InvalidInputError: there is no such file, or it is damaged, or holds none.
    """
    if path.is_dir():
        folder = path / "rollouts" if (path / "rollouts").is_dir() else path
        files = sorted(folder.glob("*.parquet"))
        if not files:
            raise InvalidInputError(f"{path} holds no rollouts: no rollouts/step_*.parquet")
        return _read_parquet(path, files)
    if path.suffix == ".parquet":
        return _read_parquet(path, [path])
    rows = read_jsonl(path)
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    return Rollouts(path, ("prompt",), rows, lines)


def _read_parquet(where: Path, files: Sequence[Path]) -> Rollouts:
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
    groups = [name for name in ("arm", "seed", "step", "group") if name in table.column_names]
    return Rollouts(where, tuple(groups) if ours else ("prompt",), rows, table)


def select_rollouts(
    rollouts: Rollouts, m: int, rule: str, group_field: str | None, reward_field: str, seed: Any
) -> tuple[list[int], int]:
    """The rollouts that a rule keeps, in the order of the file.

    Groups may differ in size; one of m rollouts or fewer is kept whole. A reward of null means
    that the rollout could not be scored.

    Args:
        rollouts: from `read_rollouts`.
        m: rollouts to keep per group.
        rule: a rule, as in `downsample`.
        group_field: field whose value, of any JSON type, says which group a rollout is of; None
            takes the usual one.
        reward_field: field with the reward.
        seed: as in `downsample`.

    Returns:
        The numbers of the kept rollouts, and the number of groups.

    Raises:
        InvalidInputError: a missing field, or a reward that is no finite number.
    """
    groups: dict[str, list[int]] = {}
    rewards: list[float | None] = []
    fields = (group_field,) if group_field else rollouts.group_by
    for i, row in enumerate(rollouts.rows):
        where = f"{rollouts.where}, rollout {i + 1}"
        for field in fields:
            if row.get(field) in (None, ""):
                raise InvalidInputError(f"{where}: no field {field!r}")
        reward = row.get(reward_field, "missing")
        if reward is not None and (
            isinstance(reward, bool) or not isinstance(reward, (int, float))
        ):
            raise InvalidInputError(
                f"{where}: {reward_field!r} must be a number or null; got {reward!r}"
            )
        rewards.append(reward)
        key = json.dumps([row[field] for field in fields], sort_keys=True, default=str)
        groups.setdefault(key, []).append(i)
    members = list(groups.values())
    chosen = downsample_ragged([[rewards[i] for i in group] for group in members], m, rule, seed)
    kept = [group[j] for group, js in zip(members, chosen, strict=True) for j in js]
    return sorted(kept), len(groups)
