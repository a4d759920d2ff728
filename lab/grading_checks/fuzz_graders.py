"""100,000 hostile completions through every grader: no crash, no hang, memory bounded.

    cd lab && python -m grading_checks.fuzz_graders --count 100000 --seed 0

Truncated, nested, huge, Unicode, control characters, a megabyte long, pathological expressions.
The graders that need no sandbox and no process must never raise; what hangs or dies in a grading
process must come back as unscorable. One in 33 of the completions for `code` is a program: nearly
right, mutated, cut, or made to hang, lie or do harm. Prints throughput, the time-outs and the
memory's peak.
"""

import argparse
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

R = Any  # random.Random
GOLD_MATH = [
    r"\frac{\sqrt{3}}{2}",
    "(1,2]",
    r"x^2+1",
    "1,-2",
    "42",
    r"\text{even}",
    r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
    r"\{1,2\}",
    "y = 2x",
    r"x < 3",
    r"3 \pm i",
]
#: Answers that take for ever, or all memory, to evaluate.
PATHOLOGICAL = [
    "9^9^9^9",
    "9^{9^{9^{9}}}",
    "10^{10^{10}}!",
    "((((((((((1))))))))))!!!!!!!!!!",
    r"\sum_{k=1}^{10^{100}} k!",
    r"\int_0^{10^9} x^{x^x} dx",
    "(x+1)^{10000000}",
    r"\sqrt{" * 60 + "2" + "}" * 60,
    r"\frac{1}{" * 60 + "x" + "}" * 60,
    "(" * 500 + "1" + ")" * 500,
    r"\binom{10^{20}}{10^{10}}",
    "1e999999999",
    "0." + "3" * 1500,
    "1/" * 600 + "1",
    "1," * 800 + "1",
    "x=" * 500 + "1",
    r"\left(" * 200,
    r"\boxed{" * 200,
    r"\prod_{k=1}^{10^9} \sin(k)",
    "+".join(f"x^{{{k}}}" for k in range(200)),
    "2H2+" * 200 + "O2=H2O",
    "(" * 30 + "C" + ")9" * 30 + "=C",
    "A" * 1500,
    r"\lim_{x\to 0} \frac{\sin(x^{100000})}{x}",
    "__import__('os').system('touch /tmp/pwned')",
]
REASONING_GYM = [
    "reasoning_gym:chain_sum",
    "reasoning_gym:gcd",
    "reasoning_gym:polynomial_equations",
    "reasoning_gym:countdown",
    "reasoning_gym:knights_knaves",
    "reasoning_gym:word_sorting",
]
#: Programs that harm, hang, lie or die; the sandbox must not let any of them matter.
PROGRAMS = [
    "while True: pass",
    "import time; time.sleep(1e9)",
    "x = 9**9**9**9",
    "x = bytearray(1 << 40)",
    "x = []\nwhile True: x.append(bytearray(1 << 24))",
    "def f(): f()\nf()",
    "import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "while True: print('x' * 10_000)",
    "f = open('f', 'wb')\nwhile True: f.write(b'x' * (1 << 20))",
    "import os\nwhile True: os.fork()",
    "import os; os._exit(0)",
    "import os; os.kill(1, 9); os.kill(-1, 9)",
    "import os\nfor k in range(3, 100): os.close(k)",
    "import sys; sys.exit(0)",
    "import ctypes; ctypes.string_at(0)",
    "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()",
    "import socket; socket.create_connection(('192.0.2.1', 80))",
    "open('/etc/passwd').read()",
    "import signal\nfor k in range(1, 32): signal.signal(k, signal.SIG_IGN)",
    "raise BaseException",
]
#: The gold code of the task's example, and near misses.
CANDIDATES = [
    "def add(a, b):\n    return a + b\n",
    "def add(a, b):\n    return b + a  # the same\n",
    "def add(a, b):\n    total = a\n    for _ in range(b):\n        total += 1\n    return total\n",
    "import operator\nadd = operator.add\n",
    "class add(int):\n    def __new__(cls, a, b):\n        return a + b\n",
    "add = lambda *numbers: sum(numbers)\n",
]
_TAGS = ["<think>", "</think>", "<answer>", "</answer>", "####", "answer is", "```python\n", "```"]
_BRACKETS = ["}", "{", "(", ")", "[", "]", "$", "$$", "\\(", "\\)"]
_COMMANDS = ["\\boxed{", "\\frac{", "\\sqrt{", "\\text{", "\\le", "\\cup", "\\pm", "\\pi"]
_MATRIX = ["\\begin{pmatrix}", "\\end{pmatrix}", "&", "\\\\"]
_OPERATORS = ["^", "_", "=", "<", ">", "-", "+", "*", "/", "!", "|", ",", ";", "%", "->"]
_NUMBERS = ["0", "1", "42", "3.14", "1,000"]
_WORDS = ["and", "or", "x", "y", "i", "pi", "H2O", "{2+}", "B)", "C"]
_WHITE = ["\n", " "]
#: Control characters, half a surrogate pair, direction marks, digits of other scripts, accents.
_ODD_CHARACTERS = [
    "\x00",
    "\x1b[31m",
    "\ud800",
    "\u202e",
    "\ufeff",
    "\u0663",
    "\u00b2",
    "\U0001f600",
    "\u0301",
]
#: What hostile completions are made of.
PIECES = (
    _TAGS
    + _BRACKETS
    + _COMMANDS
    + _MATRIX
    + _OPERATORS
    + _NUMBERS
    + _WORDS
    + _WHITE
    + _ODD_CHARACTERS
)


def hostile(r: R) -> str:
    """One hostile completion."""
    draw = r.random()
    if draw < 0.30:
        text = "".join(r.choice(PIECES) for _ in range(r.randint(0, 60)))
    elif draw < 0.50:
        answer = "".join(r.choices(PIECES, k=r.randint(0, 25)))
        text = f"<think>so</think><answer>{answer}</answer>"
    elif draw < 0.70:
        text = f"<answer>{mutated(r.choice(GOLD_MATH), r)}</answer>"
    elif draw < 0.90:
        text = "".join(chr(r.randint(0, 0x24FF)) for _ in range(r.randint(0, 200)))
        text = f"<answer>{text}</answer>" if r.random() < 0.5 else text
    elif draw < 0.9985:
        text = f"<answer>{r.choice(PIECES) * r.randint(1, 300)}</answer>"
    else:
        text = r.choice(PIECES) * r.randint(1, 200_000)

    is_cut_off = r.random() < 0.2
    return text[: r.randint(0, len(text))] if is_cut_off else text


def pathological(r: R) -> str:
    """A completion whose answer takes for ever, or all memory, to evaluate."""
    return f"<think>so</think><answer>{r.choice(PATHOLOGICAL)}</answer>"


def program(r: R) -> str:
    """A completion with a program: nearly right, cut, or hostile."""
    code = r.choice(PROGRAMS) if r.random() < 0.03 else r.choice(CANDIDATES)
    if r.random() < 0.7:
        code = mutated(code, r)
    elif r.random() < 0.2:
        code = code[: r.randint(0, len(code))]
    return f"<think>so</think>\n<answer>\n```python\n{code}\n```\n</answer>"


def mutated(text: str, r: R) -> str:
    """`text` with up to four pieces put in, each in the place of up to two characters."""
    for _ in range(r.randint(0, 4)):
        place = r.randint(0, len(text))
        piece = r.choice(["", r.choice(PIECES)])
        text = text[:place] + piece + text[place + r.randint(0, 2) :]
    return text


class GraderOfTask(NamedTuple):
    """A grader: its task, the task's options, and its rows (None: of its training split)."""

    task: str
    options: dict[str, Any]
    rows: list[dict[str, Any]] | None


def graders() -> dict[str, GraderOfTask]:
    """All graders that are tried, by their names."""
    math_rows = [{"answer": gold} for gold in GOLD_MATH]
    science_rows = [
        {"answer": "2H2 + O2 = 2H2O", "choices": []},
        {"answer": "B", "choices": ["1", "2"]},
    ]

    by_name: dict[str, GraderOfTask] = {}
    for mode in ("strict", "lenient"):
        by_name[f"gsm8k {mode}"] = GraderOfTask("gsm8k", {"mode": mode}, [{"answer": "42"}])
        math_options = {"mode": mode, "deadline": 1.0}
        by_name[f"math {mode}"] = GraderOfTask("math", math_options, math_rows)
    by_name["sciknoweval"] = GraderOfTask("sciknoweval", {}, science_rows)
    by_name["arithmetic"] = GraderOfTask("arithmetic", {}, None)
    for name in REASONING_GYM:
        by_name[name] = GraderOfTask(name, {"size": 20}, None)
    by_name["code"] = GraderOfTask("code", {}, None)
    return by_name


def grader(name: str) -> Callable[[list[str], R], list[Any]]:
    """Grade a list of completions, each against one of the grader's rows."""
    from podslab.tasks import get_task

    task_name, options, rows = graders()[name]
    task = get_task(task_name, **options)
    if rows is None:
        is_generated = ":" in task_name
        rows = task.load("train")[:8] if is_generated else [task.example]

    def grade(texts: list[str], r: R) -> list[Any]:
        if task_name == "code":
            texts = [program(r) if r.random() < 0.03 else text for text in texts]
        return task.grade_batch(texts, [r.choice(rows) for _ in texts])

    return grade


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="only the graders whose name begins so")
    arguments = parser.parse_args()
    from podsgrading.pool import shared_pool
    from podsrl.errors import PodsError

    usable: dict[str, Callable[[list[str], R], list[Any]]] = {}
    for name in graders():
        if not name.startswith(arguments.only or ""):
            continue
        try:
            usable[name] = grader(name)
        except PodsError as error:
            print(f"{name:34} left out: {error}")

    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, grade in usable.items():
        report = fuzz(grade, count=arguments.count, seed=arguments.seed)
        print(f"{name:34} {report}", flush=True)

    shared_pool(1.0, "podsgrading.math.warm").close()  # so that its memory can be read
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before) / 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"memory: this process grew by {grown:.0f} MiB, largest child {children:.0f} MiB")
    return 0


def fuzz(grade: Callable[[list[str], R], list[Any]], *, count: int, seed: int) -> str:
    """Grade so many hostile completions in batches; what came of it, in one line."""
    from podsgrading.unscorable import COUNTS

    r = random.Random(seed)
    COUNTS.clear()
    verdicts: Counter[Any] = Counter()
    slowest = 0.0
    started = time.perf_counter()

    left = count
    while left > 0:
        size = min(512, left)
        # One in a thousand: each that gets to sympy costs its whole deadline.
        texts = [pathological(r) if r.random() < 0.001 else hostile(r) for _ in range(size)]
        batch_started = time.perf_counter()
        verdicts.update(verdict.answer for verdict in grade(texts, r))
        slowest = max(slowest, time.perf_counter() - batch_started)
        left -= size

    seconds = time.perf_counter() - started
    return (
        f"{count} completions, {count / seconds:,.0f} per second, slowest batch {slowest:.2f} s;"
        f" right {verdicts[True]}, wrong {verdicts[False]}, unscorable {verdicts[None]}"
        f" ({COUNTS['timeouts']} timeouts, {COUNTS['crashes']} crashes, {COUNTS['errors']} errors)"
    )


if __name__ == "__main__":
    sys.exit(main())
