"""PODS: generate n rollouts per prompt, train on the m that teach most (arXiv 2504.13818).

Importing this package imports neither torch nor any trainer.
"""

from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from podsrl.advantages import group_advantages
from podsrl.errors import PodsError, fields_named, needed
from podsrl.methods import METHODS
from podsrl.rules import (
    RULES,
    downsample,
    downsample_batch,
    is_decided,
    is_decided_batch,
    register_rule,
    rule,
)
from podsrl.selection import Selection

if TYPE_CHECKING:
    from pandas import DataFrame

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
    "is_decided_batch",
    "register_rule",
    "rollouts",
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


def rollouts(
    *paths: str | PathLike[str],
    steps: Collection[int] | None = None,
    kept: bool | None = None,
    keep: int | None = None,
    rule: str = "max_variance",
    prompt: str | None = None,
    completion: str | None = None,
    reward: str | None = None,
    group: str | None = None,
    step: str | None = None,
) -> "DataFrame":
    """The rollouts of runs, or of what other programs wrote, as a pandas data frame.

    Its columns are `run`, those of the rollout log, one "rewards/<function>" for each reward
    function, and the `label` and `note` that people gave in the app.

    Args:
        paths: What `pods inspect` opens.
        steps: The steps to read; None: all of them.
        kept: Whether to read only those that were kept, or only those that were dropped.
        keep: Rollouts of each prompt, 2 or more, that PODS would keep, where nothing says what was
            kept; None: a quarter, and at least 2.
        rule: The rule by which PODS would keep them.
        prompt: The field of a file of your own that has the prompt, where its name does not say it.
        completion: That of the completion.
        reward: That of the reward, or several with their weights, "right=1,form=0.2".
        group: That by which the rollouts of a prompt belong together.
        step: That of the step.

    Raises:
        InvalidInputError: A path holds nothing that can be read, or a field is not there.
        MissingDependencyError: pandas or the packages of `podsrl[inspect]` are not installed.
    """
    with needed("inspect"):
        from podsrl.inspector.fields import Fields
        from podsrl.inspector.keeping import Keep
        from podsrl.inspector.sources import Options
        from podsrl.inspector.table import rollouts_frame

    with fields_named({"num_kept": "keep"}):
        options = Options(Fields(prompt, completion, reward, group, step), Keep(keep, rule))
    return rollouts_frame([Path(path) for path in paths], options, steps, kept)
