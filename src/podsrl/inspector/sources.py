"""What `pods inspect` opens, and which files of it hold the rollouts of which step.

A source lists its files anew whenever it is asked, so that a run can be watched while it trains.
"""

import json
import logging
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from podsrl.errors import InvalidInputError
from podsrl.inspector.conversion import Keep, rows_of_file, rows_of_slime, rows_of_verl
from podsrl.rollout_log.run_folder import Part, RunFolder, find_runs

logger = logging.getLogger("podsrl.inspector")

#: A run that wrote nothing for so many seconds is called stopped.
_QUIET_SECONDS = 900
#: More than the resolution of a file system's times.
_CLOCK_SECONDS = 2
#: A file that was changed so recently may still be being written.
_SETTLED_SECONDS = 0.5


class RolloutFile(NamedTuple):
    """A file with rollouts, as it was when it was listed."""

    path: Path
    modified: int  # nanoseconds
    size: int


class _Listing(NamedTuple):
    """The files of a step's folder, as they were when the folder last changed."""

    changed: int  # nanoseconds
    files: list[RolloutFile]


@dataclass(frozen=True)
class Progress:
    """How far a run is, as its own files say; None where they don't say."""

    state: str  # "training", "finished", "stopped" or "files"
    step: int | None = None
    total_steps: int | None = None
    seconds_left: float | None = None
    reward: float | None = None


class Source(ABC):
    """One run, or what another program wrote of one."""

    #: What the page says of `kept`, where it is not the run's own choice.
    note = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name

    @abstractmethod
    def files(self) -> list[RolloutFile]:
        """The files with rollouts that are there now and whole, by step."""

    def metrics(self) -> list[dict[str, Any]]:
        """The logged steps since this was last asked."""
        return []

    def progress(self) -> Progress:
        """How far it is."""
        return Progress("files")

    @property
    def longest(self) -> int | None:
        """The tokens of a completion that was cut off, if that is known."""
        return None


class TrainedRun(Source):
    """A folder of `podsrl.rollout_log`, of TRL's trainer or of the laboratory."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.run = RunFolder(path)
        self._listings: dict[str, _Listing] = {}  # of each step's folder
        self._is_finished = False  # as it was before metrics.jsonl was read
        self._read = 0  # bytes of metrics.jsonl
        self._last: dict[str, Any] = {}  # the newest value of each metric
        self._config: tuple[int, dict[str, Any]] = (0, {})

    def files(self) -> list[RolloutFile]:
        """Whole steps only: of a step that lacks a process's part, nothing yet."""
        found: list[RolloutFile] = []
        listings: dict[str, _Listing] = {}
        for folder in _entries(self.path / "rollouts"):
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

            # Of one that changed just now another file may come within the clock's resolution.
            if time.time() - changed / 1e9 > _CLOCK_SECONDS:
                listings[folder.name] = listing
            found += listing.files
        self._listings = listings
        return found

    def metrics(self) -> list[dict[str, Any]]:
        """The whole lines of metrics.jsonl since the last time; all of them if it was cut."""
        # A run writes this last. Asked after the metrics, a run that ends meanwhile would be called
        # finished without its last steps.
        self._is_finished = (self.path / "finished.json").is_file()
        path = self.path / "metrics.jsonl"
        if not path.is_file():
            return []
        if path.stat().st_size < self._read:
            self._read = 0
        with path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)

        rows = []
        for line in whole.splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # it is told by who reads the run's metrics for a report
                continue
            if isinstance(row, dict) and isinstance(row.get("step"), int):
                rows.append(row)
                self._last |= {name: value for name, value in row.items() if value is not None}
        return rows

    def progress(self) -> Progress:
        """From the metrics that were read, the config, and whether it was finished before that."""
        step = self._last.get("step")
        total = self._total_steps()
        state = "stopped"
        if self._is_finished:
            state = "finished"
        elif time.time() - self._last_written() < _QUIET_SECONDS:
            state = "training"

        left = self._seconds_left(step, total) if state == "training" else None
        return Progress(state, step, total, left, self._last.get("reward"))

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
            path = self.path / name
            if path.exists():
                times.append(path.stat().st_mtime)
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


class ForeignSource(Source):
    """What another program wrote, whose rollouts become those of `podsrl.rollout_log`.

    Args:
        path: Where it lies.
        keep: How to choose where a file does not say what was kept.
    """

    def __init__(self, path: Path, keep: Keep) -> None:
        super().__init__(path)
        self.keep = keep

    @abstractmethod
    def rows(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The rollouts of a file, as `conversion.as_rollouts` takes them."""


class VerlDump(ForeignSource):
    """verl's `trainer.rollout_data_dir`: one file `<step>.jsonl` for each step."""

    note = "verl's dump; where it does not say what was kept, by what max_variance would keep"

    def files(self) -> list[RolloutFile]:
        """Those that were not written to just now: verl writes them in place."""
        numbered = [path for path in _entries(self.path) if re.fullmatch(r"\d+\.jsonl", path.name)]
        return _settled(sorted(numbered, key=lambda path: int(path.name.partition(".")[0])))

    def rows(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """verl's fields `input`, `output`, `score`, `gts` and those of its reward function."""
        return rows_of_verl(path)


class SlimeDump(ForeignSource):
    """slime's `--save-debug-rollout-data` or `--dump-details`: `<number>.pt` for each rollout."""

    note = (
        "slime's files have the rollouts that it trains on; kept is what podsrl noted on them, else"
        " what max_variance would keep"
    )

    def files(self) -> list[RolloutFile]:
        """Those of training; slime calls those of evaluations eval_<number>.pt."""
        numbered = []
        for entry in _entries(self.path):
            number = re.search(r"(\d+)\.pt$", entry.name)
            if number and "eval" not in entry.name:
                numbered.append((int(number[1]), entry))
        return _settled([entry for _, entry in sorted(numbered, key=lambda pair: pair[0])])

    def rows(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """slime's samples; the file is read without running any code that it may hold."""
        return rows_of_slime(path)


class FileOfRollouts(ForeignSource):
    """Any JSONL or parquet file with prompt, completion and reward."""

    def __init__(self, path: Path, keep: Keep) -> None:
        super().__init__(path, keep)
        self.note = f"kept is what the file says, else {keep}"

    def files(self) -> list[RolloutFile]:
        """The file, if it is still there."""
        return _settled([self.path])

    def rows(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """Its rows as they are."""
        return rows_of_file(path)


def find_sources(paths: Sequence[Path], keep: Keep) -> list[Source]:
    """What these paths hold, each with a name that tells it from the others.

    Raises:
        InvalidInputError: A path holds nothing that can be opened; the message says what can.
    """
    found: list[Source] = []
    for path in paths:
        of_path = _sources_of(path, keep)
        for source in of_path:
            source.name = _name(source.path.resolve(), path.resolve(), several=len(paths) > 1)
        found += of_path

    for place, source in enumerate(found):
        earlier = [other.name for other in found[:place]]
        if source.name in earlier:  # two folders of one name
            source.name = str(source.path)
    return found


def _name(path: Path, given: Path, several: bool) -> str:
    """A run by its path below the folder that was given."""
    below = path.relative_to(given)
    if not below.parts:
        return path.name
    return str(Path(given.name) / below) if several else str(below)


def _sources_of(path: Path, keep: Keep) -> Sequence[Source]:
    if path.is_file():
        if path.suffix in (".jsonl", ".json", ".parquet"):
            return [FileOfRollouts(path, keep)]
        raise InvalidInputError(
            f"{path} is neither JSONL nor parquet; rename it to .jsonl or .parquet if it is"
        )
    if (path / "rollouts").is_dir():
        return [TrainedRun(path)]

    names = [entry.name for entry in _entries(path)]
    if any(re.fullmatch(r"\d+\.jsonl", name) for name in names):
        return [VerlDump(path, keep)]
    if any(re.search(r"\d\.pt$", name) for name in names):
        return [SlimeDump(path, keep)]
    if (path / "rollout_data").is_dir():  # of slime's --dump-details
        return [SlimeDump(path / "rollout_data", keep)]

    try:
        return [TrainedRun(run.path) for run in find_runs(path)]
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error}; or verl's rollout_data_dir, slime's debug data, a JSONL or parquet file"
        ) from error


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder by name, without hidden files; nothing if there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(visible, key=lambda entry: entry.name)


def _whole_step(folder: Path) -> list[RolloutFile]:
    """The parts of a step, if all of its processes have written theirs."""
    parts: dict[Part, os.DirEntry[str]] = {}
    for entry in _entries(folder):
        if (part := Part.of(Path(entry.name))) is not None:
            parts[part] = entry
    for part in parts:
        others = (part._replace(process=process) for process in range(part.world))
        if any(other not in parts for other in others):
            return []
    return [_listed(parts[part]) for part in sorted(parts)]


def _settled(entries: Sequence[Any]) -> list[RolloutFile]:
    """Files as they are listed, without those that are being written to."""
    now = time.time()
    files = []
    for entry in entries:
        try:
            file = _listed(entry)
        except FileNotFoundError:  # deleted meanwhile
            continue
        if now - file.modified / 1e9 >= _SETTLED_SECONDS:
            files.append(file)
    return files


def _listed(entry: Any) -> RolloutFile:
    """A directory entry or a path as a file of rollouts."""
    status = entry.stat()
    path = Path(entry.path) if isinstance(entry, os.DirEntry) else Path(entry)
    return RolloutFile(path, status.st_mtime_ns, status.st_size)
