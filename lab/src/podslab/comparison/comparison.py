"""A comparison: arms, seeds and budget, and the folder that holds it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from filelock import FileLock

from podsrl.errors import InvalidInputError, listed
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import RunFolder

if TYPE_CHECKING:
    from podslab.training.spec import Spec

Settings = dict[str, Any]

#: Units of a budget, and the field of a run that holds it.
UNITS = {"training_seconds": "max_training_seconds", "steps": "max_steps"}
_WAIT = 30.0  # seconds for a killed comparison's last process to notice


class RunOf(NamedTuple):
    """One run of a comparison."""

    arm: str
    seed: int


@dataclass(frozen=True)
class ComparisonSpec:
    """Arms x seeds at one budget.

    arms: the settings of each, complete except for the seed and the folder.
    unit: of the budget, one of `UNITS`, the same for all runs. amount: that each run may spend.
    evaluations: points of the budget at which every run is evaluated, besides before it.
    launch: words before `-m podslab.comparison.comparison_process`; () runs Python.
    """

    folder: Path
    arms: Mapping[str, Settings]
    seeds: tuple[int, ...]
    unit: str
    amount: float
    evaluations: int
    launch: tuple[str, ...] = ()

    def runs(self) -> list[RunOf]:
        """All runs, seed by seed, so that an unfinished comparison has whole seeds."""
        return [RunOf(arm, seed) for seed in self.seeds for arm in self.arms]

    def run_folder(self, run: RunOf) -> RunFolder:
        """Where a run is recorded."""
        return RunFolder(self.folder / run.arm / f"seed-{run.seed}")

    def run_spec(self, run: RunOf) -> "Spec":
        """The settings of a run."""
        from podslab.training.spec import parse

        own = {"arm": run.arm, "seed": run.seed, "output_dir": str(self.run_folder(run).path)}
        return parse({**self.arms[run.arm], **own})


@dataclass(frozen=True)
class Shard:
    """Which part of a comparison's runs is ours: number `index` (from 1) of `count`."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read "2/4"; an `InvalidInputError` if it is not i/k with 1 <= i <= k.

        >>> Shard.parse("2/4")
        Shard(index=2, count=4)
        """
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
            raise InvalidInputError(f"a shard is i/k with 1 <= i <= k, such as 2/4; got {text!r}")
        return cls(int(index), int(count))

    def of(self, spec: ComparisonSpec) -> list[RunOf]:
        """Our runs: whole seeds, so that the arms of a seed share a machine, if there are enough.

        With more shards than seeds single runs are dealt out.
        """
        if self.count <= len(spec.seeds):
            mine = spec.seeds[self.index - 1 :: self.count]
            return [run for run in spec.runs() if run.seed in mine]
        return spec.runs()[self.index - 1 :: self.count]


def read_comparison(folder: Path) -> ComparisonSpec:
    """The comparison that a folder holds; `InvalidInputError` for none, or a damaged one."""
    path = folder / "comparison.yaml"
    if not path.is_file():
        raise InvalidInputError(f"{folder} holds no comparison: no comparison.yaml")
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
        ((unit, amount),) = value["budget"].items()
        return ComparisonSpec(
            folder=folder,
            arms=dict(value["arms"]),
            seeds=tuple(int(seed) for seed in value["seeds"]),
            unit=unit,
            amount=amount,
            evaluations=value["evaluations"],
            launch=tuple(value["launch"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise InvalidInputError(f"{path} is damaged: {error!r}") from error


def lock_of(folder: RunFolder) -> FileLock:
    """What a process holds while it works on a run."""
    path = folder.path.with_name(f"{folder.path.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path, timeout=_WAIT)


def open_comparison(spec: ComparisonSpec) -> ComparisonSpec:
    """Write comparison.yaml, or add arms and seeds to the comparison that is there.

    One of which no run has begun is replaced.

    Returns:
        The comparison with all arms and seeds, those that were there first.

    Raises:
        InvalidInputError: the folder holds another comparison.
    """
    path = spec.folder / "comparison.yaml"
    refuse_foreign(spec.folder)
    if path.is_file() and any(spec.folder.glob("*/*/config.yaml")):
        spec = _joined(read_comparison(spec.folder), spec)
    mapping = {
        "arms": {name: dict(own) for name, own in spec.arms.items()},
        "seeds": list(spec.seeds),
        "budget": {spec.unit: spec.amount},
        "evaluations": spec.evaluations,
        "launch": list(spec.launch),
    }
    text = yaml.safe_dump(mapping, sort_keys=False, allow_unicode=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        files.write_whole(path, text.encode())
    return spec


def refuse_foreign(folder: Path) -> None:
    """Raise `InvalidInputError` for a folder that holds other things than a comparison."""
    if not folder.exists() or (folder / "comparison.yaml").is_file():
        return
    if not folder.is_dir() or any(path.suffix != ".part" for path in folder.iterdir()):
        raise InvalidInputError(
            f"{folder} holds files that are no comparison's: choose another output_dir"
        )


def _changes_of_arms(there: Mapping[str, Settings], new: Mapping[str, Settings]) -> list[str]:
    """What changed in the arms that are in both; the same change of several arms is one."""
    arms_of_change: dict[str, list[str]] = {}
    for arm, before in there.items():
        after = new.get(arm, before)
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                change = f"{key}: {before.get(key)!r} -> {after.get(key)!r}"
                arms_of_change.setdefault(change, []).append(arm)

    return [f"{change} (of {', '.join(arms)})" for change, arms in arms_of_change.items()]


def _joined(there: ComparisonSpec, new: ComparisonSpec) -> ComparisonSpec:
    changed = [
        f"{what}: {getattr(there, what)!r} -> {getattr(new, what)!r}"
        for what in ("unit", "amount", "evaluations")
        if getattr(there, what) != getattr(new, what)
    ]
    changed += _changes_of_arms(there.arms, new.arms)
    if changed:
        raise InvalidInputError(
            f"{new.folder} holds another comparison ({listed(changed)}): choose another"
            " output_dir, or delete that folder. Only arms and seeds may be added to it"
        )
    return replace(
        new,
        arms={**there.arms, **new.arms},
        seeds=tuple(dict.fromkeys([*there.seeds, *new.seeds])),
    )
