"""What is to be compared: arms, seeds and budget, checked before anything runs."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from filelock import FileLock, Timeout

from podsrl.errors import InvalidInputError, PodsError, suggestion
from podslab.comparison.arms import DECIDED, Settings, arm_settings, check_arm
from podslab.training.budget import NO_LIMIT
from podslab.training.config_file import read_config
from podslab.training.preflight import check_run
from podsrl.rollout_log import files
from podslab.report.comparison_file import read_comparison_file
from podsrl.rollout_log.run_folder import RunFolder

if TYPE_CHECKING:
    from podslab.training.spec import Spec

#: Units of a budget; the field of a run that holds it, and the metric that counts what is spent.
UNITS = {
    "training_seconds": ("max_training_seconds", "pods/training_seconds"),
    "steps": ("max_steps", "step"),
    "rollouts": ("max_rollouts", "pods/rollouts_generated"),
    "tokens": ("max_tokens", "pods/tokens_generated"),
}
_KEYS = ("config", "settings", "arms", "seeds", "budget", "evaluations", "output_dir", "launch")
_WAIT = 30.0  # seconds for a killed comparison's last process to notice
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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

    def as_mapping(self) -> dict[str, Any]:
        """What comparison.yaml holds; the folder is where the file is."""
        return {
            "arms": {name: dict(own) for name, own in self.arms.items()},
            "seeds": list(self.seeds),
            "budget": {self.unit: self.amount},
            "evaluations": self.evaluations,
            "launch": list(self.launch),
        }


@dataclass(frozen=True)
class Shard:
    """Which part of a comparison's runs is ours: number `index` (from 1) of `count`."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read "2/4".

        Raises:
            InvalidInputError: not i/k with 1 <= i <= k.

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


def parse_comparison(config: Mapping[str, Any], name: str) -> ComparisonSpec:
    """A comparison from its YAML mapping.

    Args:
        config: `arms` (name: own settings), `seeds` (a number or a list), `budget` (one unit of
            `UNITS`), `evaluations` (8), `config` (of `pods train`, for all arms), `settings` (over
            it), `output_dir` (runs/<name>), `launch` (such as accelerate launch ...).
        name: of the comparison.

    Raises:
        InvalidInputError: unknown keys, no arms, settings that are not allowed; the message says
            what is.
    """
    unknown = [key for key in config if key not in _KEYS]
    if unknown:
        raise InvalidInputError(
            f"unknown key {unknown[0]!r} in a comparison, where settings of runs belong under"
            f" settings (for all arms) or under an arm; {suggestion(unknown[0], _KEYS)}"
        )
    unit, amount = _budget(config.get("budget"))
    evaluations = config.get("evaluations", 8)
    if not isinstance(evaluations, int) or isinstance(evaluations, bool) or evaluations < 1:
        raise InvalidInputError(f"evaluations must be 1 or more; got {evaluations!r}")
    if unit == "steps" and amount < evaluations:
        raise InvalidInputError(
            f"a budget of {amount:g} steps has no room for {evaluations} evaluations, one after"
            " each step at most: ask for fewer evaluations or more steps"
        )
    launch = config.get("launch") or []
    if not isinstance(launch, list):
        raise InvalidInputError(f"launch must be a list of words; got {launch!r}")
    seeds = _seeds(config.get("seeds"))
    folder = Path(os.path.expanduser(str(config.get("output_dir") or f"runs/{name}")))
    files.refuse_unwritable(folder)
    base = _base(config, unit, amount, evaluations)
    arms = _arms(config.get("arms"), base)
    # from here on TRL is imported
    settled = {name: arm_settings(base, name, own) for name, own in arms.items()}
    for name, own in settled.items():
        _check_schedule(name, own, unit)
    return ComparisonSpec(
        folder=folder,
        arms=settled,
        seeds=seeds,
        unit=unit,
        amount=amount,
        evaluations=evaluations,
        launch=tuple(str(word) for word in launch),
    )


def read_comparison(folder: Path) -> ComparisonSpec:
    """The comparison that a folder holds.

    Raises:
        InvalidInputError: none, or a damaged one.
    """
    value = read_comparison_file(folder)
    if value is None:
        raise InvalidInputError(f"{folder} holds no comparison: no comparison.yaml")
    try:
        ((unit, amount),) = value["budget"].items()
        return ComparisonSpec(
            folder=folder,
            arms=value["arms"],
            seeds=value["seeds"],
            unit=unit,
            amount=amount,
            evaluations=value["evaluations"],
            launch=tuple(value["launch"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{folder}/comparison.yaml is damaged: {error!r}") from error


@contextmanager
def comparing(spec: ComparisonSpec, shard: Shard) -> Iterator[ComparisonSpec]:
    """Open a comparison; if it ends with an error before any run has begun, nothing is left of it.

    Unless another process is at work on a run of it, or has been on one that is not in our shard.

    Raises:
        InvalidInputError: as `open_comparison`.
    """
    path = spec.folder / "comparison.yaml"
    before = path.read_bytes() if path.is_file() else None
    made = files.missing_folders(spec.folder)
    opened = open_comparison(spec)
    try:
        yield opened
    except (PodsError, KeyboardInterrupt):
        ours, folders = shard.of(opened), {run: opened.run_folder(run) for run in opened.runs()}
        if not any(_is_begun(folder, run in ours) for run, folder in folders.items()):
            for run in (runs := [folder.path for folder in folders.values()]):
                for suffix in ("log", "lock"):
                    run.with_name(f"{run.name}.{suffix}").unlink(missing_ok=True)
            if before is None:
                path.unlink(missing_ok=True)
            else:
                files.write_whole(path, before)
            files.remove_empty([*dict.fromkeys(run.parent for run in runs), *made])
        raise


def lock_of(folder: RunFolder) -> FileLock:
    """What a process holds while it works on a run."""
    path = folder.path.with_name(f"{folder.path.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path, timeout=_WAIT)


def _is_begun(run: RunFolder, ours: bool) -> bool:
    """Is there something of a run, or another process that is about to start it?"""
    lock = lock_of(run)
    if run.path.exists() or not Path(lock.lock_file).exists():
        return run.path.exists()
    try:
        with lock.acquire(timeout=0):
            return not ours
    except Timeout:
        return True


def open_comparison(spec: ComparisonSpec) -> ComparisonSpec:
    """Write comparison.yaml, or add arms and seeds to the comparison that is there.

    Returns:
        The comparison with all arms and seeds, those that were there first.

    Raises:
        InvalidInputError: the folder holds another comparison.
    """
    path = spec.folder / "comparison.yaml"
    refuse_foreign(spec.folder)
    if path.is_file():
        spec = _joined(read_comparison(spec.folder), spec)
    text = yaml.safe_dump(spec.as_mapping(), sort_keys=False, allow_unicode=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        files.write_whole(path, text.encode())
    return spec


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds other things than a comparison, or what a shard begins to write.

    Raises:
        InvalidInputError: it does.
    """
    if not folder.exists() or (folder / "comparison.yaml").is_file():
        return
    if not folder.is_dir() or any(path.suffix != ".part" for path in folder.iterdir()):
        raise InvalidInputError(
            f"{folder} holds files that are no comparison's: choose another output_dir"
        )


def _joined(there: ComparisonSpec, new: ComparisonSpec) -> ComparisonSpec:
    changed = [
        f"{what}: {getattr(there, what)!r} -> {getattr(new, what)!r}"
        for what in ("unit", "amount", "evaluations")
        if getattr(there, what) != getattr(new, what)
    ]
    for arm in there.arms.keys() & new.arms.keys():
        before, after = there.arms[arm], new.arms[arm]
        changed += [
            f"{arm}'s {key}: {before.get(key)!r} -> {after.get(key)!r}"
            for key in sorted(before.keys() | after.keys())
            if before.get(key) != after.get(key)
        ]
    if changed:
        raise InvalidInputError(
            f"{new.folder} holds another comparison ({'; '.join(changed)}): choose another"
            " output_dir, or delete that folder. Only arms and seeds may be added to it"
        )
    return replace(
        new,
        arms={**there.arms, **new.arms},
        seeds=tuple(dict.fromkeys([*there.seeds, *new.seeds])),
    )


def _budget(value: Any) -> tuple[str, float]:
    if (
        not isinstance(value, dict)
        or len(value) != 1
        or next(iter(value)) not in UNITS
        or isinstance(amount := next(iter(value.values())), bool)
        or not isinstance(amount, (int, float))
        or not amount > 0
    ):
        raise InvalidInputError(
            f"budget must say how much of one of {', '.join(UNITS)} each run may spend, such as"
            f" {{training_seconds: 600}}; got {value!r}"
        )
    unit = next(iter(value))
    if unit != "training_seconds" and amount != int(amount):
        raise InvalidInputError(f"a budget of {unit} must be a whole number; got {amount!r}")
    return unit, amount if unit == "training_seconds" else int(amount)


def _base(config: Mapping[str, Any], unit: str, amount: float, evaluations: int) -> Settings:
    given = config.get("settings") or {}
    if not isinstance(given, dict):
        raise InvalidInputError(f"settings must be a mapping; got {given!r}")
    decided = sorted(DECIDED & set(given))
    if decided:
        raise InvalidInputError(
            f"settings name {', '.join(decided)}, which follow from the comparison's seeds, budget,"
            " evaluations and output_dir"
        )
    base = read_config(config["config"]) if config.get("config") else {}
    base = {k: v for k, v in base.items() if k not in DECIDED}
    base = {**base, **given, "evaluations": evaluations, "max_steps": NO_LIMIT}
    base[UNITS[unit][0]] = amount
    values = check_run(base)
    if not values["evaluation_problems"]:
        raise InvalidInputError("evaluation_problems is 0: a comparison needs evaluations")
    if values["logging_steps"] != 1:
        raise InvalidInputError("logging_steps must be 1, so that no step is missing in the record")
    return base


def _check_schedule(arm: str, own: Settings, unit: str) -> None:
    """Refuse a schedule that needs to know the number of steps, where the budget is another."""
    from podslab.training.spec import parse

    training = parse(dict(own)).training
    schedule = str(getattr(training.lr_scheduler_type, "value", ""))
    warmup = training.warmup_steps
    if unit == "steps":
        return
    if not schedule.startswith("constant"):
        raise InvalidInputError(
            f"arm {arm!r}: lr_scheduler_type {schedule!r} needs to know the number of steps, which"
            f" a budget of {unit} leaves open; use constant or constant_with_warmup, or a budget of"
            " steps"
        )
    if 0 < warmup < 1:
        raise InvalidInputError(
            f"arm {arm!r}: warmup_steps {warmup} is a share of the steps, whose number a budget of"
            f" {unit} leaves open; give a number of steps, such as 10"
        )


def _arms(value: Any, base: Settings) -> dict[str, Settings]:
    """Each arm's own settings, checked."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        value = dict.fromkeys(value)
    if not isinstance(value, dict) or not value:
        raise InvalidInputError(
            "arms are missing: name them with their own settings, such as"
            f" {{grpo: {{}}, pods: {{}}}}; got {value!r}"
        )
    arms = {}
    for name, own in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"an arm's name is a folder's: letters, digits, '.', '_', '-'; got {name!r}"
            )
        if not isinstance(own, (dict, type(None))):
            raise InvalidInputError(f"arm {name!r} must be a mapping of settings; got {own!r}")
        arms[name] = own or {}
        check_arm(base, name, arms[name])
    return arms


def _seeds(value: Any) -> tuple[int, ...]:
    seeds = list(range(value)) if isinstance(value, int) else value
    if (
        not isinstance(seeds, list)
        or not seeds
        or not all(isinstance(seed, int) and seed >= 0 for seed in seeds)
        or len(set(seeds)) != len(seeds)
    ):
        raise InvalidInputError(
            f"seeds must be how many there are, or a list of different ones; got {value!r}"
        )
    return tuple(seeds)
