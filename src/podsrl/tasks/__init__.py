"""Tasks: a dataset with its prompt and its graders."""

from podsrl.tasks.base import Grade, Task
from podsrl.tasks.registry import TASKS, get_task

__all__ = ["TASKS", "Grade", "Task", "get_task"]
