"""The rollouts of a step, kept and dropped, as a table in trackio or wandb."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from podsrl.trl.config import PODSConfig

TRACKERS = ("wandb", "trackio")


def wants_tables(args: PODSConfig) -> bool:
    """TRL logs tables if `log_completions` is set; its own holds what the update saw."""
    return args.log_completions and bool(set(TRACKERS) & set(args.report_to or ()))


def log_table(args: PODSConfig, step: int, columns: Mapping[str, Sequence[Any]]) -> None:
    """Log the table `rollouts` to the run that TRL's callbacks opened.

    Args:
        args: of the trainer.
        step: optimiser step that they were generated for.
        columns: as in the rollout log, `kept` among them.
    """
    import pandas as pd

    frame = pd.DataFrame({"step": [step] * len(columns["kept"]), **columns})
    for name in TRACKERS:
        if name in (args.report_to or ()):
            tracker = importlib.import_module(name)
            if getattr(tracker, "run", tracker) is not None:  # wandb's is None where it is off
                tracker.log({"rollouts": tracker.Table(dataframe=frame)})
