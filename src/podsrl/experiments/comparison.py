"""What is to be compared: arms, seeds and budget, checked before anything runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from podsrl.errors import InvalidInputError
from podsrl.experiments import settings
from podsrl.experiments.arms import Settings, arm_settings
from podsrl.experiments.budget import NO_LIMIT
from podsrl.runs import json_files as files
from podsrl.runs.folder import RunFolder

#: Units of a budget, and the field of a run that holds it.
UNITS = {
    "training_seconds": "max_training_seconds",
    "steps": "max_steps",
    "rollouts": "max_rollouts",
    "tokens": "max_tokens",
}
_KEYS = ("config", "settings", "arms", "seeds", "budget", "evaluations", "output_dir", "launch")
#: Fields of a single run's config that a comparison decides itself.
_DECIDED = ("output_dir", "seed", "arm", "resume", "overwrite", "num_train_epochs", *UNITS.values())
_OWN_EVALUATIONS = ("evaluations", "evaluation_steps", "evaluation_seconds")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class RunOf(NamedTuple):
    """One run of a comparison."""

    arm: str
    seed: int


@dataclass(frozen=True)
class ComparisonSpec:
    """Arms x seeds at one budget.

    arms: the settings of each, complete except for the seed and the folder.
    budget: one unit of `UNITS` and how much of it.
    evaluations: points of the budget at which every run is evaluated, besides before it.
    launch: words before `-m podsrl.experiments.comparison_process`; () runs Python.
    """

    folder: Path
    arms: Mapping[str, Settings]
    seeds: tuple[int, ...]
    budget: Mapping[str, float]
    evaluations: int
    launch: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """What is the same for all runs: seconds of training time, steps, rollouts or tokens."""
        return next(iter(self.budget))

    @property
    def amount(self) -> float:
        """How much of `unit` each run may spend."""
        return self.budget[self.unit]

    def runs(self) -> list[RunOf]:
        """All runs, seed by seed, so that an unfinished comparison has whole seeds."""
        return [RunOf(arm, seed) for seed in self.seeds for arm in self.arms]

    def run_folder(self, run: RunOf) -> RunFolder:
        """Where a run is recorded."""
        return RunFolder(self.folder / run.arm / f"seed-{run.seed}")

    def run_spec(self, run: RunOf) -> settings.Spec:
        """The settings of a run."""
        own = {"arm": run.arm, "seed": run.seed, "output_dir": str(self.run_folder(run).path)}
        return settings.parse({**self.arms[run.arm], **own})

    def as_mapping(self) -> dict[str, Any]:
        """What comparison.yaml holds; the folder is where the file is."""
        return {
            "arms": {name: dict(own) for name, own in self.arms.items()},
            "seeds": list(self.seeds),
            "budget": dict(self.budget),
            "evaluations": self.evaluations,
            "launch": list(self.launch),
        }


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
            f"unknown key {unknown[0]!r} in a comparison; allowed: {', '.join(_KEYS)}. Settings of"
            " runs belong under settings (for all arms) or under an arm"
        )
    budget = _budget(config.get("budget"))
    evaluations = config.get("evaluations", 8)
    if not isinstance(evaluations, int) or evaluations < 1:
        raise InvalidInputError(f"evaluations must be 1 or more; got {evaluations!r}")
    base = _base(config, budget, evaluations)
    launch = config.get("launch") or []
    if not isinstance(launch, list):
        raise InvalidInputError(f"launch must be a list of words; got {launch!r}")
    return ComparisonSpec(
        folder=Path(str(config.get("output_dir") or f"runs/{name}")),
        arms=_arms(config.get("arms"), base, next(iter(budget))),
        seeds=_seeds(config.get("seeds")),
        budget=budget,
        evaluations=evaluations,
        launch=tuple(str(word) for word in launch),
    )


def read_comparison(folder: Path) -> ComparisonSpec:
    """The comparison that a folder holds.

    Raises:
        InvalidInputError: none, or a damaged one.
    """
    path = folder / "comparison.yaml"
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
        return ComparisonSpec(
            folder=folder,
            arms=dict(value["arms"]),
            seeds=tuple(value["seeds"]),
            budget=dict(value["budget"]),
            evaluations=value["evaluations"],
            launch=tuple(value["launch"]),
        )
    except FileNotFoundError as error:
        raise InvalidInputError(f"{folder} holds no comparison: no comparison.yaml") from error
    except (UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path} is damaged: {error!r}") from error


def open_comparison(spec: ComparisonSpec) -> ComparisonSpec:
    """Write comparison.yaml, or add arms and seeds to the comparison that is there.

    Returns:
        The comparison with all arms and seeds, those that were there first.

    Raises:
        InvalidInputError: the folder holds another comparison.
    """
    path = spec.folder / "comparison.yaml"
    if path.is_file():
        spec = _joined(read_comparison(spec.folder), spec)
    elif not _is_free(spec.folder):
        raise InvalidInputError(
            f"{spec.folder} holds files that are no comparison's: choose another output_dir"
        )
    text = yaml.safe_dump(spec.as_mapping(), sort_keys=False, allow_unicode=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        files.write_whole(path, text.encode())
    return spec


def _is_free(folder: Path) -> bool:
    """Nothing is there but what another shard, starting now, is about to write."""
    if not folder.exists():
        return True
    return folder.is_dir() and all(path.suffix == ".part" for path in folder.iterdir())


def _joined(there: ComparisonSpec, new: ComparisonSpec) -> ComparisonSpec:
    changed = [
        f"{what}: {getattr(there, what)!r} -> {getattr(new, what)!r}"
        for what in ("budget", "evaluations")
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


def _budget(value: Any) -> dict[str, float]:
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
    return {unit: amount}


def _base(config: Mapping[str, Any], budget: Mapping[str, float], evaluations: int) -> Settings:
    given = config.get("settings") or {}
    if not isinstance(given, dict):
        raise InvalidInputError(f"settings must be a mapping; got {given!r}")
    decided = sorted(set(given) & {*_DECIDED, *_OWN_EVALUATIONS})
    if decided:
        raise InvalidInputError(
            f"settings name {', '.join(decided)}, which follow from the comparison's seeds, budget,"
            " evaluations and output_dir"
        )
    base = settings.read_config(config["config"]) if config.get("config") else {}
    base = {k: v for k, v in base.items() if k not in {*_DECIDED, *_OWN_EVALUATIONS}}
    unit, amount = next(iter(budget.items()))
    base = {**base, **given, "evaluations": evaluations, "max_steps": NO_LIMIT, UNITS[unit]: amount}
    spec = settings.parse(dict(base))
    if not spec.run.evaluation_problems:
        raise InvalidInputError("evaluation_problems is 0: a comparison needs evaluations")
    if spec.training.logging_steps != 1:
        raise InvalidInputError("logging_steps must be 1, so that no step is missing in the record")
    return base


def _check_schedule(arm: str, own: Settings, unit: str) -> None:
    """A schedule must not need to know the number of steps, but where the budget is one of steps.

    Raises:
        InvalidInputError: it does.
    """
    training = settings.parse(dict(own)).training
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


def _arms(value: Any, base: Settings, unit: str) -> dict[str, Settings]:
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
        arms[name] = arm_settings(base, name, own or {})
        _check_schedule(name, arms[name], unit)
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
