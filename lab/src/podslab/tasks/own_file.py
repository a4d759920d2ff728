"""A task in a file of the user's: what is wrong in it is told in one line, with file and line."""

import inspect
from collections.abc import Callable
from typing import Any

from podslab.tasks.base import Grade, Task
from podsrl.errors import InvalidInputError
from podsrl.plugins import import_module_or_file, user_code


def task_class_in(path: str) -> type[Task]:
    """The one subclass of `Task` that a file defines; its mistakes will be `InvalidInputError`.

    Raises:
        UnknownNameError: no such file.
        InvalidInputError: it can't be imported, or has no whole subclass or several; the message
            names the file, and the line if there is one.
    """
    module = import_module_or_file(path)
    classes = [value for value in vars(module).values() if inspect.isclass(value)]
    tasks: list[type[Task]] = [cls for cls in classes if issubclass(cls, Task)]
    own = [cls for cls in tasks if cls.__module__ == module.__name__]
    whole = [cls for cls in own if not inspect.isabstract(cls)]
    if len(whole) != 1 or not hasattr(whole[0], "name"):
        names = ", ".join(cls.__name__ for cls in whole) or "none"
        raise InvalidInputError(
            f"{path} must define exactly one subclass of podslab.tasks.Task, with name, load and"
            f" grade; it has {names}"
        )
    (cls,) = whole
    methods = ("load", "grade", "grade_batch", "prompt", "gold_completion", "examples")
    guarded = {name: _guarded(cls, name, path) for name in methods}
    return type(cls.__name__, (cls,), {"__doc__": cls.__doc__, **guarded})


def _guarded(cls: type[Task], name: str, file: str) -> Callable[..., Any]:
    """A method of the user's class, whose mistakes are told with the file."""

    def method(self: Task, *args: Any, **options: Any) -> Any:
        with user_code(file, f"{name} failed"):
            result = getattr(cls, name)(self, *args, **options)
        if name == "grade" and not isinstance(result, Grade):
            raise InvalidInputError(
                f"{file}: grade must return Grade(answer, format); it returned {result!r}"
            )
        return result

    return method
