"""Loading what users name in a config: "module:attribute" or "path/to/file.py:attribute"."""

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from podsrl.errors import InvalidInputError, UnknownNameError


def import_module_or_file(where: str) -> ModuleType:
    """Import a module by its dotted name, or a Python file by its path (once per path).

    Raises:
        UnknownNameError: no such module or file.
        InvalidInputError: the file is not one that Python can import.
    """
    if not where.endswith(".py"):
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            raise UnknownNameError(f"no module {where!r}: {error}") from error
    path = Path(where).expanduser().resolve()
    if not path.is_file():
        raise UnknownNameError(f"no file {path}")
    name = f"podsrl_user_{path.stem}_{hashlib.sha1(str(path).encode()).hexdigest()[:8]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise InvalidInputError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
