"""Whether a folder can be written to, asked before hours of work end in it."""

import tempfile
from pathlib import Path

from podsrl.errors import InvalidInputError


def refuse_unwritable(path: Path) -> None:
    """Check that a folder can be made and written to, and leave nothing behind.

    Raises:
        InvalidInputError: It can't; the message says why.
    """
    there = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    try:
        tempfile.TemporaryDirectory(prefix=".podsrl-", dir=there).cleanup()
    except OSError as error:
        raise InvalidInputError(f"can't write to {path}: {there}: {error.strerror}") from error
