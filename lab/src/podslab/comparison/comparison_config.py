"""Reading a comparison from its YAML mapping, checked before anything runs."""

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from podslab.checks import refuse_unwritable
from podslab.comparison.arms import DECIDED, arm_settings
from podslab.comparison.comparison import (
    UNITS,
    ComparisonSpec,
    DecisionRule,
    Settings,
    Tuning,
    rate_name,
)
from podslab.engine.budget import NO_LIMIT, Prices
from podslab.engine.folder import TUNING
from podslab.statistics.run_curve import AT_END, OVER_RUN
from podslab.training.config_file import read_config
from podslab.training.preflight import check_split, checked_spec, task_of
from podsrl.errors import InvalidInputError, UnknownNameError, suggestion
from podsrl.trl import PODSConfig

_KEYS = (
    "config",
    "settings",
    "arms",
    "rates",
    "seeds",
    "budget",
    "evaluations",
    "decision",
    "output_dir",
    "launch",
)
#: The prices that stand beside a budget by price.
_PRICES = ("rollout", "row")
#: Arms that others are compared with, where the plan names none.
_REFERENCES = ("grpo", "grpo_ga")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def parse_comparison(config: Mapping[str, Any], name: str) -> ComparisonSpec:
    """A comparison from its YAML mapping.

    Args:
        config: `arms` (name: own settings), `seeds` (a number or a list), `budget` (one unit of
            `UNITS`; beside `price` the prices of a `rollout` and a `row`), `evaluations` (8),
            `rates` (how learning rates are chosen: `values`, `seeds`, `split`), `decision`
            (`reference`, `by`, `margin`, `level`, `looks`), `config` (of `pods train`, for all
            arms), `settings` (over it), `output_dir` (runs/<name>), `launch` (such as accelerate
            launch ...).
        name: The comparison's.

    Raises:
        InvalidInputError: Unknown keys, no arms, settings that are not allowed; the message says
            what is.
    """
    if unknown := [key for key in config if key not in _KEYS]:
        raise InvalidInputError(
            f"unknown key {unknown[0]!r} in a comparison, where settings of runs belong under"
            f" settings (for all arms) or under an arm; {suggestion(unknown[0], _KEYS)}"
        )

    unit, amount, prices = _budget(config.get("budget"))
    evaluations = _evaluations(config.get("evaluations", 8), unit, amount)
    seeds = _seeds(config.get("seeds"))
    launch = config.get("launch") or []
    if not isinstance(launch, list):
        raise InvalidInputError(f"launch must be a list of words; got {launch!r}")

    folder = Path(str(config.get("output_dir") or f"runs/{name}")).expanduser()
    refuse_unwritable(folder)

    base = _base(config, unit, amount, evaluations, prices)
    arms = _arms(config.get("arms"), base, unit)
    return ComparisonSpec(
        folder=folder,
        arms=arms,
        seeds=seeds,
        unit=unit,
        amount=amount,
        evaluations=evaluations,
        prices=prices,
        tuning=_tuning(config.get("rates"), seeds, base),
        decision=_decision(config.get("decision"), list(arms), len(seeds)),
        launch=tuple(str(word) for word in launch),
    )


def _budget(value: Any) -> tuple[str, float, Prices | None]:
    """The budget of a run: its unit, its amount, and the prices of a budget by price."""
    given = dict(value) if isinstance(value, dict) else {}
    prices = None
    if "price" in given:
        missing = [name for name in _PRICES if not isinstance(given.get(name), (int, float))]
        if missing:
            raise InvalidInputError(
                "a budget by price says what a rollout and a row cost, such as {price: 5000,"
                f" rollout: 0.5, row: 1}}; got {value!r}"
            )
        prices = Prices(*(float(given.pop(name)) for name in _PRICES))

    entries = list(given.items())
    unit, amount = entries[0] if len(entries) == 1 else ("", 0)
    kinds = int if unit in ("steps", "rollouts") else (int, float)
    if unit not in UNITS or not isinstance(amount, kinds) or not amount > 0:
        raise InvalidInputError(
            "budget must say how much each run may spend, in one unit: training_seconds, a whole"
            " number of steps or rollouts, or a price, such as {training_seconds: 600}; got"
            f" {value!r}"
        )
    return unit, amount, prices


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


def _base(
    config: Mapping[str, Any],
    unit: str,
    amount: float,
    evaluations: int,
    prices: Prices | None,
) -> Settings:
    """The settings of the arm `pods`, with which all arms begin."""
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
    if prices is not None:
        base |= {"rollout_price": prices.rollout, "row_price": prices.row}
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
        if name == TUNING:
            raise InvalidInputError(
                f"an arm can't be named {TUNING!r}, as the folder of the runs that learning rates"
                " are chosen by is: give it another name"
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


def _tuning(value: Any, seeds: tuple[int, ...], base: Settings) -> Tuning | None:
    """The choice of learning rates, on seeds and questions that are not reported."""
    if value is None:
        return None
    spec = checked_spec(base)
    given = value if isinstance(value, dict) else {"values": value}
    if unknown := sorted(given.keys() - {"values", "seeds", "split"}):
        raise InvalidInputError(
            f"rates has no {unknown[0]!r}: it says values, and may say seeds and split"
        )

    rates = given.get("values")
    rates = rates if isinstance(rates, list) else []
    are_rates = all(isinstance(rate, (int, float)) and rate > 0 for rate in rates)
    if not are_rates or len(set(rates)) < 2:
        raise InvalidInputError(
            "rates must list two learning rates or more, such as {values: [1.0e-5, 3.0e-5]}; got"
            f" {value!r}"
        )
    ascending = tuple(sorted(float(rate) for rate in set(rates)))
    for lower, higher in pairwise(ascending):
        if rate_name(lower) == rate_name(higher):
            raise InvalidInputError(
                f"rates {lower!r} and {higher!r} are both {rate_name(lower)} in the names of their"
                " folders: give rates that differ in three digits"
            )

    own_seeds = _seeds(given.get("seeds", [max(seeds) + 1000]))
    if both := sorted(set(own_seeds) & set(seeds)):
        raise InvalidInputError(
            f"rates has the seed {both[0]}, which is reported: choose rates by other seeds"
        )
    split = str(given.get("split", spec.run.train_split))
    check_split(task_of(spec), spec.run.task, split)
    if split == spec.run.evaluation_split:
        raise InvalidInputError(
            f"rates has the split {split!r}, which is reported: choose rates by other questions"
        )
    return Tuning(ascending, own_seeds, split)


def _decision(value: Any, arms: list[str], seeds: int) -> DecisionRule:
    """The rule of decision; by default beside GRPO, by the mean over the run."""
    given = value if value is not None else {}
    known = vars(DecisionRule())
    if not isinstance(given, dict) or (unknown := sorted(given.keys() - known.keys())):
        what = f"{unknown[0]!r}" if isinstance(given, dict) else f"{given!r}"
        raise InvalidInputError(f"decision may say {', '.join(known)}; got {what}")

    usual = next((name for name in _REFERENCES if name in arms), None)
    looks = given.get("looks") or []
    are_numbers = isinstance(looks, list) and all(isinstance(look, int) for look in looks)
    if not are_numbers:
        raise InvalidInputError(f"decision: looks are numbers of seeds; got {looks!r}")
    rule = DecisionRule(**{**known, "reference": usual, **given, "looks": tuple(looks)})
    if rule.reference is not None and rule.reference not in arms:
        raise UnknownNameError(
            f"decision: no arm {rule.reference!r} to compare with; there are {', '.join(arms)}"
        )
    if rule.by not in (AT_END, OVER_RUN):
        raise InvalidInputError(f"decision: by is {AT_END!r} or {OVER_RUN!r}; got {rule.by!r}")
    are_numbers = all(isinstance(value, (int, float)) for value in (rule.level, rule.margin))
    if not (are_numbers and 0 < rule.level < 1 and rule.margin >= 0):
        raise InvalidInputError(
            "decision: level lies between 0 and 1, and margin is 0 or more; got"
            f" {rule.level} and {rule.margin}"
        )
    ascending = tuple(sorted(set(rule.looks)))
    if rule.looks and (ascending != rule.looks or rule.looks[0] < 2 or rule.looks[-1] != seeds):
        raise InvalidInputError(
            f"decision: looks are numbers of seeds, 2 or more and ascending, the last {seeds}, all"
            f" seeds; got {list(rule.looks)}"
        )
    return rule
