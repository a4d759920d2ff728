"""Tasks by name."""

import inspect
from typing import Any

from podslab.tasks.base import Task
from podslab.tasks.own_file import task_class_in
from podsrl.errors import InvalidInputError, UnknownNameError, suggestion
from podsrl.plugins import import_module_or_file

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
    argument = name.partition(":")[2]
    positional = [argument] if argument and not name.endswith(".py") else []
    signature = inspect.signature(cls)
    try:
        signature.bind(*positional, **options)
        return cls(*positional, **options)
    except (TypeError, ArithmeticError) as error:
        takes = ", ".join(signature.parameters) or "no options"
        raise InvalidInputError(f"task {name!r}: {error}; it takes {takes}") from error


def task_class(name: str) -> type[Task]:
    """The class of a task, with the same errors as `get_task`."""
    if name.endswith(".py"):
        return task_class_in(name)
    base = name.partition(":")[0]
    if base not in TASKS:
        all_of_them = (
            f"the tasks are {', '.join(TASKS)}, and your own is given as the path of its file,"
            " './mytask.py'"
        )
        raise UnknownNameError(f"unknown task {name!r}; {suggestion(base, TASKS, all_of_them)}")
    module, _, attribute = TASKS[base].partition(":")
    cls: type[Task] = getattr(import_module_or_file(module), attribute)
    return cls
