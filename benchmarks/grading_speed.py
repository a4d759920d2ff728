"""Seconds that grading 512 rollouts takes, for every grader, and its share of a training step.

    python benchmarks/grading_speed.py
    python benchmarks/grading_speed.py --only code --run runs/demo

Three shares are printed. *modelled*: of a step of the paper's setting, whose times are
those of `pods report --clock generate=0.05,update=0.42` (about what the authors' L40S had): 8
prompts x 64 generated and 8 x 16 updated are 79.4 s. *given*: of a step of --step-seconds. And,
with --run, *measured*: what the steps of a finished run waited for grading, by its own clock.

Each prompt's rollouts answer in a few different ways, as those of a model do, but "code, all
different" has no two equal programs. The first batch starts the grading processes and is told
apart; the median is of the others, each with new answers.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

GENERATE, UPDATE, ROLLOUTS, KEPT = 0.05, 0.42, 64, 16  # seconds per rollout; n and m of the paper
GOLD = {
    "gsm8k": [str(k) for k in range(7, 900, 41)],
    # One in six gold answers of MATH-500 is neither a number nor a word: as here.
    "math": [
        *("9", "42", "2220", r"\frac{14}{3}", r"\text{Evelyn}", "284", "5", "28", "13535", "-50"),
        *(r"90^\circ", "0.15", "1.25", "720", "144", r"\frac{3}{56}", r"\frac{243}{625}", "12"),
        *("83", "203", r"3\sqrt{13}", "p - q", r"\left( 3, \frac{\pi}{2} \right)", "6 - 5i"),
    ],
}
PROGRAM = '''\
def window_sums(values, size):
    """Sums of every window ({note})."""
    if size < 1:
        raise ValueError("size must be positive")
    found = []
    for start in range(len(values) - size + 1):
        total = {offset}
        for value in values[start : start + size]:
            total += value
        found.append(total)
    return found
'''
Batch = tuple[list[str], list[Any]]


def answers(gold: str, r: random.Random) -> list[str]:
    """The different answers of one prompt's rollouts: some right, some near."""
    other = gold.replace("3", "7").replace("5", "1")
    made = [gold, f"${gold}$", rf"\boxed{{{gold}}}", other, f"{gold}+1", f"-{gold}", f"2 {gold}"]
    return [*made, str(r.randint(-99, 99)), rf"\sqrt{{{r.randint(2, 99)}}}", "I do not know", "x"]


def answered(answer: str) -> str:
    """A completion in the asked form."""
    return f"<think>{'so ' * 100}</think>\n<answer>{answer}</answer>"


def text_batch(golds: list[str], prompts: int, r: random.Random) -> Batch:
    """Completions and their rows."""
    texts, rows = [], []
    for gold in r.choices(golds, k=prompts):
        options = answers(gold, r)
        texts += [answered(r.choice(options)) for _ in range(ROLLOUTS)]
        rows += [{"answer": gold} for _ in range(ROLLOUTS)]
    return texts, rows


def math_batch(prompts: int, r: random.Random) -> Batch:
    """The first answer needs sympy, so that the first batch starts the processes."""
    texts, rows = text_batch(GOLD["math"], prompts, r)
    texts[0], rows[0] = r"\boxed{\sqrt{8}}", {"answer": r"2\sqrt{2}"}
    return texts, rows


def chemistry_batch(prompts: int, r: random.Random) -> Batch:
    """Balanced and unbalanced equations."""
    texts, rows = [], []
    for _ in range(prompts * ROLLOUTS):
        k, other = r.randint(1, 3), r.randint(1, 3)
        texts.append(answered(f"{2 * k}H2 + {k}O2 = {2 * other}H2O"))
        rows.append({"answer": "2H2 + O2 = 2H2O", "choices": []})
    return texts, rows


def code_batch(prompts: int, r: random.Random, different: bool) -> Batch:
    """Half of the programs are wrong; no two are equal.

    Unless `different`: then one in four repeats another of its prompt, half of these with another
    comment, and one in 64 is cut off.
    """
    texts, rows = [], []
    for _ in range(prompts):
        right = r.randint(1, 10**9)
        row = {"tests": f"assert window_sums([1, 2, 3], 2) == [{3 + right}, {5 + right}]"}
        made: list[str] = []
        for _ in range(ROLLOUTS):
            program = PROGRAM.format(note=r.random(), offset=right + r.randint(0, 1))
            if not different and made and r.random() < 0.25:
                program = r.choice(made) + r.choice(["", "# done\n"])
            if not different and not made:
                program = program[: len(program) // 2]
            made.append(program)
            texts.append(answered(f"\n```python\n{program}```\n"))
            rows.append({**row, "setup": ""})
    return texts, rows


def task_batch(task: Any, prompts: int, r: random.Random) -> Batch:
    """A task's own right and wrong completion, for tasks that make up their rows."""
    golds = task.load("train")[: 8 * prompts]
    rows = [row for row in r.sample(golds, prompts) for _ in range(ROLLOUTS)]
    wrong = [answered(str(r.randint(-99, 99))) for _ in rows]
    return [
        r.choice([task.gold_completion(row), w]) for row, w in zip(rows, wrong, strict=True)
    ], rows


def benches() -> dict[str, tuple[str, Callable[..., Batch]]]:
    """name -> (task, batch of (task, prompts, random))."""
    return {
        "arithmetic": ("arithmetic", task_batch),
        "gsm8k": ("gsm8k", lambda _, p, r: text_batch(GOLD["gsm8k"], p, r)),
        "math": ("math", lambda _, p, r: math_batch(p, r)),
        "sciknoweval": ("sciknoweval", lambda _, p, r: chemistry_batch(p, r)),
        "reasoning_gym:chain_sum": ("reasoning_gym:chain_sum", task_batch),
        "code": ("code", lambda _, p, r: code_batch(p, r, different=False)),
        "code, all different": ("code", lambda _, p, r: code_batch(p, r, different=True)),
    }


def measured_share(folder: str) -> str:
    """What grading took of a run's steps, from its metrics; the first step starts processes."""
    from podsrl.rollout_log.run_folder import RunFolder

    phases = ("generate", "score", "select", "update")
    steps = [
        [row[f"pods/seconds_{phase}"] for phase in phases]
        for row in RunFolder(folder).metrics()
        if "pods/seconds_score" in row
    ][1:]
    score, total = statistics.median(s[1] for s in steps), statistics.median(map(sum, steps))
    return (
        f"measured: {len(steps)} steps of {folder}: scoring {score * 1000:.1f} ms of"
        f" {total * 1000:,.0f} ms, {score / total:.2%} of a step"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=8, help="of 64 rollouts each")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--only", default="", help="only the graders whose name begins so")
    parser.add_argument("--step-seconds", type=float, help="of your step, without grading")
    parser.add_argument("--run", help="a run's folder, whose measured share is printed, too")
    arguments = parser.parse_args()
    from podsrl.errors import PodsError
    from podslab.tasks import get_task

    modelled = arguments.prompts * (ROLLOUTS * GENERATE + KEPT * UPDATE)
    for name, (task_name, make) in benches().items():
        if not name.startswith(arguments.only):
            continue
        try:
            task = get_task(task_name)
        except PodsError as error:
            print(f"{name:23} not measured: {error}")
            continue
        r, seconds = random.Random(0), []
        for _ in range(arguments.batches + 1):
            texts, rows = make(task, arguments.prompts, r)
            started = time.perf_counter()
            task.grade_batch(texts, rows)
            seconds.append(time.perf_counter() - started)
        median = statistics.median(seconds[1:])
        shares = [
            f"{median / (modelled + median):.2%} of the paper's step (modelled, {modelled:.1f} s)"
        ]
        if arguments.step_seconds:
            given = arguments.step_seconds
            shares.append(f"{median / (given + median):.2%} of a step of {given:g} s (given)")
        print(
            f"{name:23} {len(texts)} answers: {median:.3f} s (first batch {seconds[0]:.2f} s), "
            + ", ".join(shares),
            flush=True,
        )
    if arguments.run:
        print(measured_share(arguments.run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
