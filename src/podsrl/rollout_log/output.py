"""A file that a user names for a command to write: nothing of the user's is overwritten."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.files import replacing

#: What every page of podsrl has in its head, and pages of others have not.
PAGE_MARK = b'<meta name="generator" content="podsrl">'
_HEAD = 4_000  # bytes, in which the mark stands


def is_own_page(path: Path) -> bool:
    """Whether a file is a page that podsrl wrote."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return PAGE_MARK in file.read(_HEAD)


def _never(path: Path) -> bool:
    return False


@dataclass(frozen=True)
class OutputFile:
    """A file to write, which `check` refuses where something of the user's would be lost.

    A folder that is missing is made, but not the one above it: a mistyped path lacks more than one,
    as a rule, and what is written there would not be found.

    Args:
        path: The file, as the user named it.
        option: The option that named it.
        suffixes: The endings that it may have. A wrong one is a mistyped path, too.
        inputs: What the command reads, which it must not write.
        is_own: Whether a file that exists was made by the same command, so that a new one may take
            its place; by default none was.
    """

    path: Path
    option: str
    suffixes: tuple[str, ...]
    inputs: Iterable[Path] = ()
    is_own: Callable[[Path], bool] = _never

    def check(self) -> None:
        """Raise `InvalidInputError` if the file may not be written; it leaves nothing behind."""
        path = self.path
        named = f"{self.option} {path}"
        if path.is_dir():
            raise InvalidInputError(f"{named} is a folder: name a file in it")
        for given in self.inputs:
            if path.exists() and given.exists() and path.samefile(given):
                raise InvalidInputError(f"{named} is the file that is read: name another one")
        if path.suffix not in self.suffixes:
            raise InvalidInputError(f"{named} must end in {' or '.join(self.suffixes)}")
        if path.exists() and not self.is_own(path):
            raise InvalidInputError(
                f"{named} exists, and this command did not make it: name another file, or remove it"
            )
        self._check_folder()

    def _check_folder(self) -> None:
        folder = self._target.parent
        there = folder if folder.exists() else folder.parent
        if not there.is_dir():
            what = "is a file" if there.exists() else "does not exist"
            raise InvalidInputError(
                f"{self.option} {self.path} can't be written: the folder {there} {what}. Make it"
                " first, if that is the path that you mean"
            )
        try:
            tempfile.TemporaryFile(prefix=".podsrl-", dir=there).close()
        except OSError as error:
            raise InvalidInputError(
                f"{self.option} {self.path} can't be written: {there}: {error.strerror}"
            ) from error

    @property
    def _target(self) -> Path:
        """The file itself, where the path is a link to it."""
        return self.path.resolve()

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """Give a file to write to, which appears under its name when it is whole.

        Raises:
            InvalidInputError: What `check` raises: something may have come there meanwhile.
        """
        self.check()
        with replacing(self._target) as part:
            yield part

    def write(self, data: bytes) -> None:
        """Write the content as a whole, as `writing` does."""
        with self.writing() as part:
            part.write_bytes(data)


def refuse_foreign_files(folder: Path, names: Iterable[str], page: str) -> None:
    """Refuse a folder in which files of these names are not our own.

    They are our own where the page among them is: they were written together with it.

    Raises:
        InvalidInputError: One of them is somebody else's, or is a folder.
    """
    is_ours = is_own_page(folder / page)
    for name in names:
        path = folder / name
        if path.is_dir() or (path.exists() and not is_ours):
            raise InvalidInputError(
                f"{path} would be overwritten, and was not made by this command: choose another"
                " folder, or take it away"
            )
