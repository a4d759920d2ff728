"""Programs that a user would argue about, in real runs of the sandbox."""

import pytest

from podsgrading.sandbox import why_no_sandbox
from podslab.tasks import get_task
from podslab.tasks.code import extract_code

pytestmark = pytest.mark.skipif(bool(why_no_sandbox()), reason=why_no_sandbox())

ADD = "def add(a, b):\n    return a + b\n"


def fenced(code, language="python"):
    return f"<think>x</think>\n<answer>\n```{language}\n{code}\n```\n</answer>"


RIGHT = [
    fenced(ADD),
    fenced(ADD, "py"),
    fenced(ADD, "Python"),
    fenced(ADD, "python3"),
    fenced(ADD, ""),
    f"<answer>\n{ADD}</answer>",
    f"<answer>{ADD}</answer>",
    f"<think>\n```python\ndef add(a,b): return 0\n```\n</think>\n```python\n{ADD}```",
    fenced(
        "def add(a: int, b: int) -> int:\n    '''Adds.\n\n    >>> add(1, 2)\n    3\n    '''\n"
        "    return a + b"
    ),
    fenced("add = lambda a, b: a + b"),
    fenced("from operator import add"),
    fenced("class Adder:\n    def __call__(self, a, b):\n        return a + b\nadd = Adder()"),
    fenced(ADD + "\nif __name__ == '__main__':\n    print(add(int(input()), 2))"),
    fenced(ADD + "\nif __name__ == '__main__':\n    import unittest\n    unittest.main()"),
    fenced(ADD + "\nprint(add(1, 2))"),
    fenced(ADD + "\nassert add(2, 2) == 4"),
    fenced(ADD)[: -len("</answer>")] + "It runs in O(1).\n</answer>",
    f"<answer>First I import nothing.\n```python\n{ADD}```\n"
    "Example:\n```python\nprint(add(1, 2))\n```\n</answer>",
    f"<answer>\n```python\n{ADD}```\nOutput:\n```\n3\n```\n</answer>",
    f"<answer>\n```python\n{ADD.replace('+', '-')}```\nNo, wrong:\n```python\n{ADD}```\n</answer>",
    fenced("def add(a, b):\r\n    return a + b\r\n"),
    fenced("def add(a, b):\n\treturn a + b"),
    fenced("def add(a, b):\n    '''Gives ```a + b```\n    '''\n    return a + b"),
    fenced(ADD).replace("\n", "\r\n"),
    "<answer>\n```python\ndef add(a, b):\n    return a + b```\n</answer>",
    f"<answer>\n```{{python}}\n{ADD}```\n</answer>",
    "<answer>\n1. Add:\n   ```python\n   def add(a, b):\n       return a + b\n   ```\n</answer>",
    fenced(
        "from __future__ import annotations\nimport dataclasses\n"
        "@dataclasses.dataclass\nclass P:\n    a: int\n    b: int\n"
        "def add(a, b):\n    p = P(a, b)\n    return p.a + p.b"
    ),
    fenced(
        "import typing, collections, math, re, itertools, heapq, bisect, string, random\n" + ADD
    ),
    fenced("def add(a, b):\n    return float(a + b)"),
    fenced("def add(a, b):\n    return True if a + b == 1 else a + b"),
    fenced(
        "def add(a, b):\n    if b == 0:\n        return a\n"
        "    return add(a + 1, b - 1) if b > 0 else add(a - 1, b + 1)"
    ),
    fenced("加 = 1\n" + ADD),
    fenced("# -*- coding: latin-1 -*-\n" + ADD),
    fenced("import warnings\nwarnings.warn('x')\n" + ADD),
    fenced("import sys\nsys.setrecursionlimit(100000)\n" + ADD),
    fenced("import sys\nsys.stdout.write('hello')\n" + ADD),
    fenced("import pickle\nclass P:\n    pass\npickle.loads(pickle.dumps(P()))\n" + ADD),
]
WRONG = [
    fenced("def add(a, b):\n    print(a + b)"),
    fenced("def add(a, b):\n    return a - b"),
    fenced("def Add(a, b):\n    return a + b"),
    # neither processes nor threads
    fenced("import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()\n" + ADD),
    fenced("def add(a, b):\n    return str(a + b)"),
    fenced("def add(a, b):\n    yield a + b"),
    fenced("async def add(a, b):\n    return a + b"),
    fenced("import sys\nsys.exit(0)"),
    fenced("import os\nos._exit(0)"),
    fenced("raise SystemExit"),
    fenced(ADD + "import os\nos._exit(0)"),
    fenced(ADD + "raise ValueError"),
    fenced("def add(a, b):\n    import sys; sys.exit(0)"),
    fenced("def add(a, b):\n    import os; os._exit(0)"),
    fenced("print('passed')"),
    fenced(""),
    "<answer></answer>",
    fenced("def add(a, b):\n  return a + b\n   return 0"),
    fenced("function add(a, b) { return a + b; }", "javascript"),
    fenced("def add(a, b)\n    return a + b"),
    fenced(ADD)[: -len("```\n</answer>") - 4],
    "<answer>\n```python\n" + ADD,
    "<think>\n```python\n" + ADD + "```\n",
    "I would use the plus sign.",
    ADD,
    fenced("def add(a, b):\n    return add(a, b)"),
    fenced("import numpy_that_is_not_there\n" + ADD),
    fenced(ADD + "del add"),
    fenced("if __name__ == '__main__':\n    def add(a, b):\n        return a + b"),
    fenced("def add(a, b):\n    assert False"),
    fenced("def add(a, b):\n    return open('/etc/passwd').read()"),
    fenced("from solution import add"),
    fenced("from __main__ import add"),
    fenced("from tests import *\nadd = lambda a, b: 0"),
]


@pytest.fixture(scope="module")
def grades():
    """Of all programs at once, as in training."""
    task = get_task("code")
    completions = [*RIGHT, *WRONG]
    graded = task.grade_batch(completions, [task.example] * len(completions))
    return dict(zip(completions, graded, strict=True))


@pytest.mark.parametrize("completion", RIGHT)
def test_a_program_that_a_user_would_take_is_right(grades, completion):
    assert grades[completion].answer is True


@pytest.mark.parametrize("completion", WRONG)
def test_a_program_that_a_user_would_refuse_is_wrong(grades, completion):
    assert grades[completion].answer is False


def test_the_last_fenced_block_of_the_answer_is_the_code():
    text = "<think>```python\nbad\n```</think><answer>```\na\n```\nbetter:\n```py\nb\n```</answer>"
    assert extract_code(text) == "b\n"
    assert extract_code("<think>```python\nbad\n```</think> none") is None
    assert extract_code("<answer>" + "x" * 100_000 + "</answer>") is None
