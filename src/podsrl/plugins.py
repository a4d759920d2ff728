"""Loading what users name in a config: "module:attribute" or "path/to/file.py:attribute"."""

import contextlib
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from podsrl.errors import InvalidInputError, PodsError, UnknownNameError


def import_module_or_file(where: str) -> ModuleType:
    """Import a module by its dotted name, or a Python file by its path (once per path).

    Raises:
        UnknownNameError: There is no such module or file.
        InvalidInputError: The file can't be imported; the message has its line.
    """
    if where.endswith(".py"):
        return _import_file(where)
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise UnknownNameError(f"no module {where!r}: {error}") from error


def _import_file(where: str) -> ModuleType:
    path = Path(where).expanduser().resolve()
    if not path.is_file():
        raise UnknownNameError(f"no file {where}")

    name = f"podsrl_user_{path.stem}_{hashlib.sha1(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]

    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs, as an import does: it may look itself up
    try:
        with user_code(where, "can't be imported"):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextlib.contextmanager
def user_code(file: str, what: str) -> Iterator[None]:
    """Around a call of a user's code: an error, unless one of ours, becomes `InvalidInputError`.

    Args:
        file: The file that the code is in.
        what: What went wrong, for the message.
    """
    try:
        yield
    except PodsError:
        raise
    except Exception as error:
        line, message = _where_it_failed(error, Path(file).expanduser().resolve())
        where = file if line is None else f"{file}, line {line}"
        raise InvalidInputError(f"{where}: {what}: {type(error).__name__}: {message}") from error


def _where_it_failed(error: Exception, path: Path) -> tuple[int | None, str]:
    """The last line of the file that an error came through, if any, and what it says."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno, str(error.msg)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return (lines[-1] if lines else None), " ".join(str(error).split())
