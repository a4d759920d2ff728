"""The user's own check of each rollout: a function in a file, whose result is a column.

`--check mine.py:short_enough` calls `short_enough(rollout)` once for each rollout, a dictionary
with the columns of the log, and takes a number, True or False, or None.
"""

import threading
import time
from typing import TYPE_CHECKING, Any

from podsrl.errors import InvalidInputError, PodsError, UnknownNameError
from podsrl.plugins import import_module_or_file, user_code
from podsrl.rewards import as_number, is_number

if TYPE_CHECKING:
    from podsrl.inspector.index import Index, Run

#: Seconds of checking between two looks for new steps.
_SECONDS = 3.0


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

        self.checked: dict[int, set[int]] = {}  # the steps of each run
        self.done = 0
        self.failed = 0
        self.problem: str | None = None

    def run(self, index: "Index", stopping: threading.Event, seconds: float = _SECONDS) -> None:
        """Check the steps that are new, until the time is over.

        Args:
            index: The rollouts.
            stopping: Ends it.
            seconds: How long; infinite to check all.
        """
        end = time.monotonic() + seconds
        for run in index.runs:
            checked = self.checked.setdefault(run.number, set())
            steps = index.rows(
                "SELECT step FROM steps WHERE run = $run ORDER BY step DESC", {"run": run.number}
            )
            for step in (row["step"] for row in steps):
                if step in checked:
                    continue
                if stopping.is_set() or time.monotonic() > end:
                    return
                self._check_step(index, run, step)
                checked.add(step)
                index.version += 1

    def value(self, rollout: dict[str, Any]) -> float | None:
        """The function's value for a rollout; None where it returns None, or fails."""
        self.done += 1
        try:
            with user_code(self.file, f"check {self.name!r} failed"):
                value = self.function(rollout)
            if value is not None and not is_number(value):
                raise InvalidInputError(
                    f"check {self.name!r} must return a number, True, False or None; it returned"
                    f" {type(value).__name__}"
                )
        except PodsError as error:
            self.failed += 1
            self.problem = self.problem or str(error)
            return None
        return None if value is None else as_number(value)

    def _check_step(self, index: "Index", run: "Run", step: int) -> None:
        from podsrl.inspector.answers import read_rollouts

        places: list[tuple[int, int]] = []
        values: list[float | None] = []
        for rollout in read_rollouts(index, run, step):
            places.append((rollout["group"], rollout["rollout"]))
            values.append(self.value(rollout))
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
