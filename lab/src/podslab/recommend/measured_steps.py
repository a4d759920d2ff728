"""Steps that were measured: their sizes, their seconds by phase, their peak of memory."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.rollout_log import files

#: The file of the steps that were measured, in the folder of a comparison.
STEPS = "steps.json"
#: The method that others are compared with.
GRPO = "grpo"


@dataclass(frozen=True)
class MeasuredStep:
    """The mean step of some sizes.

    Args:
        method: Its name; "grpo" if all rollouts are trained on.
        rollouts_per_row: Rollouts that are generated for each row of the update, n/m.
        rows: Of a step, of all prompts; None where it is not known.
        seconds: By phase.
        steps: How many were measured; 0 where the sizes could not be run.
        peak_memory: In bytes; None where it is not known.
        problem: Why the sizes could not be run.
        rows_of_pass: Of one pass of one device; None where it is not known.
        rows_of_prompt: m; None where it is not known.
    """

    method: str
    rollouts_per_row: float
    rows: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    steps: int = 0
    peak_memory: float | None = None
    problem: str = ""
    rows_of_pass: int | None = None
    rows_of_prompt: int | None = None

    @property
    def total(self) -> float:
        """The seconds of all phases."""
        return sum(self.seconds.values())

    def cost(self, grpo: "MeasuredStep") -> float:
        """Its seconds over those of a step of GRPO."""
        return self.total / grpo.total


@dataclass(frozen=True)
class MeasuredSteps:
    """Steps of several sizes on one machine.

    Args:
        of: What was run, such as a script or a log.
        machine: On what; "" where it is not known.
        steps: GRPO first, then by the rollouts for each row.
        in_other_passes: GRPO's step with as many rows, in passes of another size; None where it
            was not measured.
    """

    of: str
    machine: str
    steps: Sequence[MeasuredStep]
    in_other_passes: MeasuredStep | None = None

    @property
    def grpo(self) -> MeasuredStep | None:
        """The step that others are compared with: GRPO's, with the fewest rows."""
        steps = [step for step in self.steps if step.method == GRPO and step.steps]
        return min(steps, key=lambda step: step.rows or 0.0, default=None)

    def write(self, folder: Path) -> None:
        """Write them into a folder."""
        other = self.in_other_passes
        value = {
            "of": self.of,
            "machine": self.machine,
            "steps": [*map(asdict, self.steps)],
            "in_other_passes": None if other is None else asdict(other),
        }
        files.write_json(folder / STEPS, value)

    @classmethod
    def read(cls, folder: Path) -> "MeasuredSteps | None":
        """The steps that `write` wrote into a folder; None where it did not.

        Raises:
            InvalidInputError: The file is damaged, or of another version.
        """
        value: dict[str, Any] | None = files.read_json(folder / STEPS)
        if value is None:
            return None
        try:
            steps = [MeasuredStep(**step) for step in value["steps"]]
            other = value.get("in_other_passes")
            return cls(
                of=value["of"],
                machine=value["machine"],
                steps=steps,
                in_other_passes=None if other is None else MeasuredStep(**other),
            )
        except (KeyError, TypeError) as error:
            raise InvalidInputError(
                f"{folder / STEPS} is damaged ({error}): pods recommend train.py measures anew"
            ) from error
