"""A new choice of what PODS would keep of the rollouts in an index, by another rule or m.

It changes the numbers in the index alone. So a choice is seen at once, without reading files again.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from podsrl.inspector.keeping import Keep

if TYPE_CHECKING:
    from podsrl.inspector.index import Run

_PLACE = 'run, file, step, "group", rollout'


def choose_anew(cursor: Any, run: "Run", keep: Keep) -> None:
    """Choose what would be kept, in the files of a run that don't say it.

    Args:
        cursor: A connection to the index.
        run: The run.
        keep: The rule, and how many it keeps.
    """
    says_kept = {}
    says_advantage = {}
    for file in run.files.values():
        if file.converted is not None:
            says_kept[file.number] = file.converted.says_kept
            says_advantage[file.number] = file.converted.says_advantage
    open_files = [number for number, says in says_kept.items() if not says]

    rows = cursor.execute(
        f"SELECT {_PLACE}, reward, advantage FROM rollouts"
        f" WHERE run = ? AND file IN (SELECT unnest(?)) ORDER BY {_PLACE}",
        [run.number, open_files],
    ).fetchnumpy()
    if not len(rows["run"]):
        return

    kept_R = np.zeros(len(rows["run"]), dtype=bool)
    rewards_R, advantages_R = (_with_nan(rows.pop(name)) for name in ("reward", "advantage"))
    of_files, steps, groups = (np.asarray(rows[name]) for name in ("file", "step", "group"))
    for first, end in _runs_of_equal(of_files, steps):
        of_step = slice(first, end)
        in_groups = [
            rewards_R[first + start : first + stop]
            for start, stop in _runs_of_equal(groups[of_step])
        ]
        kept_R[of_step], chosen_advantages = keep.choice(in_groups)
        if not says_advantage[int(of_files[first])]:
            advantages_R[of_step] = chosen_advantages

    known = {name: pa.array(np.asarray(values)) for name, values in rows.items()}
    chosen = {"kept": pa.array(kept_R), "advantage": pa.array(advantages_R, from_pandas=True)}
    cursor.register("chosen", pa.table({**known, **chosen}))
    same = " AND ".join(f"rollouts.{name} = chosen.{name}" for name in _PLACE.split(", "))
    cursor.execute(
        "UPDATE rollouts SET kept = chosen.kept, advantage = chosen.advantage"
        f" FROM chosen WHERE {same}"
    )
    cursor.unregister("chosen")


def _with_nan(values: np.ndarray) -> np.ndarray:
    """The numbers of a query's column, with NaN for missing ones."""
    return np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)


def _runs_of_equal(*columns: np.ndarray) -> list[tuple[int, int]]:
    """The first and the end of each run of rows that are equal in all columns."""
    changes = np.zeros(len(columns[0]) - 1, dtype=bool)
    for column in columns:
        changes |= column[1:] != column[:-1]
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(columns[0])]
    return list(pairwise(bounds))
