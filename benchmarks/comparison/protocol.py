"""The protocol as a program reads it: which runs there are, with which settings.

protocol.yaml is its one source. A run that it does not name is neither started nor reported.
"""

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from podsrl.errors import UnknownNameError, suggestion

FILE = Path(__file__).with_name("protocol.yaml")
#: The stage whose rates the others have, where they do not say another.
TUNING = "tuning"
#: Beside plain GRPO that generates as many rollouts at once as those that choose among them; and
#: once more where its arms had been tuned on several processors.
SAME_BATCH, SAME_BATCH_AGAIN = "batch", "batch-again"
#: Made only where a GPU can be had; no advice follows from it.
ON_GPU = "gpu"


@dataclass(frozen=True)
class PlannedRun:
    """A run that the protocol names.

    Args:
        stage: One of `Protocol.stages`, or `ON_GPU`.
        set: The name of its set of questions.
        arm: The name of its arm.
        seed: Of the order of the questions and of the sampling.
        rate: The learning rate of a tuning run; None in the other stages, whose rate is the one
            that tuning chose.
    """

    stage: str
    set: str
    arm: str
    seed: int
    rate: float | None = None

    @property
    def name(self) -> str:
        """The name that its files and its lines in the ledger have."""
        parts = [self.stage, self.set, self.arm, str(self.seed)]
        if self.rate is not None:
            parts.append(f"{self.rate:.0e}")
        return "_".join(parts)

    @property
    def block(self) -> tuple[str, ...]:
        """What it is compared with, so that all runs of a block are made on one kind of machine.

        Rates are compared within an arm, and arms within a seed.
        """
        compared = "" if self.rate is None else self.arm
        return (self.stage, self.set, str(self.seed), compared)


@dataclass(frozen=True)
class Protocol:
    """What protocol.yaml says.

    Args:
        values: The file's content.
        digest: The SHA-256 of its bytes, which every run records.
    """

    values: Mapping[str, Any]
    digest: str

    @property
    def arms(self) -> dict[str, dict[str, Any]]:
        """The arms: what each is in words, and its settings."""
        return dict(self.values["arms"])

    @property
    def sets(self) -> dict[str, dict[str, Any]]:
        """The sets of questions: their kinds, and settings that follow from their lengths."""
        return dict(self.values["sets"])

    @property
    def reference(self) -> str:
        """The arm that the others are compared with."""
        return str(self.values["reference"])

    @property
    def stages(self) -> list[str]:
        """The stages on a CPU, in the order in which they are run."""
        return [name for name in self.values["stages"] if name != ON_GPU]

    def is_tuning(self, stage: str) -> bool:
        """Whether the runs of a stage are made to choose rates."""
        return "rates" in self.stage(stage)

    def tuned_by(self, stage: str, arm: str) -> str:
        """The stage that chose the rate of an arm in another one."""
        own = str(self.stage(stage).get("tuned_by", TUNING))
        return own if arm in self.arms_of(own) else TUNING

    def same_batch_on(self, set_name: str) -> str | None:
        """The stage that has the fairest comparison with `SAME_BATCH`'s reference on a set."""
        for stage in (SAME_BATCH_AGAIN, SAME_BATCH):
            if stage in self.stages and set_name in self.sets_of(stage):
                return stage
        return None

    def stage(self, name: str) -> dict[str, Any]:
        """Length, seeds, evaluation split and schedule of a stage."""
        return dict(self.values["stages"][name])

    def arms_of(self, stage: str) -> list[str]:
        """The arms that a stage has."""
        return list(self.stage(stage).get("arms", self.arms))

    def reference_of(self, stage: str) -> str:
        """The arm that the others of a stage are compared with."""
        return str(self.stage(stage).get("reference", self.reference))

    def sets_of_arm(self, arm: str) -> list[str]:
        """The sets that an arm is run on."""
        return list(self.arms[arm].get("sets", self.sets))

    def sets_of(self, stage: str) -> list[str]:
        """The sets that a stage has."""
        return list(self.stage(stage).get("sets", self.sets))

    @cached_property
    def runs(self) -> tuple[PlannedRun, ...]:
        """All runs, in the order in which they are made: block by block.

        Within a block the order is drawn anew, so that what else the machine does at the time
        favours no arm.
        """
        return tuple(self._runs())

    @cached_property
    def gpu_runs(self) -> tuple[PlannedRun, ...]:
        """The runs on a GPU, block by block."""
        return tuple(self._seeds_of(ON_GPU))

    @cached_property
    def by_name(self) -> dict[str, PlannedRun]:
        """The runs by their names."""
        return {run.name: run for run in (*self.runs, *self.gpu_runs)}

    def _runs(self) -> Iterator[PlannedRun]:
        for stage in self.stages:
            if not self.is_tuning(stage):
                yield from self._seeds_of(stage)
                continue
            for set_name in self.sets_of(stage):
                yield from self._tuning_runs(stage, set_name)

    def _seeds_of(self, stage: str) -> Iterator[PlannedRun]:
        for set_name in self.sets_of(stage):
            for seed in self.stage(stage)["seeds"]:
                for arm in _in_drawn_order(self.arms_of(stage), f"{stage} {set_name} {seed}"):
                    yield PlannedRun(stage, set_name, arm, seed)

    def _tuning_runs(self, stage: str, set_name: str) -> Iterator[PlannedRun]:
        for seed in self.stage(stage)["seeds"]:
            for arm in self.arms_of(stage):
                if set_name not in self.sets_of_arm(arm):
                    continue
                rates = self.stage(stage)["rates"]
                for rate in _in_drawn_order(rates, f"{stage} {set_name} {seed} {arm}"):
                    yield PlannedRun(stage, set_name, arm, seed, rate)

    def named(self, name: str) -> PlannedRun:
        """The run of this name.

        Raises:
            UnknownNameError: The protocol has no such run, so it is not reported.
        """
        if name not in self.by_name:
            raise UnknownNameError(
                f"the protocol names no run {name!r}, so it is neither made nor reported;"
                f" benchmarks/comparison/protocol.yaml says which there are"
            )
        return self.by_name[name]

    def schedule_of(self, stage: str, set_name: str, arm: str) -> dict[str, Any]:
        """When and how runs of an arm are measured on a set, as `one_run.train` reads it."""
        values = self.stage(stage)
        own = self.sets[set_name].get("measured", {}).get(stage, {})
        of_reference = values.get("measured_of_reference", {}) if arm == self.reference else {}
        return {**values["measured"], **own, **of_reference}

    def settings_of(self, run: PlannedRun, rate: float) -> dict[str, Any]:
        """The settings of a run, as `podslab.training.spec.parse` reads them, without its folder.

        Args:
            run: The run.
            rate: Its learning rate, which for a run that isn't of tuning follows from tuning.
        """
        own_set = self.sets[run.set]
        return {
            **self.values["settings"],
            "max_completion_length": own_set["max_completion_length"],
            **self.arms[run.arm]["settings"],
            **self.stage(run.stage).get("settings", {}),
            "arm": run.arm,
            "seed": run.seed,
            "learning_rate": float(rate),
            "max_training_seconds": float(self.stage(run.stage)["seconds"]),
            "evaluation_split": self.stage(run.stage)["questions"],
            "task_options": {"kinds": own_set["kinds"], **self.values["questions"]},
        }


def _in_drawn_order(values: Sequence[Any], seed: str) -> list[Any]:
    return random.Random(seed).sample(list(values), len(values))


def read_protocol(file: Path = FILE) -> Protocol:
    """The protocol of a file."""
    data = file.read_bytes()
    return Protocol(values=yaml.safe_load(data), digest=hashlib.sha256(data).hexdigest())


def check_name(what: str, name: str, known: Mapping[str, Any]) -> str:
    """A name, if it is known.

    Raises:
        UnknownNameError: It is not; the message lists those that are.
    """
    if name in known:
        return name
    every = f"the protocol has {', '.join(known)}"
    raise UnknownNameError(f"unknown {what} {name!r}; {suggestion(name, known, every)}")
