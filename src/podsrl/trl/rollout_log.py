"""Every rollout on disk, kept or not, within a bound."""

from collections.abc import Mapping, Sequence
from typing import Any

from podsrl.runs.folder import RunFolder
from podsrl.trl.batch import Batch


class RolloutLog:
    """Writes the rollouts of a run, one file per optimiser step, and bounds their number.

    When the files hold more than `max_rows` rows together, every second logged step is deleted and
    only every second one is logged from then on: the log always spans the whole run. The stride
    follows from the files, so a resumed run goes on with it.

    Args:
        run: the run's folder.
        max_rows: bound on rows over all files.
    """

    def __init__(self, run: RunFolder, max_rows: int) -> None:
        self.run = run
        self.max_rows = max_rows
        self.stride = 1
        self._rows = {s: run.rollout_count(s) for s in run.rollout_steps()}
        self._unsynced: set[int] = set()
        self._open: tuple[int, dict[str, list[Any]]] = (0, {})  # the step being logged
        while len(self._rows) > 1 and all((s - 1) % (2 * self.stride) == 0 for s in self._rows):
            self.stride *= 2

    def write(self, step: int, columns: Mapping[str, Sequence[Any]]) -> None:
        """Log one generation; a step may have several, which go to one file.

        Args:
            step: optimiser step that the rollouts are for, from 1.
            columns: those of `RunFolder.write_rollouts`.
        """
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
        self._unsynced.add(step)
        while sum(self._rows.values()) > self.max_rows and len(self._rows) > 1:
            self.stride *= 2
            self._drop([s for s in self._rows if (s - 1) % self.stride])

    def sync(self) -> None:
        """Wait until all that was logged is on the disk, as before a checkpoint counts as saved.

        Waiting in every step would cost more than all else that is done between the rollouts and
        their update.
        """
        self.run.sync_rollouts(sorted(self._unsynced))
        self._unsynced.clear()

    def drop_after(self, step: int) -> None:
        """Delete what was logged for steps after `step`: a resumed run logs them again."""
        self._drop([s for s in self._rows if s > step])
        if not self._rows:
            self.stride = 1

    def _drop(self, steps: list[int]) -> None:
        for step in steps:
            self.run.rollout_path(step).unlink(missing_ok=True)
            del self._rows[step]


def rollout_columns(
    batch: Batch, prompts_P: Sequence[str], names_F: Sequence[str]
) -> dict[str, list[Any]]:
    """All rollouts of a batch as columns of the rollout log."""
    total = batch.groups * batch.n
    advantages: list[float | None] = [None] * total
    for place, advantage in zip(batch.kept_places, batch.advantages_K.tolist(), strict=True):
        advantages[place] = advantage
    by_func = batch.rewards_P_N_F.flatten(0, 1).T.tolist()
    return {
        "group": [place // batch.n for place in range(total)],
        "rollout": [place % batch.n for place in range(total)],
        "prompt": [prompt for prompt in prompts_P for _ in range(batch.n)],
        "completion": [_text(c) for c in batch.rollouts["completion"] or ()],
        "reward": _or_none(batch.rewards_P_N.flatten().tolist()),
        "kept": [a is not None for a in advantages],
        "advantage": advantages,
        "tokens": [len(ids) for ids in batch.rollouts["completion_ids"] or ()],
        **{f"rewards/{f}": _or_none(r) for f, r in zip(names_F, by_func, strict=True)},
    }


def _text(completion: Any) -> str:
    """A completion is text, or a conversation whose last message is the model's."""
    return completion if isinstance(completion, str) else str(completion[-1].get("content") or "")


def _or_none(values: Sequence[float]) -> list[float | None]:
    return [None if v != v else v for v in values]
