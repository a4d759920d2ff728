"""`pods tasks`: list the tasks; `pods tasks check NAME`: grade its gold answers with its grader."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podslab.tasks import Task
    from podslab.tasks.base import Row

SUMMARY = "list the tasks, or grade a task's gold answers with its own grader"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pods tasks`."""
    verbs = parser.add_subparsers(dest="tasks_verb", metavar="VERB")
    check = verbs.add_parser("check", help="grade a task's gold answers with its own grader")
    check.add_argument("name", help="a task's name, or the path of a file with yours: ./mytask.py")
    check.add_argument("--data_path", help="a local file or folder; the hub if left out")
    check.add_argument("--split", help="only this split")


def run(args: argparse.Namespace) -> int:
    """List the tasks, or check one; 1 if a check failed or a split could not be read."""
    return _check(args) if args.tasks_verb == "check" else _list()


def _list() -> int:
    from podslab.tasks.by_name import TASKS, task_class

    for name in TASKS:
        cls = task_class(name)
        print(f"{name:14} {cls.summary}")
        print(f"{'':14} splits: {', '.join(cls.splits)}; {cls.source}")
    own = "a file with one subclass of podslab.tasks.Task, named by its path, ./mytask.py"
    print(f"\nYour own: {own}")
    return 0


def _check(args: argparse.Namespace) -> int:
    from podslab.tasks import get_task
    from podslab.training.preflight import check_split
    from podsrl.errors import InvalidInputError

    task = get_task(args.name)
    if args.split is not None:
        check_split(task, args.name, args.split)
    ok = _check_examples(task)

    splits = [args.split] if args.split is not None else list(task.splits)
    problems = []
    for split in splits:
        try:
            rows = task.load(split, args.data_path)
        except InvalidInputError as error:
            problems.append(error)
            print(f"{split}: could not be read: {error}")
            ok = False
            continue
        ok = _check_split(task, split, rows) and ok

    if len(problems) == len(splits):
        raise problems[0]
    return 0 if ok else 1


def _check_examples(task: Task) -> bool:
    from podslab.tasks.base import as_rewards_get

    row, right, wrong = task.examples()
    verdicts = [task.grade(text, as_rewards_get(row)).answer for text in (right, wrong)]
    ok = verdicts == [True, False]
    print(f"example: {'graded as it should be' if ok else f'right and wrong graded {verdicts}'}")
    return ok


def _check_split(task: Task, split: str, rows: list[Row]) -> bool:
    from podslab.tasks.base import as_rewards_get

    started = time.perf_counter()
    gold = [task.gold_completion(row) for row in rows]
    grades = task.grade_batch(gold, [as_rewards_get(row) for row in rows])
    seconds = time.perf_counter() - started
    failed = [(row, grade) for row, grade in zip(rows, grades, strict=True) if not grade.answer]
    unscorable = sum(grade.answer is None for grade in grades)
    print(
        f"{split}: {len(rows) - len(failed)} of {len(rows)} gold answers pass"
        f" ({unscorable} could not be graded), {seconds:.1f} s"
    )
    for row, grade in failed[:10]:
        problem = "not gradable" if grade.answer is None else "wrong"
        print(f"  {problem}: {str(row['answer'])[:200]!r}")
    return not failed
