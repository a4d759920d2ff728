"""PODS: generate n rollouts per prompt, train on m of them (arXiv 2504.13818).

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

    A thread of this process serves the app of `pods inspect`, for this machine only. The returned
    object shows the app in the cell; open its `address` to see the app in a browser.

    Args:
        paths: Runs, folders of runs, or files with prompt, completion and reward.
        keep: If a file does not say what was kept, the number of rollouts of each prompt, at least
            2, that `max_variance` would keep; None: a quarter, and at least 2.
        height: The height of the frame in pixels.

    Raises:
        InvalidInputError: A path has nothing that can be opened.
        MissingDependencyError: The packages of `podsrl[inspect]` are not installed.
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
    """Read the rollouts of runs, or of files of other programs, as a pandas data frame.

    The columns are `run`, the columns of the rollout log (docs/reading.md), a column
    "rewards/<function>" for each reward function, and `label` and `note` from the app.

    Args:
        paths: Runs, folders of runs, or files, as for `pods inspect`.
        steps: The steps to read; None: all steps.
        kept: True: read kept rollouts only. False: read dropped rollouts only. None: read both.
        keep: If a file does not say what was kept, the number of rollouts of each prompt, at least
            2, that PODS would keep; None: a quarter, and at least 2.
        rule: The rule by which PODS would keep them.
        prompt: The name of the file's field with the prompt; None: a usual name.
        completion: The name of the field with the completion.
        reward: The name of the field with the reward, or a weighted sum of several fields,
            "right=1,form=0.2".
        group: The name of the field that is equal for the rollouts of a prompt.
        step: The name of the field with the step.

    Raises:
        InvalidInputError: A path has nothing that can be read, or lacks a field.
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
