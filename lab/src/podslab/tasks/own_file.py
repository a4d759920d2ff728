"""A task in a file of the user's: what is wrong in it is told in one line, with file and line."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.plugins import import_module_or_file, user_code
from podslab.tasks.base import Grade, Messages, Row, Task


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
    if missing := [field for field in ("name", "example") if not _has(cls, field)]:
        raise InvalidInputError(f"{path}: {cls.__name__} has no {' and no '.join(missing)}")
    return type(cls.__name__, (_Told, cls), {"__doc__": cls.__doc__, "file": path})


def _has(cls: type[Task], field: str) -> bool:
    return hasattr(cls, field) or (field == "example" and cls.examples is not Task.examples)


class _Told(Task):
    """Stands before the user's class: each call is checked, and says where it went wrong."""

    file: str

    def load(self, split: str, path: str | None = None) -> list[Row]:
        with user_code(self.file, f"load({split!r}) failed"):
            rows = super().load(split, path)  # type: ignore[safe-super]
        if not isinstance(rows, Sequence) or not rows:
            raise InvalidInputError(f"{self.file}: load({split!r}) returned no list of rows")
        for number, row in enumerate(rows, start=1):
            lacking = [
                f for f in ("question", "answer") if not isinstance(row, Mapping) or f not in row
            ]
            if lacking:
                line = getattr(row, "line", None)
                where = f" (line {line} of the data)" if line else ""
                raise InvalidInputError(
                    f"{self.file}: row {number} of load({split!r}){where} has no"
                    f" {' and no '.join(map(repr, lacking))}; it is {str(row)[:80]}"
                )
        return list(rows)

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        with user_code(self.file, f"grade failed on the completion {completion[:80]!r}"):
            grade = super().grade(completion, row)  # type: ignore[safe-super]
        if not isinstance(grade, Grade):
            raise InvalidInputError(
                f"{self.file}: grade must return Grade(answer, format); it returned {grade!r}"
            )
        return grade

    def grade_batch(
        self, completions: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> list[Grade]:
        with user_code(self.file, "grade_batch failed"):
            grades = list(super().grade_batch(completions, rows))
        if len(grades) != len(rows) or not all(isinstance(grade, Grade) for grade in grades):
            raise InvalidInputError(
                f"{self.file}: grade_batch must return one Grade(answer, format) for each of"
                f" {len(rows)} completions; it returned {str(grades)[:80]}"
            )
        return grades

    def prompt(self, row: Mapping[str, Any]) -> Messages:
        with user_code(self.file, "prompt failed"):
            return super().prompt(row)

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        with user_code(self.file, "gold_completion failed"):
            return super().gold_completion(row)

    def examples(self) -> tuple[Row, str, str]:
        with user_code(self.file, "examples failed"):
            return super().examples()
