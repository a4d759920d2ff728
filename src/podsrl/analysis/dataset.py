"""The rollouts of runs as a folder for a data set repository: parquet files and their card."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from podsrl import __version__
from podsrl.analysis.load_runs import Arm, Comparison, Run
from podsrl.errors import InvalidInputError
from podsrl.runs.cards import PAPER, table, told
from podsrl.runs.folder import OPTIONAL_COLUMNS, REWARD_PREFIX, ROLLOUT_COLUMNS
from podsrl.runs.json_files import write_whole

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = {
    "arm": ("string", "algorithm of the run; its settings stand above"),
    "seed": ("int64", "of the run"),
    **ROLLOUT_COLUMNS,
    **OPTIONAL_COLUMNS,
}


def refuse_used(folder: Path) -> None:
    """Refuse a folder with files in it: old rollouts would be published among the new ones."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(f"--dataset {folder} is not empty; name a folder that is new")


def write_dataset(comparison: Comparison, folder: str | Path, title: str) -> int:
    """Write data/*.parquet, one file per run, and a card; `datasets.load_dataset` reads the folder.

    A file is written step by step, so that memory holds one step. Steps whose file is damaged are
    left out with a `DamagedFileWarning`.

    Returns:
        how many rollouts were written.

    Raises:
        InvalidInputError: the folder is not empty, or the runs hold no rollouts.
    """
    import pyarrow as pa

    folder, runs = Path(folder), comparison.runs
    refuse_used(folder)
    steps = [(run, step) for run in runs for step in run.folder.rollout_steps()]
    if not steps:
        raise InvalidInputError(
            "the runs hold no rollouts; they are written with rollout_log, which is on by default"
        )
    columns = dict.fromkeys(
        name for run, step in steps for name in run.folder.rollout_sizes(step)[1]
    )
    schema = pa.schema(
        [(name, pa.type_for_alias(kind)) for name, (kind, _) in _COLUMNS.items()]
        + [(name, pa.float64()) for name in columns if name.startswith(REWARD_PREFIX)]
    )
    kept = []
    for number, run in enumerate(runs):
        path = folder / "data" / f"{number:02}-{slug(run.arm)}-seed-{run.seed}.parquet"
        kept.append(_write_run(run, path, schema))
    total = sum(row["rollouts"] for row in kept)
    write_whole(folder / "README.md", _card(title, comparison.arms, schema.names, kept).encode())
    return total


def _write_run(run: Run, path: Path, schema: "pa.Schema") -> dict[str, Any]:
    """Write the rollouts of a run; what the card tells of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    rewards: list[float] = []
    kept: list[bool] = []
    seen = prompts = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for step in run.folder.rollout_steps():
            found = run.folder.rollouts(step)
            if found is None:
                continue
            rows = found.num_rows
            given = {name: found[name] for name in found.column_names}
            given |= {"arm": pa.array([run.arm] * rows), "seed": pa.array([run.seed] * rows)}
            filled = [
                given[field.name].cast(field.type)
                if field.name in given
                else pa.nulls(rows, field.type)
                for field in schema
            ]
            writer.write_table(pa.table(filled, schema=schema))
            rewards += [np.nan if r is None else r for r in found["reward"].to_pylist()]
            kept += found["kept"].to_pylist()
            prompts += len(set(found["group"].to_pylist()))
            seen += 1
    values, keeps = np.array(rewards), np.array(kept, dtype=bool)
    return {
        "run": f"{run.arm}, seed {run.seed}",
        "file": path.name,
        "steps": seen,
        "prompts": prompts,
        "rollouts": len(kept),
        "kept": int(keeps.sum()),
        "reward, all": _mean(values),
        "kept ones": _mean(values[keeps]),
        "dropped ones": _mean(values[~keeps]),
    }


def _mean(rewards: np.ndarray) -> str:
    scored = rewards[~np.isnan(rewards)]
    return f"{scored.mean():.3f}" if len(scored) else "none"


def _card(title: str, arms: Sequence[Arm], columns: list[str], kept: list[dict[str, Any]]) -> str:
    by_function = "what this reward function gave; null: nothing"
    tells = [by_function if n.startswith(REWARD_PREFIX) else _COLUMNS[n][1] for n in columns]
    described = table(("column", [f"`{name}`" for name in columns]), ("holds", tells))
    counted = table(*((name, [str(row[name]) for row in kept]) for name in kept[0]))
    return f"""---
pretty_name: {_plain(title)}
tags: [reinforcement-learning, grpo, pods, rollouts]
configs:
- config_name: default
  data_files: data/*.parquet
---

# {_plain(title)}

What a language model wrote while it was trained, with every reward. PODS ([{PAPER["title"]}](https://arxiv.org/abs/{PAPER["id"]}))
generates n rollouts per prompt and trains on the m whose rewards differ most. Here are all of them:
`kept` says which ones the update saw. Written by podsrl {__version__}.

```python
from datasets import load_dataset

rollouts = load_dataset("FOLDER_OR_REPOSITORY", split="train")
dropped = rollouts.filter(lambda row: not row["kept"])
```

Prompts and answers come from the task's data: keep to its licence when you publish this folder.

## Settings

{_settings(arms)}

## What was kept

{counted}

Steps are those in the log, which holds every second or fourth step of a long run.

## Columns

{described}
"""


def _settings(arms: Sequence[Arm]) -> str:
    """A column for each arm, with all that differed between its runs."""
    by_arm = {arm.name: told(arm.config) for arm in arms}
    names = dict.fromkeys(name for settings in by_arm.values() for name in settings)
    values = [(arm, [settings.get(name, "") for name in names]) for arm, settings in by_arm.items()]
    return table(("setting", [f"`{name}`" for name in names]), *values)


def slug(text: str) -> str:
    """Words for the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _plain(text: str) -> str:
    """A title that is one line of YAML and of Markdown."""
    return " ".join(re.sub(r"[^\w\s.,()+-]", " ", text).split()) or "Rollouts"
