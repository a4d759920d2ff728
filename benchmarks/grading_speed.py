"""How long grading a step's rollouts takes, and its share of the step.

    python benchmarks/grading_speed.py --prompts 8 --rollouts 64 --step-seconds 30

Each prompt's rollouts answer in a few different ways, as those of a model do. The first batch
includes starting the grading processes; the median is of five more. During training, the same
share is grading/seconds over step_time in the log.
"""

import argparse
import random
import statistics
import sys
import time
from typing import Any

GOLD = {
    "gsm8k": [str(k) for k in range(7, 900, 41)],
    # One in six gold answers of MATH-500 is neither a number nor a word: as here.
    "math": [
        *("9", "42", "2220", r"\frac{14}{3}", r"\text{Evelyn}", "284", "5", "28", "13535", "-50"),
        *(r"90^\circ", "0.15", "1.25", "720", "144", r"\frac{3}{56}", r"\frac{243}{625}", "12"),
        *("83", "203", r"3\sqrt{13}", "p - q", r"\left( 3, \frac{\pi}{2} \right)", "6 - 5i"),
    ],
}


def answers(gold: str, r: random.Random) -> list[str]:
    """The different answers of one prompt's rollouts: some right, some near."""
    other = gold.replace("3", "7").replace("5", "1")
    made = [gold, f"${gold}$", rf"\boxed{{{gold}}}", other, f"{gold}+1", f"-{gold}", f"2 {gold}"]
    return [*made, str(r.randint(-99, 99)), rf"\sqrt{{{r.randint(2, 99)}}}", "I do not know", "x"]


def batch(name: str, prompts: int, rollouts: int, r: random.Random) -> tuple[list[str], list[Any]]:
    """Completions and their rows."""
    texts, rows = [], []
    for gold in r.choices(GOLD[name], k=prompts):
        options = answers(gold, r)
        for _ in range(rollouts):
            texts.append(f"<think>{'so ' * 100}</think>\n<answer>{r.choice(options)}</answer>")
            rows.append({"answer": gold})
    return texts, rows


def code_batch(prompts: int, rollouts: int, r: random.Random) -> tuple[list[str], list[Any]]:
    """Completions with code, one in four the same as another, and their rows."""
    texts, rows = [], []
    for prompt in range(prompts):
        for _ in range(rollouts):
            code = f"def f(x):\n    return x + {prompt}  # {r.randint(0, 3 * rollouts)}"
            texts.append(f"<think></think>\n<answer>\n```python\n{code}\n```\n</answer>")
            rows.append({"tests": f"assert f(1) == {prompt + 1}", "setup": ""})
    return texts, rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--step-seconds", type=float, default=30.0)
    arguments = parser.parse_args()
    from podsrl.grading.sandbox import why_no_bubblewrap
    from podsrl.tasks import get_task

    r = random.Random(0)
    size = (arguments.prompts, arguments.rollouts)
    for name in ("gsm8k", "math", "code"):
        if name == "code" and why_no_bubblewrap():
            print(f"code    not measured: {why_no_bubblewrap()}")
            continue
        task = get_task(name)
        seconds = []
        for _ in range(6):
            texts, rows = code_batch(*size, r) if name == "code" else batch(name, *size, r)
            if name == "math":  # one that needs sympy, so that the first batch starts the processes
                texts[0], rows[0] = r"\boxed{\sqrt{8}}", {"answer": r"2\sqrt{2}"}
            started = time.perf_counter()
            task.grade_batch(texts, rows)
            seconds.append(time.perf_counter() - started)
        median = statistics.median(seconds[1:])
        print(
            f"{name:7} {len(texts)} rollouts: first batch {seconds[0] * 1000:,.0f} ms, then"
            f" {median * 1000:,.0f} ms, {median / arguments.step_seconds:.1%} of a step of"
            f" {arguments.step_seconds:g} s"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
