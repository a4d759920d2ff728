"""A folder of `podsrl.rollout_log`, of TRL's trainer or of the laboratory."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from podsrl.errors import InvalidInputError
from podsrl.inspector.sources.base import (
    QUIET_SECONDS,
    Progress,
    RolloutFile,
    Source,
    entries,
    listed,
    number_at_end,
)
from podsrl.rollout_log.columns import REQUIRED
from podsrl.rollout_log.run_folder import Part, RunFolder

#: More than the resolution of a file system's times.
_CLOCK_SECONDS = 2
#: A run that wrote nothing for so many seconds is asked whether it is alive.
_ASK_SECONDS = 30


class _Listing(NamedTuple):
    """The files of a step's folder, as they were when the folder last changed."""

    changed: int  # nanoseconds
    files: list[RolloutFile]


class TrainedRun(Source):
    """A run whose rollouts podsrl wrote."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.run = RunFolder(path)
        self._listings: dict[str, _Listing] = {}  # of each step's folder
        self._read = 0  # bytes of metrics.jsonl
        self._last_line = b""  # of those
        self._last: dict[str, Any] = {}  # the newest value of each metric
        self._config: tuple[int, dict[str, Any]] = (0, {})

    def files(self) -> list[RolloutFile]:
        """Whole steps only: of a step that lacks a process's part, nothing yet."""
        found: list[RolloutFile] = []
        listings: dict[str, _Listing] = {}
        for folder in entries(self.path / "rollouts"):
            if not folder.name.startswith("step_"):
                continue

            # A folder changes when a file appears in it under its final name.
            try:
                changed = folder.stat().st_mtime_ns
                listing = self._listings.get(folder.name)
                if listing is None or listing.changed != changed:
                    listing = _Listing(changed, _whole_step(Path(folder.path)))
            except FileNotFoundError:  # the run thinned out its log since the folder was listed
                continue

            # Of one that changed just now another file may come within the clock's resolution. A
            # log that was thinned out leaves empty folders until the run ends: none is remembered.
            if listing.files and time.time() - changed / 1e9 > _CLOCK_SECONDS:
                listings[folder.name] = listing
            found += listing.files
        self._listings = listings
        return found

    def check(self) -> None:
        """Read what the newest file says of its columns."""
        for file in self.files()[-1:]:
            try:
                there = pq.read_schema(file.path).names
            except (pa.ArrowException, OSError) as error:
                raise InvalidInputError(f"{file.path} is damaged: {error}") from error
            if missing := [column.name for column in REQUIRED if column.name not in there]:
                raise InvalidInputError(f"{file.path} lacks the columns {', '.join(missing)}")

    def step_of(self, file: RolloutFile) -> int | None:
        """The step of its folder."""
        return number_at_end(file.path.parent.name)

    def metrics(self) -> list[dict[str, Any]]:
        """The whole lines of metrics.jsonl since the last time; all of them if it was cut."""
        path = self.path / "metrics.jsonl"
        if not path.is_file():
            return []
        with path.open("rb") as file:
            # One that was cut since may have become longer again, with other lines.
            file.seek(self._read - len(self._last_line))
            if file.read(len(self._last_line)) != self._last_line:
                self._read = 0
                self._last_line = b""
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)

        lines = whole.splitlines(keepends=True)
        if lines:
            self._last_line = lines[-1]
        rows = []
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:  # it is told by who reads the run's metrics for a report
                continue
            if isinstance(row, dict) and isinstance(row.get("step"), int):
                rows.append(row)
                self._last |= {name: value for name, value in row.items() if value is not None}
        return rows

    def progress(self) -> Progress:
        """From the metrics that were read, the config, and whether the run says it is finished."""
        step = self._last.get("step")
        total = self._total_steps()
        state = "stopped"
        if self._is_finished():
            state = "finished"
        elif self._is_alive():
            state = "training"

        left = self._seconds_left(step, total) if state == "training" else None
        return Progress(state, step, total, left, self._last.get("reward"))

    def _is_finished(self) -> bool:
        """Whether the run has ended, and what it wrote before that was read.

        It writes finished.json last. A run that ends between two looks is not called finished
        without its last steps.
        """
        if not (self.path / "finished.json").is_file():
            return False
        metrics = self.path / "metrics.jsonl"
        return not metrics.is_file() or metrics.stat().st_size <= self._read

    def _is_alive(self) -> bool:
        """A run holds its folder's lock; one that was killed lets it go."""
        quiet = time.time() - self._last_written()
        if quiet < _ASK_SECONDS:
            return True
        is_written = self.run.is_being_written
        return quiet < QUIET_SECONDS if is_written is None else is_written

    def _seconds_left(self, step: int | None, total: int | None) -> float | None:
        """Training time until the run ends, by its steps or by its clock; None if unknown."""
        seconds = self._last.get("pods/training_seconds")
        if not seconds:
            return None
        if step and total and total > step:
            return float((total - step) * seconds / step)
        most = self.config.get("max_training_seconds")
        return max(0.0, most - seconds) if isinstance(most, int | float) else None

    def _last_written(self) -> float:
        """When the run wrote a metric or a rollout, in seconds since the epoch."""
        times = [0.0]
        for name in ("metrics.jsonl", "rollouts", "config.yaml"):
            with suppress(FileNotFoundError):
                times.append((self.path / name).stat().st_mtime)
        return max(times)

    def _total_steps(self) -> int | None:
        steps = self.config.get("max_steps")
        if isinstance(steps, int) and steps > 0:
            # The laboratory stops its runs by the clock, and sets a step that is never reached.
            return steps if self.config.get("max_training_seconds") is None else None
        step = self._last.get("step")
        epoch = self._last.get("epoch")
        epochs = self.config.get("num_train_epochs")
        if step and epoch and isinstance(epochs, (int, float)):
            return round(step / epoch * epochs)
        return None

    @property
    def config(self) -> dict[str, Any]:
        """The run's settings, read again where they changed; {} if they can't be read."""
        path = self.path / "config.yaml"
        changed = path.stat().st_mtime_ns if path.is_file() else 0
        if changed != self._config[0]:
            try:
                self._config = (changed, self.run.config())
            except InvalidInputError:
                self._config = (changed, {})
        return self._config[1]

    @property
    def longest(self) -> int | None:
        """TRL's `max_completion_length`."""
        value = self.config.get("max_completion_length")
        return value if isinstance(value, int) else None


class WaitingFolder(Source):
    """An empty folder, into which a run may begin to write."""

    note = "nothing is there yet; what a run writes appears here"

    @property
    def key(self) -> tuple[str, ...]:
        """Another one than that of the run that begins in it."""
        return ("waiting", *super().key)

    def files(self) -> list[RolloutFile]:
        """None."""
        return []

    def check(self) -> None:
        """Nothing is there that could be damaged."""

    def progress(self) -> Progress:
        """It is waited for."""
        return Progress("waiting")


def is_trained_run(folder: Path) -> bool:
    """Whether podsrl wrote, or is about to write, rollouts into a folder."""
    rollouts = folder / "rollouts"
    if not rollouts.is_dir():
        return False
    for step in entries(rollouts):
        if step.name.startswith("step_"):  # prime-rl has folders of that name, with others in them
            return not any((Path(step.path) / kind).is_dir() for kind in ("train", "eval"))
    return not entries(rollouts) or (folder / "config.yaml").is_file()


def _whole_step(folder: Path) -> list[RolloutFile]:
    """The parts of a step, if all of its processes have written theirs."""
    parts: dict[Part, Any] = {}
    for entry in entries(folder):
        if (part := Part.of(entry.name)) is not None:
            parts[part] = entry
    for part in parts:
        others = (part._replace(process=process) for process in range(part.world))
        if any(other not in parts for other in others):
            return []
    return listed([parts[part] for part in sorted(parts)])
