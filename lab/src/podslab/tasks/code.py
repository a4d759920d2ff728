"""Python functions with unit tests: MBPP (arXiv 2108.07732)."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from podsgrading.extract import answer_tag
from podsgrading.pool import usable_cores
from podsgrading.sandbox import Limits, check_sandbox, run_in_sandbox
from podslab.tasks.base import Grade, Row, Task, check_choice, in_format
from podslab.tasks.data_files import find_file, load_from_hub, read_jsonl
from podsrl.errors import InvalidInputError

#: Longer code is no answer.
MAX_CODE = 50_000
_OPENED = r"^[ \t]{0,9}```[a-zA-Z0-9+{}.]{0,20}[ \t]{0,9}\n"
#: A fenced block; and one whose last line of code ends with the fence.
_FENCE = re.compile(_OPENED + r"(.*?)^[ \t]{0,9}```", re.S | re.M)
_CLOSED_LATE = re.compile(_OPENED + r"(.*?)```[ \t]{0,9}$", re.S | re.M)
_FUTURE = re.compile(r"^from __future__ import [\w, ]+$", re.M)
_DEFINES = re.compile(r"^(?:async )?(?:def|class) |^\w+(?::[^=\n]*)? = lambda\b", re.M)
#: The published split of MBPP's one file, by task_id (first, last).
_MBPP_SPLITS = {"train": (601, 974), "test": (11, 510)}


class Code(Task):
    """Write a Python function; right if its unit tests pass in a sandbox.

    Args:
        seconds: for one answer with its tests, without those in which it waits for a processor;
            cpu_seconds: on the processor (an endless loop costs these); memory_mb: for the same.
    """

    name = "code"
    summary = "Python functions with unit tests (MBPP)"
    source = (
        "hub: google-research-datasets/mbpp; official grader:"
        " github.com/google-research/google-research, mbpp"
    )
    example = {  # noqa: RUF012
        "question": "Write a function to add two numbers.\n\nIt must pass this test:\n"
        "assert add(1, 2) == 3",
        "answer": "def add(a, b):\n    return a + b",
        "tests": "assert add(1, 2) == 3\nassert add(-1, 1) == 0",
        "setup": "",
    }
    example_right = "<think>\n+\n</think>\n<answer>\ndef add(a, b):\n    return b + a\n</answer>"
    example_wrong = "<think>\n3\n</think>\n<answer>\ndef add(a, b):\n    return 3\n</answer>"

    def __init__(self, seconds: float = 10.0, cpu_seconds: int = 5, memory_mb: int = 1024) -> None:
        for name, value in {"cpu_seconds": cpu_seconds, "memory_mb": memory_mb}.items():
            if not isinstance(value, int) or value < 1:  # what rlimits take
                raise InvalidInputError(f"{name} must be a whole number from 1; got {value!r}")
        if not seconds > 0:
            raise InvalidInputError(f"seconds must be above 0; got {seconds!r}")

        check_sandbox()
        self._limits = Limits(seconds=seconds, cpu=cpu_seconds, memory=memory_mb << 20)

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question`, `answer` (the gold code), `tests` and `setup` (code run first)."""
        check_choice("split", split, self.splits)
        rows: Iterable[Row]
        if path is None:
            rows = load_from_hub("google-research-datasets/mbpp", split, config="full")
        else:
            rows = _from_file(split, path)
        where = f"{path or self.name}, {split}"
        return [_row(row, f"{where}, row {number}") for number, row in enumerate(rows, start=1)]

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The gold code, fenced."""
        return super().gold_completion({"answer": f"```python\n{row['answer']}\n```"})

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Run the completion's code and then the tests; None if the sandbox itself failed."""
        return self.grade_batch([completion], [row])[0]

    def grade_batch(
        self, completions: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> list[Grade]:
        """As many sandboxes at a time as there are cores; equal programs run once."""
        jobs: list[tuple[str, str] | None] = []  # a program and its tests
        for text, row in zip(completions, rows, strict=True):
            code = extract_code(text)
            jobs.append(None if code is None else (_program(code, row), str(row["tests"])))

        different = list(dict.fromkeys(job for job in jobs if job is not None))
        with ThreadPoolExecutor(usable_cores()) as threads:
            verdicts = dict(zip(different, threads.map(self._passes, different), strict=True))

        return [
            Grade(False if job is None else verdicts[job], in_format(text))
            for job, text in zip(jobs, completions, strict=True)
        ]

    def _passes(self, job: tuple[str, str]) -> bool | None:
        """Does the program pass its tests? None if the sandbox itself failed."""
        program, tests = job
        result = run_in_sandbox(program, tests, self._limits)
        return None if result.status == "broken" else result.status == "passed"


def _program(code: str, row: Mapping[str, Any]) -> str:
    """The code, after what its tests need."""
    future_imports = "\n".join(_FUTURE.findall(code))  # Python wants these before all else
    rest = _FUTURE.sub("", code)
    setup = row.get("setup") or ""
    return f"{future_imports}\n{setup}\n{rest}"


def extract_code(completion: str) -> str | None:
    """The code that a completion answers with, or None.

    The last fenced block of the answer tag (without a tag: of what follows the reasoning) that
    defines something: a block after it shows how to use it, or what it prints. If none does, the
    last one; if there is no fence, all of the tag.

    >>> extract_code("<answer>```python\\nx = 1\\n```</answer>")
    'x = 1\\n'
    >>> extract_code("x = 1") is None
    True
    """
    tag = answer_tag(completion)
    after_thought = completion.rpartition("</think>")[2].partition("<think>")[0]
    text = after_thought if tag is None else tag
    if len(text) > 4 * MAX_CODE:
        return None

    text = text.replace("\r\n", "\n") + "\n"
    fenced = _FENCE.findall(text) or _CLOSED_LATE.findall(text)
    # A block in a list is indented as a whole.
    blocks = [textwrap.dedent(block) if block[:1].isspace() else block for block in fenced]
    defining = [block for block in blocks if _DEFINES.search(block)]

    code = (defining or blocks)[-1] if blocks else tag
    return code if code and len(code) <= MAX_CODE else None


def _from_file(split: str, path: str) -> list[Row]:
    """The rows of a split, from a file of its own or from MBPP's one file."""
    file = find_file(path, [f"{split}.jsonl", "mbpp.jsonl"])
    rows: list[Row] = list(read_jsonl(file, required=("code", "test_list")))
    if file.name == "mbpp.jsonl":
        first, last = _MBPP_SPLITS[split]
        rows = [row for row in rows if first <= int(row["task_id"]) <= last]
        if not rows:
            raise InvalidInputError(f"{file} has no task_id in {first}..{last}, its {split} split")
    return rows


def _row(row: Mapping[str, Any], where: str) -> Row:
    text = row.get("text") or row.get("prompt")
    if not text or not row.get("code") or not row.get("test_list"):
        raise InvalidInputError(f"{where}: no field 'text', 'code' or 'test_list'")

    tests = [str(test) for test in row["test_list"]]
    setup = row.get("test_setup_code") or "\n".join(row.get("test_imports") or ())
    return {
        "question": f"{text}\n\nIt must pass tests such as this:\n{tests[0]}",
        "answer": str(row["code"]).replace("\r\n", "\n"),
        "tests": "\n".join(tests),
        "setup": str(setup),
    }
