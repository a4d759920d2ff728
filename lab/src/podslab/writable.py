"""Whether a folder can be written to, asked before hours of work end in it."""

import tempfile
from pathlib import Path

from podsrl.errors import InvalidInputError


def refuse_unwritable(path: Path) -> None:
    """Raise `InvalidInputError` if a folder can't be made and written to; leave nothing behind."""
    there = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    try:
        tempfile.TemporaryDirectory(prefix=".podsrl-", dir=there).cleanup()
    except OSError as error:
        raise InvalidInputError(f"can't write to {path}: {there}: {error.strerror}") from error
