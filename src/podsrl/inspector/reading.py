"""Reading the rows of JSONL and parquet files one by one, so that their size does not matter."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError, needed
from podsrl.rollout_log.files import json_object

_ROWS = 2_000  # of parquet, at a time
_BOM = b"\xef\xbb\xbf"


def rows_of_file(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSONL, JSON or parquet file.

    The last line of JSONL may be half-written, as that of every live run is: it is left out.

    Raises:
        InvalidInputError: The file is damaged; the message says where.
    """
    if path.suffix == ".parquet":
        yield from _rows_of_parquet(path)
        return

    with path.open("rb") as lines:
        start = lines.read(len(_BOM) + 64)
        lines.seek(len(_BOM) if start.startswith(_BOM) else 0)
        if path.suffix == ".json" and start.removeprefix(_BOM).lstrip().startswith(b"["):
            yield from _rows_of_array(path, lines.read())
            return

        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield json_object(line, f"{path}, line {number}")
            except InvalidInputError:
                if line.endswith(b"\n"):
                    raise
                return


def first_rows(path: Path, most: int = 200) -> list[dict[str, Any]]:
    """The first rows of a file."""
    found: list[dict[str, Any]] = []
    for row in rows_of_file(path):
        found.append(row)
        if len(found) == most:
            break
    return found


def _rows_of_array(path: Path, text: bytes) -> Iterator[dict[str, Any]]:
    """The rows of a file with one JSON list of objects."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"{path} is damaged: not JSON ({error})") from error
    for number, value in enumerate(values, start=1):
        if not isinstance(value, dict):
            raise InvalidInputError(f"{path}, item {number} is not a JSON object")
        yield value


def _rows_of_parquet(path: Path) -> Iterator[dict[str, Any]]:
    with needed("rollouts"):
        import pyarrow as pa
        import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"{path} is damaged: {error}") from error
