"""Reading a comparison from its YAML mapping, checked before anything runs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podslab.checks import refuse_unwritable
from podslab.comparison.arms import DECIDED, arm_settings
from podslab.comparison.comparison import UNITS, ComparisonSpec, Settings
from podslab.training.budget import NO_LIMIT
from podslab.training.config_file import read_config
from podslab.training.preflight import checked_spec
from podsrl.errors import InvalidInputError, suggestion
from podsrl.trl import PODSConfig

_KEYS = ("config", "settings", "arms", "seeds", "budget", "evaluations", "output_dir", "launch")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
    if unknown := [key for key in config if key not in _KEYS]:
        raise InvalidInputError(
            f"unknown key {unknown[0]!r} in a comparison, where settings of runs belong under"
            f" settings (for all arms) or under an arm; {suggestion(unknown[0], _KEYS)}"
        )

    unit, amount = _budget(config.get("budget"))
    evaluations = _evaluations(config.get("evaluations", 8), unit, amount)
    seeds = _seeds(config.get("seeds"))
    launch = config.get("launch") or []
    if not isinstance(launch, list):
        raise InvalidInputError(f"launch must be a list of words; got {launch!r}")

    folder = Path(str(config.get("output_dir") or f"runs/{name}")).expanduser()
    refuse_unwritable(folder)

    base = _base(config, unit, amount, evaluations)
    return ComparisonSpec(
        folder=folder,
        arms=_arms(config.get("arms"), base, unit),
        seeds=seeds,
        unit=unit,
        amount=amount,
        evaluations=evaluations,
        launch=tuple(str(word) for word in launch),
    )


def _budget(value: Any) -> tuple[str, float]:
    """What each run may spend: the unit, and how much of it."""
    entries = list(value.items()) if isinstance(value, dict) else []
    unit, amount = entries[0] if len(entries) == 1 else ("", 0)

    kinds = int if unit == "steps" else (int, float)
    if unit not in UNITS or not isinstance(amount, kinds) or not amount > 0:
        raise InvalidInputError(
            "budget must say how many training_seconds or how many (a whole number of) steps each"
            f" run may spend, such as {{training_seconds: 600}}; got {value!r}"
        )
    return unit, amount


def _evaluations(value: Any, unit: str, amount: float) -> int:
    """At how many points of the budget runs are evaluated."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInputError(f"evaluations must be 1 or more; got {value!r}")
    if unit == "steps" and amount < value:
        raise InvalidInputError(
            f"a budget of {amount:g} steps has no room for {value} evaluations, one after"
            " each step at most: ask for fewer evaluations or more steps"
        )
    return value


def _base(config: Mapping[str, Any], unit: str, amount: float, evaluations: int) -> Settings:
    """The settings of the arm `pods`, of which all arms begin."""
    settings = config.get("settings") or {}
    if not isinstance(settings, dict):
        raise InvalidInputError(f"settings must be a mapping; got {settings!r}")
    if decided := sorted(DECIDED & set(settings)):
        raise InvalidInputError(
            f"settings name {', '.join(decided)}, which follow from the comparison's seeds, budget,"
            " evaluations and output_dir"
        )

    of_file = read_config(str(config["config"])) if config.get("config") else {}
    base = {name: value for name, value in of_file.items() if name not in DECIDED}
    base |= settings
    base |= {"evaluations": evaluations, "max_steps": NO_LIMIT}
    base[UNITS[unit]] = amount  # which may be the number of steps
    return base


def _check_schedule(arm: str, training: PODSConfig, unit: str) -> None:
    """Refuse a schedule that needs the number of steps, which a budget of time leaves open."""
    schedule = str(getattr(training.lr_scheduler_type, "value", ""))
    warmup = training.warmup_steps
    if not schedule.startswith(("constant", "inverse_sqrt")):
        raise InvalidInputError(
            f"arm {arm!r}: lr_scheduler_type {schedule!r} needs to know the number of steps, which"
            f" a budget of {unit} leaves open; use constant, constant_with_warmup or inverse_sqrt,"
            " or a budget of steps"
        )
    if 0 < warmup < 1:
        raise InvalidInputError(
            f"arm {arm!r}: warmup_steps {warmup} is a share of the steps, whose number a budget of"
            f" {unit} leaves open; give a number of steps, such as 10"
        )


def _arms(value: Any, base: Settings, unit: str) -> dict[str, Settings]:
    """The settings of each arm, checked."""
    pods = checked_spec(base)
    if not pods.run.evaluation_problems:
        raise InvalidInputError("evaluation_problems is 0: a comparison needs evaluations")
    if pods.training.logging_steps != 1:
        raise InvalidInputError("logging_steps must be 1, so that no step is missing in the record")

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
        arms[name], spec = arm_settings(base, pods, name, own or {})
        if unit != "steps":
            _check_schedule(name, spec.training, unit)
    return arms


def _seeds(value: Any) -> tuple[int, ...]:
    """The seeds: a list, or as many as a number says, from 0."""
    seeds = list(range(value)) if isinstance(value, int) else value
    are_seeds = isinstance(seeds, list) and all(
        isinstance(seed, int) and seed >= 0 for seed in seeds
    )
    if not are_seeds or not seeds or len(set(seeds)) != len(seeds):
        raise InvalidInputError(
            f"seeds must be how many there are, or a list of different ones; got {value!r}"
        )
    return tuple(seeds)
