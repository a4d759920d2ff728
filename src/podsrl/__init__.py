"""PODS: generate n rollouts per prompt, train on the m that teach most (arXiv 2504.13818).

Importing this package imports neither torch nor any trainer.
"""

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from podsrl.advantages import group_advantages
from podsrl.errors import PodsError, needed
from podsrl.methods import METHODS
from podsrl.rules import RULES, downsample, downsample_batch, is_decided, register_rule, rule
from podsrl.selection import Selection

if TYPE_CHECKING:
    from podsrl.inspector.notebook import Inspection

__version__ = "0.2.0"
__all__ = [
    "METHODS",
    "RULES",
    "PodsError",
    "Selection",
    "__version__",
    "downsample",
    "downsample_batch",
    "group_advantages",
    "inspect",
    "is_decided",
    "register_rule",
    "rule",
]


def inspect(
    *paths: str | PathLike[str], keep: int | None = None, height: int = 800
) -> "Inspection":
    """Show the rollouts of runs in a notebook, while they train or afterwards.

    It is the app of `pods inspect`, served by a thread of this process to this machine alone. As
    the value of a cell it shows itself in a frame; `address` opens in a browser, too.

    Args:
        paths: Runs, folders of runs, or files with prompt, completion and reward.
        keep: Rollouts of each prompt, 2 or more, that `max_variance` keeps where nothing says what
            was kept; None: a quarter, and at least 2.
        height: Pixels of the frame.

    Raises:
        InvalidInputError: A path holds nothing that can be opened.
        MissingDependencyError: `pip install 'podsrl[inspect]'` was not done.
    """
    with needed("inspect"):
        from podsrl.inspector.notebook import Inspection

    return Inspection([Path(path) for path in paths], keep, height)
