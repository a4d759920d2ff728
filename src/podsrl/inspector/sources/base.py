"""The interface of a source: a run of podsrl's, or the files of another program."""

import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from podsrl.errors import InvalidInputError
from podsrl.inspector.fields import Fields, Reading, has_field
from podsrl.inspector.keeping import Keep
from podsrl.inspector.reading import first_rows

#: A file that was changed so recently may still be being written.
SETTLED_SECONDS = 0.5
#: A source that wrote nothing for so many seconds is called stopped.
QUIET_SECONDS = 900


class RolloutFile(NamedTuple):
    """A file with rollouts, as it was when it was listed."""

    path: Path
    modified: int  # nanoseconds
    size: int
    in_place: bool = False  # a part of it, as there is while it is written, can't be read

    @property
    def is_settled(self) -> bool:
        """Whether it can be read: it was not changed just now, be it by a clock that is ahead."""
        age = time.time() - self.modified / 1e9
        return not self.in_place or abs(age) >= SETTLED_SECONDS


@dataclass(frozen=True)
class Progress:
    """The progress of a run, as its own files say; None where they don't say."""

    state: str  # "waiting", "training", "finished", "stopped" or "files"
    step: int | None = None
    total_steps: int | None = None
    seconds_left: float | None = None
    reward: float | None = None


@dataclass(frozen=True)
class Options:
    """The user's options for files that don't say it: the meaning of fields, and the choice."""

    fields: Fields = field(default_factory=Fields)
    keep: Keep = field(default_factory=Keep)


class Source(ABC):
    """One run, or what another program wrote of one."""

    #: The program that wrote it, for people.
    format = "podsrl"
    #: What a reader should know of every file of this format.
    note = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name

    @property
    def key(self) -> tuple[str, ...]:
        """The key that tells it from all other sources, whichever link leads to it."""
        return (str(self.path.resolve()),)

    @abstractmethod
    def files(self) -> list[RolloutFile]:
        """The files with rollouts that are there now, by step."""

    @abstractmethod
    def check(self) -> None:
        """Read the beginning of one of its files, so that what can't be read is told at once.

        Raises:
            InvalidInputError: It can't be read; the message says what to do.
        """

    def step_of(self, file: RolloutFile) -> int | None:
        """The only step that a file has rollouts of, if its name says it."""
        return None

    def metrics(self) -> list[dict[str, Any]]:
        """The logged steps since this was last asked."""
        return []

    def progress(self) -> Progress:
        """Its progress."""
        return Progress("files")

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the run, as far as they are known."""
        return {}

    @property
    def longest(self) -> int | None:
        """The tokens of a completion that was cut off, if that is known."""
        return None

    @property
    def notes_file(self) -> Path:
        """Where labels and notes of its rollouts are kept: beside it, or in its folder."""
        if self.path.is_dir():
            return self.path / "podsrl-notes.jsonl"
        return self.path.with_name(f"{self.path.name}.podsrl-notes.jsonl")


class ForeignSource(Source):
    """The files of another program, whose rollouts become those of `podsrl.rollout_log`.

    Args:
        path: Where it lies.
        options: How to read what it does not say.
    """

    def __init__(self, path: Path, options: Options) -> None:
        super().__init__(path)
        self.options = options

    @abstractmethod
    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The rollouts of a file, as `conversion.as_rollouts` takes them."""

    def reading(self) -> dict[str, str]:
        """Where prompt, completion, reward, group and step come from, as far as that is known."""
        return {}

    def check(self) -> None:
        """Read the beginning of the first file."""
        settled = [file for file in self.files() if file.is_settled]
        for file in settled[:1]:
            next(iter(self.rollouts(file.path)), None)

    def progress(self) -> Progress:
        """Whether one of its files was written to just now."""
        newest = max((file.modified for file in self.files()), default=None)
        if newest is not None and time.time() - newest / 1e9 < 60:
            return Progress("training")
        return Progress("files")


class KnownFormat(ForeignSource):
    """A format whose fields have fixed meanings; the user may name others.

    `words` says where each meaning comes from, for people.
    """

    words: ClassVar[Mapping[str, str]] = {}

    def reading(self) -> dict[str, str]:
        """The fields that are fixed, and those that the user named."""
        said = self.options.fields
        words = dict(self.words)
        for name in ("prompt", "completion", "reward", "group", "step"):
            if (given := getattr(said, name)) is not None:
                words[name] = f"`{given}` (as you said)"
        return words

    def as_said(self, row: Mapping[str, Any], rollout: dict[str, Any]) -> dict[str, Any]:
        """The rollout of a row, with the fields that the user named in place of the usual ones."""
        said = self.options.fields
        own = Reading(
            names={
                name: given
                for name in ("prompt", "completion", "group", "step")
                if (given := getattr(said, name)) is not None
            },
            rewards=said.rewards,
        )
        for name in (*own.names.values(), *own.rewards):
            if not has_field(row, name):
                raise InvalidInputError(
                    f"no field {name!r} in {self.path}; there are {', '.join(map(repr, row))}"
                )
        if said.reward is not None:
            rollout["reward"] = own.reward(row)
        for name in own.names:
            rollout[name] = own.rollout(row)[name]
        return rollout


def entries(folder: Path) -> list["os.DirEntry[str]"]:
    """The entries of a folder by name, without hidden files; none if there is no such folder."""
    try:
        with os.scandir(folder) as found:
            visible = [entry for entry in found if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return sorted(visible, key=lambda entry: entry.name)


def numbered(path: Path, pattern: str) -> list[Path]:
    """The files of a folder whose names match a pattern, in the order of their numbers.

    Args:
        path: The folder, or one such file.
        pattern: A regular expression of the whole name; its first group is the number.
    """
    names = [path.name] if path.is_file() else [entry.name for entry in entries(path)]
    folder = path.parent if path.is_file() else path

    found = []
    for name in names:
        if match := re.fullmatch(pattern, name):
            found.append((int(match[1]), name))
    return [folder / name for _, name in sorted(found)]


def number_at_end(name: str) -> int | None:
    """The number with which the name of a file or folder ends, without its suffix.

    >>> [number_at_end(name) for name in ("completions_00010.parquet", "step_3", "a.jsonl")]
    [10, 3, None]
    """
    found = re.search(r"(\d+)$", name.partition(".")[0])
    return int(found[1]) if found else None


def listed(files: Sequence[Any], in_place: bool = False) -> list[RolloutFile]:
    """Directory entries or paths as files of rollouts, without those that were deleted.

    Args:
        files: The entries.
        in_place: Whether a part of such a file can't be read, so that one that is being written
            to is to be waited for.
    """
    found = []
    for file in files:
        try:
            status = file.stat()
        except FileNotFoundError:  # deleted meanwhile
            continue
        path = Path(file.path) if isinstance(file, os.DirEntry) else Path(file)
        found.append(RolloutFile(path, status.st_mtime_ns, status.st_size, in_place))
    return found


class KnownFile(KnownFormat):
    """A format whose rollouts are in one file of lines, which is opened by itself or by its folder.

    Its last line may be half-written.
    """

    file_name: ClassVar[str]

    def files(self) -> list[RolloutFile]:
        """The one file."""
        return listed([file_in(self.path, self.file_name)])


def file_in(path: Path, name: str) -> Path:
    """A file, or the file of that name in a folder."""
    return path / name if path.is_dir() else path


def first_line(path: Path, name: str) -> Mapping[str, Any] | None:
    """The first row of a file of lines, or of the one of that name in a folder; None: no such."""
    path = file_in(path, name)
    if path.suffix != ".jsonl" or not path.is_file():
        return None
    try:
        rows = first_rows(path, 1)
    except InvalidInputError:
        return None
    return rows[0] if rows else None
