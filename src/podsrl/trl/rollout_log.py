"""Every rollout on disk, kept or not: one parquet file for each generation."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_NAME = re.compile(r"step_(\d+)(?:-(\d+))?\.parquet")


class RolloutLog:
    """Writes `folder/step_000001.parquet`, ... and keeps their number of rows bounded.

    When the files hold more than `max_rows` rows together, every second logged step is deleted and
    only every second one is logged from then on: the log always spans the whole run. The stride
    follows from the files, so a resumed run goes on with it.

    Args:
        folder: created when the first file is written.
        max_rows: bound on rows over all files.
    """

    def __init__(self, folder: str | os.PathLike[str], max_rows: int) -> None:
        self.folder = Path(folder)
        self.max_rows = max_rows
        self.stride = 1
        self._rows = {path: pq.read_metadata(path).num_rows for path in self._files()}
        while len(steps := self._steps()) > 1 and all(
            (s - 1) % (2 * self.stride) == 0 for s in steps
        ):
            self.stride *= 2

    def write(self, step: int, columns: Mapping[str, Sequence[Any]], part: int = 0) -> None:
        """Log one generation.

        Args:
            step: optimiser step that the rollouts are for, from 1.
            columns: name -> one value per rollout.
            part: number of this generation within the step, from 0.
        """
        if (step - 1) % self.stride:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"step_{step:06d}.parquet" if part == 0 else f"step_{step:06d}-{part}.parquet"
        path = self.folder / name
        table = pa.table(dict(columns))
        unfinished = path.with_suffix(".tmp")
        pq.write_table(table, unfinished, compression="zstd")
        os.replace(unfinished, path)
        self._rows[path] = table.num_rows
        while sum(self._rows.values()) > self.max_rows and len(self._steps()) > 1:
            self._thin()

    def drop_after(self, step: int) -> None:
        """Delete what was logged for steps after `step`: a resumed run logs them again."""
        for path in [p for p in self._rows if self._step(p) > step]:
            path.unlink()
            del self._rows[path]

    def _thin(self) -> None:
        self.stride *= 2
        for path in [p for p in self._rows if (self._step(p) - 1) % self.stride]:
            path.unlink()
            del self._rows[path]

    def _steps(self) -> set[int]:
        return {self._step(path) for path in self._rows}

    def _files(self) -> list[Path]:
        return [p for p in self.folder.glob("step_*.parquet") if _NAME.fullmatch(p.name)]

    @staticmethod
    def _step(path: Path) -> int:
        match = _NAME.fullmatch(path.name)
        assert match is not None
        return int(match.group(1))
