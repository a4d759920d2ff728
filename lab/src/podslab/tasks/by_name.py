"""Tasks by name, or in a file of the user's: a mistake there is one line with file and line."""

import inspect
from collections.abc import Callable
from typing import Any

from podslab.tasks.base import Grade, Task
from podsrl.errors import InvalidInputError, UnknownNameError, suggestion
from podsrl.plugins import import_module_or_file, user_code

#: name -> "module:class"; modules are imported when the task is asked for.
TASKS: dict[str, str] = {
    "arithmetic": "podslab.tasks.arithmetic:Arithmetic",
    "numbers": "podslab.tasks.numbers:Numbers",
    "answers": "podslab.tasks.answers:Answers",
    "gsm8k": "podslab.tasks.gsm8k:GSM8K",
    "math": "podslab.tasks.math:Math",
    "sciknoweval": "podslab.tasks.sciknoweval:SciKnowEval",
    "code": "podslab.tasks.code:Code",
    "reasoning_gym": "podslab.tasks.reasoning_gym:ReasoningGym",
}


def get_task(name: str, **options: Any) -> Task:
    """The task of that name.

    Args:
        name: a name in `TASKS`, one with an argument ("reasoning_gym:chain_sum"), or the path of a
            Python file that defines one `Task` subclass.
        options: keyword arguments of the task's constructor.

    Raises:
        UnknownNameError: no such task; the message lists those there are.
        InvalidInputError: options that the task does not have; a file of yours with a mistake.
    """
    cls = task_class(name)
    signature = inspect.signature(cls)
    argument = name.partition(":")[2]
    positional = [argument] if argument and not name.endswith(".py") else []

    try:
        signature.bind(*positional, **options)
        return cls(*positional, **options)
    except (TypeError, ArithmeticError) as error:
        takes = ", ".join(signature.parameters) or "no options"
        raise InvalidInputError(f"task {name!r}: {error}; it takes {takes}") from error


def task_class(name: str) -> type[Task]:
    """The class of a task, with the same errors as `get_task`."""
    if name.endswith(".py"):
        return _class_in(name)
    base = name.partition(":")[0]
    if base not in TASKS:
        all_of_them = (
            f"the tasks are {', '.join(TASKS)}, and your own is given as the path of its file,"
            " './mytask.py'"
        )
        raise UnknownNameError(
            f"unknown task {name!r}; {suggestion(base.lower(), TASKS, all_of_them)}"
        )

    module, _, attribute = TASKS[base].partition(":")
    cls: type[Task] = getattr(import_module_or_file(module), attribute)
    return cls


def _class_in(path: str) -> type[Task]:
    """The one subclass of `Task` that a file defines; its mistakes will be `InvalidInputError`.

    Raises:
        UnknownNameError: no such file.
        InvalidInputError: it can't be imported, or has no whole subclass or several; the message
            names the file, and the line if there is one.
    """
    module = import_module_or_file(path)
    whole: list[type[Task]] = []
    lacking: list[str] = []
    for value in vars(module).values():
        is_task = inspect.isclass(value) and issubclass(value, Task)
        # Neither imported, nor the base of another.
        if is_task and value.__module__ == module.__name__ and not inspect.isabstract(value):
            whole.append(value)
        elif is_task and value.__module__ == module.__name__:
            missing = sorted(value.__abstractmethods__)
            lacking.append(f"{value.__name__}, which lacks {' and '.join(missing)}")

    if len(whole) != 1 or not hasattr(whole[0], "name"):
        names = ", ".join(cls.__name__ for cls in whole) or "; ".join(lacking) or "none"
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
