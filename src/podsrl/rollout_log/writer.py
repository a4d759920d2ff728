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
        self.run, self.max_rows = run, max_rows
        self._thinned = run.path / "rollouts" / ".thinned.json"  # hidden from readers of the folder
        self._apart: int = (files.read_json(self._thinned) or {"apart": 0})["apart"]  # steps
        self._rows = {s: run.rollout_count(s) for s in run.rollout_steps()}
        self._open: tuple[int, dict[str, Sequence[Any]]] = (0, {})  # the step being logged

    def write(self, step: int, columns: Mapping[str, Sequence[Any]]) -> None:
        """Log one generation, as `RunFolder.write_rollouts`; those of one step go to one file."""
        if step not in self._rows and step < max(self._rows, default=-self._apart) + self._apart:
            return
        so_far = self._open[1] if step == self._open[0] else {}
        groups = 1 + max(so_far.get("group", ()), default=-1)
        columns = {**columns, "group": [groups + g for g in columns["group"]]}
        columns = {name: [*so_far.get(name, ()), *values] for name, values in columns.items()}
        self._open = (step, columns)
        self.run.write_rollouts(step, columns)
        self._rows[step] = len(columns["group"])
        while sum(self._rows.values()) > self.max_rows and len(self._rows) > 1:
            first, second, *_ = steps = sorted(self._rows)
            self._apart = 2 * (second - first)
            files.write_json(self._thinned, {"apart": self._apart})
            for dropped in steps[1::2]:
                self.run.rollout_path(dropped).unlink(missing_ok=True)
                del self._rows[dropped]
