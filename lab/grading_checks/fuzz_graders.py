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
from typing import Any

R = Any  # random.Random
GOLD_MATH = [r"\frac{\sqrt{3}}{2}", "(1,2]", r"x^2+1", "1,-2", "42", r"\text{even}"]
GOLD_MATH += [r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\{1,2\}", "y = 2x", r"x < 3", r"3 \pm i"]
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
    f"reasoning_gym:{name}"
    for name in (
        *("chain_sum", "gcd", "polynomial_equations", "countdown", "knights_knaves"),
        "word_sorting",
    )
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
PIECES = [
    *("<think>", "</think>", "<answer>", "</answer>", "\\boxed{", "}", "{", "(", ")", "[", "]"),
    *("####", "answer is", "\n", " ", "```python\n", "```", "$", "$$", "\\(", "\\)", "\\frac{"),
    *("\\sqrt{", "^", "_", "=", "<", ">", "\\le", ",", ";", "\\cup", "\\pm", "and", "or", "%"),
    *("0", "1", "42", "3.14", "1,000", "-", "+", "*", "/", "x", "y", "i", "pi", "\\pi", "!", "|"),
    *("\\text{", "\\begin{pmatrix}", "\\end{pmatrix}", "&", "\\\\", "H2O", "->", "{2+}", "B)", "C"),
    *("\x00", "\x1b[31m", "\ud800", "\u202e", "\ufeff", "\u0663", "\u00b2", "\U0001f600", "\u0301"),
]


def hostile(r: R) -> str:
    """One hostile completion."""
    kind = r.random()
    if kind < 0.30:
        text = "".join(r.choice(PIECES) for _ in range(r.randint(0, 60)))
    elif kind < 0.50:
        text = f"<think>so</think><answer>{''.join(r.choices(PIECES, k=r.randint(0, 25)))}</answer>"
    elif kind < 0.70:
        text = f"<answer>{mutated(r.choice(GOLD_MATH), r)}</answer>"
    elif kind < 0.90:
        text = "".join(chr(r.randint(0, 0x24FF)) for _ in range(r.randint(0, 200)))
        text = f"<answer>{text}</answer>" if r.random() < 0.5 else text
    elif kind < 0.9985:
        text = f"<answer>{r.choice(PIECES) * r.randint(1, 300)}</answer>"
    else:
        text = r.choice(PIECES) * r.randint(1, 200_000)
    if r.random() < 0.2:
        text = text[: r.randint(0, len(text))]
    return text


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
    for _ in range(r.randint(0, 4)):
        at = r.randint(0, len(text))
        text = text[:at] + r.choice(["", r.choice(PIECES)]) + text[at + r.randint(0, 2) :]
    return text


def golds_of() -> dict[str, tuple[str, dict[str, Any], Any]]:
    """name of a grader -> its task, the task's options, and rows (None: of its training split)."""
    math = [{"answer": gold} for gold in GOLD_MATH]
    science = [
        {"answer": "2H2 + O2 = 2H2O", "choices": []},
        {"answer": "B", "choices": ["1", "2"]},
    ]
    made: dict[str, Any] = {}
    for mode in ("strict", "lenient"):
        made[f"gsm8k {mode}"] = ("gsm8k", {"mode": mode}, [{"answer": "42"}])
        made[f"math {mode}"] = ("math", {"mode": mode, "deadline": 1.0}, math)
    made["sciknoweval"] = ("sciknoweval", {}, science)
    made["arithmetic"] = ("arithmetic", {}, None)
    made |= {name: (name, {"size": 20}, None) for name in REASONING_GYM}
    made["code"] = ("code", {}, None)
    return made


def grader(name: str) -> Callable[[list[str], R], list[Any]]:
    """Grade a list of completions, each against one of the grader's rows."""
    from podslab.tasks import get_task

    task_name, options, rows = golds_of()[name]
    task = get_task(task_name, **options)
    golds = rows or ([task.example] if ":" not in task_name else task.load("train")[:8])

    def grade(texts: list[str], r: R) -> list[Any]:
        mixed = [
            program(r) if task_name == "code" and r.random() < 0.03 else text for text in texts
        ]
        return task.grade_batch(mixed, [r.choice(golds) for _ in texts])

    return grade


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="only the graders whose name begins so")
    arguments = parser.parse_args()
    from podsgrading.pool import shared_pool
    from podsgrading.unscorable import COUNTS
    from podsrl.errors import PodsError

    made: dict[str, Callable[[list[str], R], list[Any]]] = {}
    for name in golds_of():
        if not name.startswith(arguments.only or ""):
            continue
        try:
            made[name] = grader(name)
        except PodsError as error:
            print(f"{name:34} left out: {error}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, grade in made.items():
        r = random.Random(arguments.seed)
        COUNTS.clear()
        verdicts: Counter[Any] = Counter()
        slowest, started = 0.0, time.perf_counter()
        left = arguments.count
        while left > 0:
            size = min(512, left)
            # One in a thousand: each that gets to sympy costs its whole deadline.
            texts = [pathological(r) if r.random() < 0.001 else hostile(r) for _ in range(size)]
            batch_started = time.perf_counter()
            verdicts.update(grade.answer for grade in grade(texts, r))
            slowest = max(slowest, time.perf_counter() - batch_started)
            left -= size
        seconds = time.perf_counter() - started
        print(
            f"{name:34} {arguments.count} completions, {arguments.count / seconds:,.0f} per second,"
            f" slowest batch {slowest:.2f} s; right {verdicts[True]}, wrong {verdicts[False]},"
            f" unscorable {verdicts[None]} ({COUNTS['timeouts']} timeouts, {COUNTS['crashes']}"
            f" crashes, {COUNTS['errors']} errors)",
            flush=True,
        )
    shared_pool(1.0, "podsgrading.math.warm").close()  # so that its memory can be read
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"memory: this process grew by {grown:.0f} MiB, largest child {children:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
