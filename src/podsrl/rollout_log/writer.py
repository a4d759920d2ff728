"""Every rollout on disk, kept or not, within a bound."""

from collections.abc import Mapping, Sequence
from typing import Any

from podsrl.rollout_log import files
from podsrl.rollout_log.run_folder import RunFolder


class RolloutLog:
    """Writes the rollouts of a run, one file per optimiser step.

    When the files hold more than `max_rows` rows together, every second logged step is deleted, and
    the steps that follow are logged twice as far apart, also by a run that is resumed.
    """

    def __init__(self, run: RunFolder, max_rows: int) -> None:
        self.run = run
        self.max_rows = max_rows
        self._thinned = run.path / "rollouts" / ".thinned.json"  # hidden from readers of the folder
        self._apart: int = (files.read_json(self._thinned) or {"apart": 0})["apart"]  # steps
        self._rows = {step: run.rollout_count(step) for step in run.rollout_steps()}
        self._open: tuple[int, dict[str, Sequence[Any]]] = (0, {})  # the step being logged

    def write(self, step: int, columns: Mapping[str, Sequence[Any]]) -> None:
        """Log one generation, as `RunFolder.write_rollouts`; those of one step go to one file."""
        if not self._is_due(step):
            return

        # A step may have several generations, whose groups are numbered on.
        so_far = self._open[1] if step == self._open[0] else {}
        groups = 1 + max(so_far.get("group", ()), default=-1)
        columns = {**columns, "group": [groups + group for group in columns["group"]]}
        columns = {name: [*so_far.get(name, ()), *values] for name, values in columns.items()}

        self._open = (step, columns)
        self.run.write_rollouts(step, columns)
        self._rows[step] = len(columns["group"])
        while sum(self._rows.values()) > self.max_rows and len(self._rows) > 1:
            self._thin_out()

    def _is_due(self, step: int) -> bool:
        """Whether a step is far enough from the last one that is logged."""
        last = max(self._rows, default=-self._apart)
        return step in self._rows or step >= last + self._apart

    def _thin_out(self) -> None:
        """Delete every second step, and log the later ones twice as far apart."""
        steps = sorted(self._rows)
        self._apart = 2 * (steps[1] - steps[0])
        files.write_json(self._thinned, {"apart": self._apart})
        for dropped in steps[1::2]:
            self.run.rollout_path(dropped).unlink(missing_ok=True)
            del self._rows[dropped]
