"""The file comparison.yaml, which says what the runs in a folder are to be."""

from pathlib import Path
from typing import Any

import yaml

from podsrl.errors import InvalidInputError


def read_comparison_file(folder: Path) -> dict[str, Any] | None:
    """What a folder's comparison.yaml holds, with arms and seeds; None if there is none.

    Raises:
        InvalidInputError: it is damaged.
    """
    path = folder / "comparison.yaml"
    if not path.is_file():
        return None
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
        arms, seeds = dict(value["arms"]), tuple(int(seed) for seed in value["seeds"])
    except (UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{path} is damaged: it must name arms and seeds ({error!r})"
        ) from error
    return {**value, "arms": arms, "seeds": seeds}
