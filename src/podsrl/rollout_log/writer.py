"""Every rollout on disk, kept or not, within a bound, by a thread that training does not wait for.

Each process of a run writes the rollouts that it generated, as a part of its step. All of them keep
the same account of the steps, so that they thin out the same ones without asking each other.
"""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podsrl.errors import RecordError, needed
from podsrl.rollout_log import files
from podsrl.rollout_log.columns import column_kinds
from podsrl.rollout_log.run_folder import Part, RunFolder, as_parquet

RolloutColumns = Mapping[str, Sequence[Any]]

_WAITING = 2  # generations in memory; when there are more, training waits for the disk


@dataclass
class LoggedSteps:
    """The account of logged steps, which all processes of a run have alike.

    A step takes no longer to be counted where many were counted before.

    Args:
        apart: How many steps are at least between two that are logged.
        rollouts: The rollouts of each logged step, of all processes, by step, ascending.
    """

    apart: int = 0
    rollouts: dict[int, int] = field(default_factory=dict)
    total: int = field(init=False)  # of all logged steps

    def __post_init__(self) -> None:
        self.total = sum(self.rollouts.values())

    @classmethod
    def of(cls, run: RunFolder) -> "LoggedSteps":
        """The steps that an earlier start of the run logged."""
        thinned = files.read_json(run.path / "rollouts" / _THINNED) or {"apart": 0}
        return cls(
            thinned["apart"], {step: run.rollout_count(step) for step in run.rollout_steps()}
        )

    def is_due(self, step: int) -> bool:
        """Whether a step is far enough from the last one that is logged."""
        last = next(reversed(self.rollouts), -self.apart)
        return step in self.rollouts or step >= last + self.apart

    def count(self, step: int, rollouts: int) -> None:
        """Add the rollouts of a generation."""
        self.rollouts[step] = self.rollouts.get(step, 0) + rollouts
        self.total += rollouts

    def thin_out(self) -> list[int]:
        """Drop every second step, and log the later ones twice as far apart; those dropped."""
        steps = sorted(self.rollouts)
        self.apart = 2 * (steps[1] - steps[0])
        dropped = steps[1::2]
        for step in dropped:
            self.total -= self.rollouts.pop(step)
        return dropped


_THINNED = ".thinned.json"  # hidden from readers of the folder


class RolloutLog:
    """Writes the rollouts that a process generated, a file for each generation.

    When the parts of all processes hold more than `max_rows` rows together, every second logged
    step is deleted, and the steps that follow are logged twice as far apart, also by a run that is
    resumed.

    What can't be written is told by the next `write` or `flush`.

    Args:
        run: The folder.
        max_rows: The bound.
        process, world: The number of this process, and how many there are.
        logged: What was logged before, which must be the same on all processes.
    """

    def __init__(
        self,
        run: RunFolder,
        max_rows: int,
        process: int = 0,
        world: int = 1,
        logged: LoggedSteps | None = None,
    ) -> None:
        with needed("rollouts"):
            # Here and not in the thread: when it first writes, Arrow reads environment variables,
            # and a process ends by a segmentation fault if another thread, in which torch and
            # accelerate do so in a first step, sets some at this moment.
            as_parquet(0, dict.fromkeys(column_kinds([]), ()))

        self.run = run
        self.max_rows = max_rows
        self.process = process
        self.world = world
        self.logged = LoggedSteps.of(run) if logged is None else logged
        self._step = 0  # the last one that was written, with its generations and groups so far
        self._generations = 0
        self._groups = 0

        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def write(
        self, step: int, columns: Callable[[], RolloutColumns], *, groups: int, rollouts: int
    ) -> None:
        """Log this process's rollouts of one generation; it returns before they are on disk.

        Args:
            step: The optimiser step that they were generated for.
            columns: Makes the columns, as `RunFolder.write_rollouts` takes them, in the thread.
            groups, rollouts: How many the generation has on all processes.

        Raises:
            RecordError: An earlier one could not be written.
        """
        self._raise_error()
        if not self.logged.is_due(step):
            return

        # A step may have several generations, whose groups are numbered on.
        if step != self._step:
            self._step = step
            self._generations = 0
            self._groups = 0
        part = Part(self.process, self.world, self._generations)
        first_group = self._groups
        self._generations += 1
        self._groups += groups

        def write_part() -> None:
            made = columns()
            numbered = [first_group + group for group in made["group"]]
            self.run.write_rollouts(step, {**made, "group": numbered}, part)

        self._add(write_part)
        self.logged.count(step, rollouts)
        while self.logged.total > self.max_rows and len(self.logged.rollouts) > 1:
            self._thin_out()

    def flush(self) -> None:
        """Wait until all is on disk.

        Raises:
            RecordError: It is not, and why.
        """
        self._jobs.join()
        self._raise_error()

    def close(self) -> None:
        """Wait until all is on disk or can't be, and end the thread; it raises nothing."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    @property
    def error(self) -> Exception | None:
        """Why something could not be written, if so."""
        return self._error

    def _thin_out(self) -> None:
        dropped = self.logged.thin_out()
        apart = self.logged.apart

        def delete_parts() -> None:
            if self.process == 0:
                files.write_json(self.run.path / "rollouts" / _THINNED, {"apart": apart})
            for step in dropped:
                self.run.delete_parts(step, self.process, self.world)

        self._add(delete_parts)

    def _add(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            # A daemon: an interpreter that ends without `close` does not wait for it.
            self._thread = threading.Thread(target=self._work, name="rollout log", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _work(self) -> None:
        """Do the jobs in their order; after one that fails, none."""
        while True:
            job = self._jobs.get()
            try:
                if job is None:
                    return
                if self._error is None:
                    job()
            except Exception as error:  # noqa: BLE001 (it is told where training goes on)
                self._error = error
            finally:
                self._jobs.task_done()
                del job  # or its rollouts stay in memory until the next one

    def _raise_error(self) -> None:
        if self._error is not None:
            raise RecordError(
                f"the rollout log in {self.run.path} could not be written:"
                f" {type(self._error).__name__}: {self._error}; rollout_log=False trains without it"
            ) from self._error
