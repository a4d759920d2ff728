"""A comparison: its plan, which says what is run and how that is judged, and its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from podslab.engine.budget import Prices
from podslab.engine.folder import ARMS_PLAN, CHOSEN_RATES, TUNING
from podslab.engine.ledger import Ledger, digest_of
from podslab.engine.looks import Looks
from podslab.statistics.run_curve import OVER_RUN
from podsrl.errors import InvalidInputError, listed
from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import RunFolder

if TYPE_CHECKING:
    from podslab.training.spec import Spec

Settings = dict[str, Any]

#: Units of a budget, and the field of a run that holds it.
UNITS = {
    "training_seconds": "max_training_seconds",
    "steps": "max_steps",
    "rollouts": "max_rollouts",
    "price": "max_price",
}


def rate_name(rate: float) -> str:
    """A learning rate in the names of runs and folders, with three digits.

    >>> rate_name(3e-4)
    '0.0003'
    """
    return f"{rate:.3g}"


class RunKey(NamedTuple):
    """One run of a comparison; a run that a learning rate is chosen by has that rate."""

    arm: str
    seed: int
    rate: float | None = None

    @property
    def name(self) -> str:
        """The run in words, as messages and the ledger call it.

        >>> RunKey("pods", 0).name, RunKey("pods", 1000, 1e-5).name
        ('pods seed 0', 'tuning pods at 1e-05 seed 1000')
        """
        if self.rate is None:
            return f"{self.arm} seed {self.seed}"
        return f"{TUNING} {self.arm} at {rate_name(self.rate)} seed {self.seed}"

    @property
    def path(self) -> str:
        """Its folder within that of the comparison.

        >>> RunKey("pods", 0).path, RunKey("pods", 1000, 1e-5).path
        ('pods/seed-0', 'tuning/pods-1e-05/seed-1000')
        """
        if self.rate is None:
            return f"{self.arm}/seed-{self.seed}"
        return f"{TUNING}/{self.arm}-{rate_name(self.rate)}/seed-{self.seed}"


@dataclass(frozen=True)
class Tuning:
    """The choice of learning rates, for all arms alike.

    Args:
        rates: The rates that every arm is tried at, ascending.
        seeds: The seeds of these runs, which are not reported.
        split: The questions that they are measured on, which are not reported either.
    """

    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    split: str


@dataclass(frozen=True)
class DecisionRule:
    """The rule by which arms are judged, beside one of them.

    Args:
        reference: The arm that the others are compared with; None judges nothing.
        by: `AT_END` or `OVER_RUN`: what of a run is compared.
        margin: The least mean difference that counts.
        level: The chance of any false alarm, over all arms and looks.
        looks: The numbers of seeds after which the runs are looked at; () is once, after all.
    """

    reference: str | None = None
    by: str = OVER_RUN
    margin: float = 0.0
    level: float = 0.05
    looks: tuple[int, ...] = ()


@dataclass(frozen=True)
class ComparisonSpec:
    """The plan of a comparison: arms x seeds at one budget, and how they are judged.

    Args:
        folder: Where it is recorded.
        arms: The settings of each, complete except for the seed, the rate and the folder.
        seeds: The seeds that are reported.
        unit: The unit of the budget, one of `UNITS`, the same for all runs.
        amount: What each run may spend.
        evaluations: The points of the budget at which every run is evaluated, besides before it.
        prices: The prices of a rollout and of a row, where the budget is a price.
        tuning: How learning rates are chosen; None takes those of the settings.
        decision: How arms are judged.
        launch: The words before `-m podslab.comparison.run_worker`; () runs Python.
    """

    folder: Path
    arms: Mapping[str, Settings]
    seeds: tuple[int, ...]
    unit: str
    amount: float
    evaluations: int
    prices: Prices | None = None
    tuning: Tuning | None = None
    decision: DecisionRule = field(default_factory=DecisionRule)
    launch: tuple[str, ...] = ()

    def runs(self) -> list[RunKey]:
        """All reported runs, seed by seed, so that an unfinished comparison has whole seeds."""
        return [RunKey(arm, seed) for seed in self.seeds for arm in self.arms]

    def tuning_runs(self) -> list[RunKey]:
        """The runs that learning rates are chosen by."""
        if self.tuning is None:
            return []
        return [
            RunKey(arm, seed, rate)
            for seed in self.tuning.seeds
            for arm in self.arms
            for rate in self.tuning.rates
        ]

    def run_at(self, path: str) -> RunKey:
        """The run of this path within the folder.

        Raises:
            InvalidInputError: The plan names no such run.
        """
        for run in (*self.runs(), *self.tuning_runs()):
            if run.path == path:
                return run
        raise InvalidInputError(f"{self.folder / ARMS_PLAN} names no run {path}")

    def run_folder(self, run: RunKey) -> RunFolder:
        """Where a run is recorded."""
        return RunFolder(self.folder / run.path)

    def run_spec(self, run: RunKey) -> "Spec":
        """The settings of a run; its rate is that of the arm until tuning has chosen one."""
        from podslab.training.spec import parse

        own = {"arm": run.arm, "seed": run.seed, "output_dir": str(self.run_folder(run).path)}
        if self.tuning is not None:
            if run.rate is not None:
                own |= {"learning_rate": run.rate, "evaluation_split": self.tuning.split}
            elif (rate := self.chosen_rates().get(run.arm)) is not None:
                own |= {"learning_rate": rate}
        return parse({**self.arms[run.arm], **own})

    def chosen_rates(self) -> dict[str, float]:
        """The learning rate of each arm that tuning chose; {} before that."""
        return dict(files.read_json(self.folder / CHOSEN_RATES) or {})

    @property
    def looks(self) -> Looks:
        """After how many seeds the runs are looked at, and at which level."""
        return Looks(self.decision.looks or (len(self.seeds),), self.decision.level)

    def plan(self) -> dict[str, Any]:
        """The plan as comparison.yaml holds it."""
        budget: dict[str, Any] = {self.unit: self.amount}
        if self.prices is not None:
            budget |= {"rollout": self.prices.rollout, "row": self.prices.row}
        decision = {**vars(self.decision), "looks": list(self.decision.looks)}
        mapping = {
            "arms": {name: dict(own) for name, own in self.arms.items()},
            "seeds": list(self.seeds),
            "budget": budget,
            "evaluations": self.evaluations,
            "decision": decision,
            "launch": list(self.launch),
        }
        if self.tuning is not None:
            mapping["rates"] = {
                "values": list(self.tuning.rates),
                "seeds": list(self.tuning.seeds),
                "split": self.tuning.split,
            }
        return mapping

    def ledger(self, shard: "Shard | None" = None) -> Ledger:
        """Its ledger, to which a shard adds; the digest of the plan is beside each attempt."""
        plan = self.plan()
        del plan["launch"]  # how processes are started decides no outcome
        is_part = shard is not None and shard.count > 1
        return Ledger(self.folder, digest_of(plan), part=str(shard) if is_part else "")


@dataclass(frozen=True)
class Shard:
    """Our part of a comparison's runs: number `index` (from 1) of `count` parts."""

    index: int = 1
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index}-of-{self.count}"

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

    def part_of(self, runs: Sequence[RunKey], seeds: Sequence[int]) -> list[RunKey]:
        """Our runs: whole seeds, so that the arms of a seed share a machine, if there are enough.

        With more shards than seeds single runs are dealt out.
        """
        if self.count <= len(seeds):
            mine = seeds[self.index - 1 :: self.count]
            return [run for run in runs if run.seed in mine]
        return list(runs[self.index - 1 :: self.count])


def read_comparison(folder: Path) -> ComparisonSpec:
    """The comparison that a folder holds; `InvalidInputError` for none, or a damaged one."""
    path = folder / ARMS_PLAN
    if not path.is_file():
        raise InvalidInputError(f"{folder} holds no comparison: no {ARMS_PLAN}")
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
        (unit,) = UNITS.keys() & value["budget"]
        rates = value.get("rates")
        decision = value.get("decision") or {}  # none in folders of before there was one
        return ComparisonSpec(
            folder=folder,
            arms=dict(value["arms"]),
            seeds=tuple(int(seed) for seed in value["seeds"]),
            unit=unit,
            amount=value["budget"][unit],
            evaluations=value["evaluations"],
            prices=_prices(value["budget"]),
            tuning=rates
            and Tuning(tuple(rates["values"]), tuple(rates["seeds"]), str(rates["split"])),
            decision=DecisionRule(**{**decision, "looks": tuple(decision.get("looks") or ())}),
            launch=tuple(value["launch"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise InvalidInputError(f"{path} is damaged: {error!r}") from error


def _prices(budget: Mapping[str, Any]) -> Prices | None:
    return Prices(budget["rollout"], budget["row"]) if "price" in budget else None


def open_comparison(spec: ComparisonSpec) -> ComparisonSpec:
    """Write comparison.yaml, or add arms and seeds to the comparison that is there.

    One of which no run has begun is replaced.

    Returns:
        The comparison with all arms and seeds, those that were there first.

    Raises:
        InvalidInputError: the folder holds another comparison.
    """
    path = spec.folder / ARMS_PLAN
    refuse_foreign(spec.folder)
    if path.is_file() and _has_begun(spec.folder):
        spec = _joined(read_comparison(spec.folder), spec)
    text = yaml.safe_dump(spec.plan(), sort_keys=False, allow_unicode=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        files.write_whole(path, text.encode())
    return spec


def _has_begun(folder: Path) -> bool:
    """Whether any run of the comparison in a folder has begun, reported or not."""
    places = ("*/*/config.yaml", f"{TUNING}/*/*/config.yaml")
    return any(True for place in places for _ in folder.glob(place))


def refuse_foreign(folder: Path) -> None:
    """Raise `InvalidInputError` for a folder that holds other things than a comparison."""
    if not folder.exists() or (folder / ARMS_PLAN).is_file():
        return
    if not folder.is_dir() or any(path.suffix != ".part" for path in folder.iterdir()):
        raise InvalidInputError(
            f"{folder} holds files that are no comparison's: choose another output_dir"
        )


def _changes_of_arms(there: Mapping[str, Settings], new: Mapping[str, Settings]) -> list[str]:
    """List the changes of the arms that are in both; the same change of several is one."""
    arms_of_change: dict[str, list[str]] = {}
    for arm, before in there.items():
        after = new.get(arm, before)
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                change = f"{key}: {before.get(key)!r} -> {after.get(key)!r}"
                arms_of_change.setdefault(change, []).append(arm)

    return [f"{change} (of {', '.join(arms)})" for change, arms in arms_of_change.items()]


def _joined(there: ComparisonSpec, new: ComparisonSpec) -> ComparisonSpec:
    if None in (there.decision.reference, new.decision.reference):
        # The reference follows from the arms, and each of the two may name other ones.
        reference = there.decision.reference or new.decision.reference
        there = replace(there, decision=replace(there.decision, reference=reference))
        new = replace(new, decision=replace(new.decision, reference=reference))

    changed = [
        f"{what}: {getattr(there, what)!r} -> {getattr(new, what)!r}"
        for what in ("unit", "amount", "evaluations", "prices", "tuning", "decision")
        if getattr(there, what) != getattr(new, what)
    ]
    changed += _changes_of_arms(there.arms, new.arms)
    if there.decision.looks and (added := set(new.seeds) - set(there.seeds)):
        # Its last look is after all seeds.
        changed.append(f"seeds added after planned looks: {sorted(added)}")
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
