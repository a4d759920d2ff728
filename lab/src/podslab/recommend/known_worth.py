"""What a step is worth, as far as it is known: on the user's task, or in the authors' runs."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podslab.statistics.worth import Ratio, StepValue
from podsrl.rollout_log import files

#: The file of the worths that a comparison measured, in its folder.
WORTHS = "worth.json"
_AUTHORS = Path(__file__).with_name("authors_worth.json")


@dataclass(frozen=True)
class MeasuredWorth:
    """What a step of a method was worth in a comparison.

    Args:
        method: Its name.
        rollouts_per_row: n/m.
        value: Its worth and cost there.
    """

    method: str
    rollouts_per_row: float
    value: StepValue


def write_worths(folder: Path, worths: list[MeasuredWorth]) -> None:
    """Write what a comparison measured into its folder."""
    files.write_json(folder / WORTHS, [*map(asdict, worths)])


def read_worths(folder: Path) -> list[MeasuredWorth]:
    """What `write_worths` wrote; nothing where it did not."""
    written: Any = files.read_json(folder / WORTHS) or []
    return [
        MeasuredWorth(one["method"], one["rollouts_per_row"], _value(one["value"]))
        for one in written
    ]


def _value(written: dict[str, Any]) -> StepValue:
    ratios = {}
    for name in ("worth", "cost", "gain"):
        ratios[name] = Ratio(**written[name]) if written[name] else None
    return StepValue(**{**written, **ratios})


@dataclass(frozen=True)
class KnownWorth:
    """A worth, and whose it is.

    Args:
        ratio: The worth.
        whose: "yours", or "authors'".
    """

    ratio: Ratio
    whose: str


def authors_worths() -> Mapping[int, Ratio]:
    """The worth of a step of PODS by n/m in the authors' runs of GSM8K."""
    worths = json.loads(_AUTHORS.read_text(encoding="utf-8"))["worth"]
    return {int(size): Ratio(*ends) for size, ends in worths.items()}


def known_worths(measured: list[MeasuredWorth]) -> dict[float, KnownWorth]:
    """The worth of a step of PODS by n/m; what the user measured stands before the authors'."""
    known = {float(size): KnownWorth(ratio, "authors'") for size, ratio in authors_worths().items()}
    for one in measured:
        if one.method == "pods" and one.value.worth is not None:
            known[one.rollouts_per_row] = KnownWorth(one.value.worth, "yours")
    return known
