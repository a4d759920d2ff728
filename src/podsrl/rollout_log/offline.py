"""Rollouts that are already in a file, read and written as they are."""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.files import json_object, write_whole
from podsrl.selection import as_number, is_number

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SavedRollouts:
    """The rollouts of a file.

    where: The file or folder.
    rows: The rollouts; those of parquet without their completions.
    source: The lines of the file, or its table.
    """

    where: Path
    rows: Sequence[Mapping[str, Any]]
    source: "list[str] | pa.Table"

    def grouped(self, group_by: str | None, reward: str) -> list[dict[int, float]]:
        """The rewards of each group, by the place of the rollout in the file.

        Args:
            group_by: The field whose value, of any JSON type, says which group a rollout belongs
                to; None: the prompt, or in a file of ours the step and group.
            reward: The field with the reward; null, or NaN, of one that could not be scored.

        Raises:
            InvalidInputError: A missing field, or a reward that is no number.
        """
        ours = {"step", "group", "rollout"} <= set(self.rows[0])
        fields = [group_by] if group_by else ["step", "group"] if ours else ["prompt"]
        groups: dict[str, dict[int, float]] = defaultdict(dict)
        for place, row in enumerate(self.rows):
            where = f"{self.where}, rollout {place + 1}"
            for field in fields:
                if row.get(field) in (None, ""):
                    raise InvalidInputError(f"{where}: no field {field!r}")
            value = row.get(reward, "missing")
            if value is not None and not is_number(value):
                raise InvalidInputError(
                    f"{where}: {reward!r} must be a number or null; got {value!r}"
                )
            key = json.dumps([row[field] for field in fields], sort_keys=True, default=str)
            groups[key][place] = as_number(value)
        return list(groups.values())

    def write(self, path: Path | None, kept: Sequence[int]) -> None:
        """Write these rollouts to a file of the same kind; without a path, print the lines."""
        if isinstance(self.source, list):
            text = "".join(self.source[place] + "\n" for place in kept)
            if path:
                write_whole(path, text.encode())
            else:
                sys.stdout.write(text)
        elif path:
            import pyarrow.parquet as pq

            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(self.source.take(kept), path, compression="zstd")
        else:
            raise InvalidInputError("parquet can't be printed; say where to write with --output")


def read_rollouts(path: Path) -> SavedRollouts:
    """The rollouts of a JSONL file, of a parquet file, or of a run's folder (or its rollouts/).

    Raises:
        InvalidInputError: There is no such file, or it is damaged, or holds none.
    """
    files = [path] if path.is_file() else []
    if path.is_dir():
        files = sorted(path.glob("rollouts/*.parquet")) or sorted(path.glob("*.parquet"))
    if not files:
        what = "no rollouts/step_*.parquet in" if path.is_dir() else "no file"
        raise InvalidInputError(f"{what} {path}")
    if files[0].suffix == ".parquet":
        found = _read_parquet(path, files)
    else:
        numbered = enumerate(path.read_bytes().split(b"\n"), start=1)
        lines = {f"{path}, line {number}": line for number, line in numbered if line.strip()}
        rows = [json_object(line, where) for where, line in lines.items()]
        found = SavedRollouts(path, rows, [line.decode("utf-8-sig") for line in lines.values()])
    if not found.rows:
        raise InvalidInputError(f"{path}: there are no rollouts in it")
    return found


def _read_parquet(where: Path, files: Sequence[Path]) -> SavedRollouts:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for file in files:
        try:
            tables.append(pq.read_table(file))
        except (pa.ArrowInvalid, OSError) as error:
            raise InvalidInputError(f"{file} is damaged: {error}") from error
    table = pa.concat_tables(tables, promote_options="default")
    cheap = [name for name in table.column_names if name != "completion"]
    return SavedRollouts(where, table.select(cheap).to_pylist(), table)
