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
    """Import a module by its dotted name, or a Python file by its path (once per path)."""
    if not where.endswith(".py"):
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            raise UnknownNameError(f"no module {where!r}: {error}") from error
    path = Path(where).expanduser().resolve()
    if not path.is_file():
        raise UnknownNameError(f"no file {where}")
    name = f"podsrl_user_{path.stem}_{hashlib.sha1(str(path).encode()).hexdigest()[:8]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise InvalidInputError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with user_code(where, "can't be imported"):
                spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


@contextlib.contextmanager
def user_code(file: str, what: str) -> Iterator[None]:
    """Around a call of a user's code: an error, unless one of ours, becomes `InvalidInputError`."""
    try:
        yield
    except PodsError:
        raise
    except Exception as error:
        path = str(Path(file).expanduser().resolve())
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        if isinstance(error, SyntaxError) and error.filename == path:
            lines, said = [error.lineno], error.msg
        else:
            said = " ".join(str(error).split())
        where = f"{file}, line {lines[-1]}" if lines else file
        raise InvalidInputError(f"{where}: {what}: {type(error).__name__}: {said}") from error
