"""The known worth of a step: on the user's task, or in the authors' runs."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podslab.recommend.measured_steps import GRPO
from podslab.statistics.worth import Ratio, StepValue
from podsrl.errors import InvalidInputError
from podsrl.rollout_log import files

#: The file of the worths that a comparison measured, in its folder.
WORTHS = "worth.json"
#: On whose task a worth was measured.
YOURS, AUTHORS = "yours", "authors'"
_AUTHORS = Path(__file__).with_name("authors_worth.json")


@dataclass(frozen=True)
class MeasuredWorth:
    """The worth of a step of a method, as a comparison measured it.

    Args:
        method: Its name.
        reference: The method in whose steps it is counted.
        rollouts_per_row: n/m.
        value: Its worth and cost there.
    """

    method: str
    reference: str
    rollouts_per_row: float
    value: StepValue


def write_worths(folder: Path, worths: list[MeasuredWorth]) -> None:
    """Write what a comparison measured into its folder."""
    files.write_json(folder / WORTHS, {"methods": [*map(asdict, worths)]})


def read_worths(folder: Path) -> list[MeasuredWorth]:
    """The worths that `write_worths` wrote; none where it did not.

    Raises:
        InvalidInputError: The file is damaged, or of another version.
    """
    written: dict[str, Any] = files.read_json(folder / WORTHS) or {"methods": []}
    try:
        return [
            MeasuredWorth(
                method=one["method"],
                reference=one["reference"],
                rollouts_per_row=one["rollouts_per_row"],
                value=_value(one["value"]),
            )
            for one in written["methods"]
        ]
    except (KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{folder / WORTHS} is damaged ({error}): the same pods compare writes it anew"
        ) from error


def _value(written: dict[str, Any]) -> StepValue:
    ratios = {name: _ratio(written[name]) for name in ("worth", "cost", "gain")}
    return StepValue(**{**written, **ratios})


def _ratio(written: dict[str, Any] | None) -> Ratio | None:
    """JSON has no infinity: an interval with a lower end alone is open above."""
    if written is None:
        return None
    is_open = written["low"] is not None and written["high"] is None
    return Ratio(**{**written, "high": math.inf}) if is_open else Ratio(**written)


@dataclass(frozen=True)
class KnownWorth:
    """A worth, and whose it is.

    Args:
        ratio: The worth.
        whose: `YOURS` or `AUTHORS`.
    """

    ratio: Ratio
    whose: str


def authors_worths() -> Mapping[int, Ratio]:
    """The worth of a step of PODS by n/m in the authors' runs of GSM8K."""
    worths = json.loads(_AUTHORS.read_text(encoding="utf-8"))["worth"]
    return {int(size): Ratio(*ends) for size, ends in worths.items()}


#: By the name of the method and n/m.
Known = Mapping[tuple[str, float], KnownWorth]


def known_worths(measured: list[MeasuredWorth]) -> Known:
    """The worths in steps of GRPO that are known; the user's stand before the authors'.

    A comparison without GRPO measures worths in steps of another method, which are left out.
    """
    known = {
        ("pods", float(size)): KnownWorth(ratio, AUTHORS)
        for size, ratio in authors_worths().items()
    }
    for one in measured:
        if one.reference == GRPO and one.value.worth is not None:
            known[one.method, one.rollouts_per_row] = KnownWorth(one.value.worth, YOURS)
    return known
