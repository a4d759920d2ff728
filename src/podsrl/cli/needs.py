"""Optional packages, asked for by name when a command needs them."""

from collections.abc import Iterator
from contextlib import contextmanager

from podsrl.errors import MissingDependencyError


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Turn a failed import into one line that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(("podsrl", "podslab")):
            raise
        raise MissingDependencyError(
            f"this needs {error.name}, which is not installed: pip install 'podsrl[{extra}]'"
        ) from error
