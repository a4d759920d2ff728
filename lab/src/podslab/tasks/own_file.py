"""A task in a file of the user's: what is wrong in it is told in one line, with file and line."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podslab.tasks.base import Grade, Task
from podsrl.errors import InvalidInputError
from podsrl.plugins import import_module_or_file, user_code


def task_class_in(path: str) -> type[Task]:
    """The one subclass of `Task` that a file defines; its mistakes will be `InvalidInputError`.

    Raises:
        UnknownNameError: no such file.
        InvalidInputError: it can't be imported, has no subclass or several, or one that lacks
            something; the message names the file, and the line if there is one.
    """
    module = import_module_or_file(path)
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Task)
        and value.__module__ == module.__name__
    ]
    whole = [cls for cls in found if not inspect.isabstract(cls)]
    if len(whole) != 1:
        names = ", ".join(cls.__name__ for cls in whole) or "none"
        lacking = "".join(
            f"; {cls.__name__} lacks {' and '.join(sorted(cls.__abstractmethods__))}"
            for cls in found
            if inspect.isabstract(cls)
        )
        raise InvalidInputError(
            f"{path} must define exactly one subclass of podslab.tasks.Task with load and grade; it"
            f" has {names}{lacking}"
        )
    cls = whole[0]
    missing = [] if hasattr(cls, "name") else ["name"]
    if not hasattr(cls, "example") and cls.examples is Task.examples:
        missing.append("example")
    if missing:
        raise InvalidInputError(f"{path}: {cls.__name__} has no {' and no '.join(missing)}")
    methods = ("load", "grade", "grade_batch", "prompt", "gold_completion", "examples")
    guarded = {name: _guarded(cls, name, path) for name in methods}
    return type(cls.__name__, (cls,), {"__doc__": cls.__doc__, **guarded})


def _guarded(cls: type[Task], name: str, file: str) -> Callable[..., Any]:
    """A method of the user's class, whose mistakes and results are told with the file."""
    checks: dict[str, Callable[..., None]] = {
        "load": _check_rows,
        "grade": _check_grade,
        "grade_batch": _check_grades,
    }

    def method(self: Task, *args: Any, **options: Any) -> Any:
        on = f" on the completion {args[0][:80]!r}" if name == "grade" else ""
        what = f"load({args[0]!r})" if name == "load" else name
        with user_code(file, f"{what} failed{on}"):
            result = getattr(cls, name)(self, *args, **options)
        if check := checks.get(name):
            check(result, f"{file}: ", *args)
        return result

    return method


def _check_rows(rows: Any, file: str, split: str, *_: Any) -> None:
    if not isinstance(rows, Sequence) or not rows:
        raise InvalidInputError(f"{file}load({split!r}) returned no list of rows")
    for number, row in enumerate(rows, start=1):
        given = row if isinstance(row, Mapping) else {}
        if lacking := [repr(field) for field in ("question", "answer") if field not in given]:
            line = getattr(row, "line", None)
            where = f" (line {line} of the data)" if line else ""
            raise InvalidInputError(
                f"{file}row {number} of load({split!r}){where} has no"
                f" {' and no '.join(lacking)}; it is {str(row)[:80]}"
            )


def _check_grade(grade: Any, file: str, *_: Any) -> None:
    if not isinstance(grade, Grade):
        raise InvalidInputError(
            f"{file}grade must return Grade(answer, format); it returned {grade!r}"
        )


def _check_grades(grades: Any, file: str, completions: Sequence[str], *_: Any) -> None:
    if len(grades) != len(completions) or not all(isinstance(grade, Grade) for grade in grades):
        raise InvalidInputError(
            f"{file}grade_batch must return one Grade(answer, format) for each of"
            f" {len(completions)} completions; it returned {str(grades)[:80]}"
        )
