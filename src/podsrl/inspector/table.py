"""Rollouts as a data frame, for programs and notebooks."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from podsrl.errors import InvalidInputError, MissingDependencyError
from podsrl.inspector.index import Index, Run
from podsrl.inspector.sources import Options, find_sources


def rollouts_frame(
    paths: Sequence[Path], options: Options, steps: Collection[int] | None, kept: bool | None
) -> Any:
    """The rollouts of runs as a pandas data frame, by run, step, group and rollout.

    Raises:
        InvalidInputError: There are none, or a file can't be read.
        MissingDependencyError: pandas is not installed.
    """
    try:
        import pandas  # noqa: F401 (what to_pandas needs)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "a data frame needs pandas, which is not installed: pip install pandas"
        ) from error

    index = Index(lambda: find_sources(paths, options))
    try:
        index.refresh(steps=steps)
        damaged = [why for run in index.runs for why in run.damaged.values()]
        if damaged:
            raise InvalidInputError(damaged[0])
        tables = [_table_of(run, steps, kept) for run in index.runs if run.files]
    finally:
        index.close()
    if not tables:
        raise InvalidInputError(f"no rollouts in {', '.join(map(str, paths))}")

    table = pa.concat_tables(tables, promote_options="permissive")
    order = [(name, "ascending") for name in ("run", "step", "group", "rollout")]
    return table.sort_by(order).to_pandas()


def _table_of(run: Run, steps: Collection[int] | None, kept: bool | None) -> Any:
    """The rollouts of a run, with the labels and notes that people gave them."""
    parts = []
    for file in run.files.values():
        table = pq.read_table(file.readable)
        if steps is not None:
            table = table.filter(pc.field("step").isin(list(steps)))
        if kept is not None:
            table = table.filter(pc.field("kept") == kept)
        parts.append(table)
    table = pa.concat_tables(parts, promote_options="permissive")

    places = zip(*(table[name].to_pylist() for name in ("step", "group", "rollout")), strict=True)
    marks = [run.marks.get(place) for place in places]
    name = pa.array([run.source.name] * len(table), pa.string())
    table = table.add_column(0, "run", name)
    for word in ("label", "note"):
        said = [getattr(mark, word) if mark else None for mark in marks]
        table = table.append_column(word, pa.array(said, pa.string()))
    return table
