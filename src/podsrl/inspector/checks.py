"""The user's own check of each rollout: a function in a file, whose result is a column.

`--check mine.py:short_enough` calls `short_enough(rollout)` once for each rollout, a dictionary
with the columns of the log, and takes a number, True or False, or None.
"""

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from podsrl.errors import InvalidInputError, PodsError, UnknownNameError
from podsrl.plugins import import_module_or_file, user_code
from podsrl.rewards import as_number, is_number

if TYPE_CHECKING:
    from podsrl.inspector.index import Index, Run

#: Seconds of checking between two looks for new steps.
_SECONDS = 3.0
#: The steps of a run, and a number of each that is another one where its rollouts are others.
_STEPS = """
SELECT step, hash(rollouts, prompts, round(reward, 9), round(contrast, 9), round(tokens, 9)) AS now
FROM steps WHERE run = $run ORDER BY step DESC
"""


@dataclass
class CheckedStep:
    """What was checked of a step."""

    content: int | None = None  # as `_STEPS` numbers it, once all of it is checked
    done: int = 0
    failed: int = 0


class Check:
    """A function that is called for each rollout, newest steps first.

    Args:
        name: "file.py:function" or "module:function".

    Raises:
        InvalidInputError: It is not of this form, or the file can't be imported.
        UnknownNameError: There is no such file or function.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.file, colon, function = name.rpartition(":")
        if not colon or not self.file:
            raise InvalidInputError(f"--check {name}: give file.py:function")
        module = import_module_or_file(self.file)
        if not callable(getattr(module, function, None)):
            raise UnknownNameError(f"--check {name}: {self.file} has no function {function!r}")
        self.function = getattr(module, function)

        self.checked: dict[int, dict[int, CheckedStep]] = {}  # by run and step
        self.problem: str | None = None

    @property
    def done(self) -> int:
        """The rollouts that were checked."""
        return sum(step.done for step in self._steps())

    @property
    def failed(self) -> int:
        """The rollouts for which it failed."""
        return sum(step.failed for step in self._steps())

    def _steps(self) -> list[CheckedStep]:
        return [step for of_run in list(self.checked.values()) for step in list(of_run.values())]

    def run(self, index: "Index", stopping: threading.Event, seconds: float = _SECONDS) -> None:
        """Check the steps that are new, or have other rollouts than before, until the time is over.

        Args:
            index: The rollouts.
            stopping: Ends it.
            seconds: How long; infinite to check all.
        """
        end = time.monotonic() + seconds
        for run in index.runs:
            checked = self.checked.setdefault(run.number, {})
            for row in index.rows(_STEPS, {"run": run.number}):
                step = row["step"]
                if step in checked and checked[step].content == row["now"]:
                    continue
                if stopping.is_set() or time.monotonic() > end:
                    return
                checked[step] = CheckedStep()
                self._check_step(index, run, step, checked[step])
                checked[step].content = row["now"]
                index.version += 1

    def value(self, rollout: dict[str, Any], counted: CheckedStep) -> float | None:
        """The function's value for a rollout of a step; None where it returns None, or fails."""
        counted.done += 1
        try:
            with user_code(self.file, f"check {self.name!r} failed"):
                value = self.function(rollout)
            if value is not None and not is_number(value):
                raise InvalidInputError(
                    f"check {self.name!r} must return a number, True, False or None; it returned"
                    f" {type(value).__name__}"
                )
        except PodsError as error:
            counted.failed += 1
            self.problem = self.problem or str(error)
            return None
        return None if value is None else as_number(value)

    def _check_step(self, index: "Index", run: "Run", step: int, counted: CheckedStep) -> None:
        from podsrl.inspector.answers import read_rollouts

        places: list[tuple[int, int]] = []
        values: list[float | None] = []
        for rollout in read_rollouts(index, run, step):
            places.append((rollout["group"], rollout["rollout"]))
            values.append(self.value(rollout, counted))
        cursor = index.cursor()
        cursor.execute(
            "DELETE FROM checks WHERE run = ? AND step = ?",
            [run.number, step],
        )
        cursor.execute(
            "INSERT INTO checks SELECT ?, ?, unnest(?::INTEGER[]), unnest(?::INTEGER[]),"
            " unnest(?::DOUBLE[])",
            [
                run.number,
                step,
                [group for group, _ in places],
                [rollout for _, rollout in places],
                values,
            ],
        )

    def state(self, rollouts: int) -> dict[str, Any]:
        """The progress of the check, for the page."""
        return {
            "name": self.name,
            "done": self.done,
            "rollouts": rollouts,
            "failed": self.failed,
            "problem": self.problem,
        }
