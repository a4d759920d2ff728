"""The formats that `pods inspect` opens: one small file for each.

Each format says whether a path is of its kind, lists its files, and gives their rollouts with the
names of `podsrl.rollout_log`. It lists its files anew whenever it is asked, so that a run can be
watched while it trains. To add one is to write such a file and to add it to `_detect`.
"""

from podsrl.inspector.sources.base import (
    ForeignSource,
    Options,
    Progress,
    RolloutFile,
    Source,
)
from podsrl.inspector.sources.find import find_sources
from podsrl.inspector.sources.trained_run import WaitingFolder

__all__ = [
    "ForeignSource",
    "Options",
    "Progress",
    "RolloutFile",
    "Source",
    "WaitingFolder",
    "find_sources",
]
