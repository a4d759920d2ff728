"""Any JSONL, JSON or parquet file, or a folder of them, whose fields are told by their names.

verifiers' `results.jsonl` and files with OpenAI-style messages are of this kind.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from podsrl.inspector.fields import Reading, read_fields
from podsrl.inspector.reading import first_rows, rows_of_file
from podsrl.inspector.sources.base import ForeignSource, Options, RolloutFile, entries, listed

SUFFIXES = (".jsonl", ".json", ".parquet")


class AnyFiles(ForeignSource):
    """A file of rollouts, or a folder of files whose names are the numbers of steps."""

    format = "rollouts"

    def __init__(self, path: Path, options: Options) -> None:
        super().__init__(path, options)
        self._reading: Reading | None = None

    def files(self) -> list[RolloutFile]:
        """The files, those whose names are numbers by number."""
        found = _files(self.path)
        whole = listed([path for path in found if path.suffix != ".jsonl"], in_place=True)
        of_lines = listed([path for path in found if path.suffix == ".jsonl"])
        return sorted([*whole, *of_lines], key=lambda file: _order(file.path))

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The rows of a file, by what their fields mean in the first ones."""
        rows = first_rows(path)
        if not rows:  # a run that has just begun
            return
        is_numbered = path.stem.isdigit() and self.path.is_dir()
        reading = read_fields(rows, self.options.fields, str(path), numbered_file=is_numbered)
        self._reading = reading
        step = int(path.stem) if is_numbered else None
        for row in rows_of_file(path):
            yield reading.rollout(row, step)

    def reading(self) -> dict[str, str]:
        """The meanings that the names of the fields were taken for."""
        return self._reading.in_words() if self._reading else {}


def sources_of_files(folder: Path, options: Options) -> list[AnyFiles]:
    """The files of a folder: numbered ones are steps of one source, others are one each."""
    found = _named_files(folder)
    if all(path.stem.isdigit() for path in found):
        return [AnyFiles(folder, options)] if found else []
    return [AnyFiles(path, options) for path in found]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [file for file in _named_files(path) if file.stem.isdigit()]


def _named_files(folder: Path) -> list[Path]:
    return [
        Path(entry.path)
        for entry in entries(folder)
        if entry.name.endswith((".jsonl", ".parquet")) and "podsrl-notes" not in entry.name
    ]


def _order(path: Path) -> tuple[int, str]:
    return (int(path.stem) if path.stem.isdigit() else 0, path.name)
