"""The runs of the frozen study that count, from its files in results/comparison.

raw.zip holds a JSON for every attempt that ended, and counted.json names those that count, as the
protocol decided. The code that made them is at the commit that results/comparison/README.md names.
"""

import json
import zipfile
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from benchmarks.folders import RESULTS

FOLDER = RESULTS / "comparison"
#: The arm that the others are compared with.
REFERENCE = "grpo-8"

Result = Mapping[str, Any]


@cache
def protocol() -> dict[str, Any]:
    """The content of protocol.yaml: arms, sets, stages, and the rule of decision."""
    return dict(yaml.safe_load((FOLDER / "protocol.yaml").read_text(encoding="utf-8")))


@cache
def _counted() -> dict[tuple[str, str, str], tuple[Result, ...]]:
    """The runs that count, by stage, set and arm, in the order of their seeds; not of tuning."""
    names = json.loads((FOLDER / "counted.json").read_text(encoding="utf-8"))
    found: dict[tuple[str, str, str], list[tuple[int, Result]]] = {}
    with zipfile.ZipFile(FOLDER / "raw.zip") as raw:
        for name in names:
            # STAGE_SET_ARM_SEED_ATTEMPT, where an arm's name may have "_", too.
            stage, set_name, rest = name.split("_", 2)
            arm, seed, _ = rest.rsplit("_", 2)
            if "rates" in protocol()["stages"][stage]:
                continue
            result = json.loads(raw.read(f"{name}.json"))
            found.setdefault((stage, set_name, arm), []).append((int(seed), result))
    return {
        place: tuple(result for _, result in sorted(of_seeds, key=lambda one: one[0]))
        for place, of_seeds in found.items()
    }


def runs(stage: str, set_name: str, arm: str) -> tuple[Result, ...]:
    """The runs of an arm, in the order of their seeds; () where the stage has no such arm."""
    return _counted().get((stage, set_name, arm), ())


def arms_of(stage: str) -> list[str]:
    """The arms that a stage has."""
    return list(protocol()["stages"][stage].get("arms", protocol()["arms"]))


def sets_of(stage: str) -> list[str]:
    """The sets of questions that a stage has."""
    return list(protocol()["stages"][stage].get("sets", protocol()["sets"]))


def right_at_start(set_name: str) -> float:
    """The share of samples of tuning questions that are right before any training."""
    at_start = json.loads((FOLDER / "start.json").read_text(encoding="utf-8"))
    return float(at_start[set_name]["sampled"])
