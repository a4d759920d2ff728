"""Tasks: a dataset with its prompt and its graders.

`get_task` gives those that come with podsrl. The rest is for a task of your own, for which see
docs/laboratory.md:
`Task` and `Grade`, `read_jsonl` for its data, `declared_answer` and `in_format` for its grader.
"""

from podslab.grading.extract import declared_answer
from podslab.tasks.base import Grade, Task, in_format
from podslab.tasks.by_name import TASKS, get_task
from podslab.tasks.data_files import read_jsonl

__all__ = ["TASKS", "Grade", "Task", "declared_answer", "get_task", "in_format", "read_jsonl"]
