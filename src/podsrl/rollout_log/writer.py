"""Every rollout on disk, kept or not, within a bound."""

from collections.abc import Mapping, Sequence
from typing import Any

from podsrl.rollout_log.run_folder import RunFolder


class RolloutLog:
    """Writes the rollouts of a run, one file per optimiser step.

    When the files hold more than `max_rows` rows together, every second logged step is deleted and
    only every second one is logged from then on, also by a run that is resumed.
    """

    def __init__(self, run: RunFolder, max_rows: int) -> None:
        self.run = run
        self.max_rows = max_rows
        self.stride = 1
        self._rows = {s: run.rollout_count(s) for s in run.rollout_steps()}
        self._open: tuple[int, dict[str, list[Any]]] = (0, {})  # the step being logged
        while len(self._rows) > 1 and all((s - 1) % (2 * self.stride) == 0 for s in self._rows):
            self.stride *= 2

    def write(self, step: int, columns: Mapping[str, Sequence[Any]]) -> None:
        """Log one generation, as `RunFolder.write_rollouts`; those of one step go to one file."""
        if (step - 1) % self.stride:
            return
        open_step, so_far = self._open
        if step == open_step:
            groups = 1 + max(so_far["group"])
            columns = {**columns, "group": [groups + g for g in columns["group"]]}
            columns = {name: [*so_far[name], *values] for name, values in columns.items()}
        self._open = (step, {name: list(values) for name, values in columns.items()})
        self.run.write_rollouts(step, columns)
        self._rows[step] = len(columns["group"])
        while sum(self._rows.values()) > self.max_rows and len(self._rows) > 1:
            self.stride *= 2
            for dropped in [s for s in self._rows if (s - 1) % self.stride]:
                self.run.rollout_path(dropped).unlink(missing_ok=True)
                del self._rows[dropped]
