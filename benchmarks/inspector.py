"""The time in which `pods inspect` opens and filters a large run, and the memory it takes.

    python -m benchmarks.inspector --gigabytes 1     # a minute; 10 takes about ten

It writes a run of that size to a temporary folder, starts the real command, and asks it over HTTP
as the page does. The text is of random words, which compress to about a third, as solutions do.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.resources import memory_of
from podsrl.rollout_log.run_folder import RunFolder

PROMPTS, N, KEPT = 32, 32, 8  # 1,024 rollouts of a step
WORDS = 2_500  # of a completion, about 14 kB

FILTERS: Mapping[str, Mapping[str, str]] = {
    "dropped, reward of 1": {"kept": "0", "reward_min": "1"},
    "cut off": {"cut_off": "1"},
    "one reward function, long": {"function": "form", "part_min": "0.9", "tokens_min": "3000"},
    "a rare reward": {"reward_min": "0.4", "reward_max": "0.6"},
    "a word, newest steps": {"text": "needle"},
    "a pattern, newest steps": {"pattern": "need(le)+s?\\b"},
}


def completions(random: np.random.Generator, vocabulary: np.ndarray) -> list[str]:
    """The texts of a step."""
    words = vocabulary[random.integers(len(vocabulary), size=(PROMPTS * N, WORDS))]
    return [" ".join(row) for row in words.tolist()]


def columns_of_step(step: int, texts: list[str], random: np.random.Generator) -> dict[str, Any]:
    """The rollouts of a step; of its rewards few are neither 0 nor 1."""
    rewards = (random.random((PROMPTS, N)) < random.random((PROMPTS, 1))).astype(float)
    if step % 50 == 0:
        rewards[0, 0] = 0.5

    # Kept are as many of the lowest rewards of a group as of the highest.
    kept = np.zeros((PROMPTS, N), dtype=bool)
    for group in range(PROMPTS):
        order = np.argsort(rewards[group])
        kept[group, order[: KEPT // 2]] = True
        kept[group, order[-(KEPT - KEPT // 2) :]] = True
    advantages = np.where(kept, rewards - rewards.mean(axis=1, keepdims=True), np.nan)

    groups = np.repeat(np.arange(PROMPTS), N).tolist()
    return {
        "group": groups,
        "rollout": np.tile(np.arange(N), PROMPTS).tolist(),
        "prompt": [f"Problem {step * 7 % 400} of part {group}" for group in groups],
        "completion": [f"Step {step}. {text}" for text in texts],
        "reward": rewards.ravel().tolist(),
        "kept": kept.ravel().tolist(),
        "advantage": advantages.ravel().tolist(),
        "tokens": random.integers(500, 4097, size=PROMPTS * N).tolist(),
        "rewards/right": rewards.ravel().tolist(),
        "rewards/form": random.random(PROMPTS * N).tolist(),
    }


def write_run(folder: Path, gigabytes: float) -> int:
    """Write steps until the run has this size; how many there are."""
    random = np.random.default_rng(0)
    letters = random.choice(list("etaoinshrdlucmfw"), size=(3000, 6))
    vocabulary = np.array(["".join(row[: 2 + place % 5]) for place, row in enumerate(letters)])
    texts = [completions(random, vocabulary) for _ in range(4)]

    run = RunFolder(folder)
    run.write_config(
        {"arm": "pods", "seed": 0, "max_completion_length": 4096, "max_steps": 1_000_000}
    )
    size = 0
    step = 0
    while size < gigabytes * 1e9:
        step += 1
        run.write_rollouts(step, columns_of_step(step, texts[step % len(texts)], random))
        size += sum(path.stat().st_size for path in run.rollout_parts(step))
        seconds = {f"pods/seconds_{phase}": 1.0 for phase in ("generate", "score", "update")}
        metrics = {"step": step, "reward": 0.5, "pods/training_seconds": 3.0 * step, **seconds}
        run.append_metrics(metrics)
    return step


@dataclass
class Client:
    """The server, asked as its page asks it."""

    address: str
    token: str
    process: int

    def ask(self, name: str, **words: str) -> tuple[Any, float]:
        """The answer and the seconds that it took."""
        url = f"{self.address}api/{name}?{urllib.parse.urlencode(words)}"
        request = urllib.request.Request(url, headers={"x-token": self.token})
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=600) as answer:
            value = json.load(answer)
        return value, time.perf_counter() - began

    def memory(self, kind: str) -> float:
        """Megabytes of the server: "VmRSS" now, "VmHWM" at most so far."""
        return memory_of(self.process, kind) / 1e6


@contextmanager
def served(folder: Path) -> Iterator[tuple[Client, float]]:
    """The command, and the seconds until it printed its address."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "podsrl.cli", "inspect", str(folder), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        base, _, token = address.partition("?token=")
        if not token:
            raise SystemExit(f"pods inspect {folder} gave no address; what it says stands above")
        yield Client(base, token, process.pid), time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(timeout=60)


#: What is asked in a terminal; each starts a process of its own, whose start is in its time.
QUESTIONS: Mapping[str, Sequence[str]] = {
    "an overview": ["--text"],
    "the worst rollouts of the newest step": ["--worst", "5"],
    "a prompt of a step": ["--step", "2", "--prompt", "3"],
    "the newest rollouts with a word that each has": ["--search", "step"],
}


def measure(folder: Path) -> Iterator[tuple[str, float, str]]:
    """The measures, with their values and units."""
    for what, words in QUESTIONS.items():
        began = time.perf_counter()
        command = [sys.executable, "-m", "podsrl.cli", "inspect", str(folder), *words]
        subprocess.run(command, check=True, capture_output=True)
        yield f"in a terminal: {what}", time.perf_counter() - began, "s"

    with served(folder) as (client, started):
        yield "command until its address is printed", started, "s"

        first = 0.0
        _, seconds = client.ask("state")
        first += seconds
        _, seconds = client.ask("curves", run=folder.name)
        first += seconds
        _, seconds = client.ask("featured")
        first += seconds
        _, seconds = client.ask("histogram", run=folder.name)
        first += seconds
        yield "first page: its four answers, the index still empty", first, "s"

        began = time.perf_counter()
        while True:
            state, _ = client.ask("state")
            run = state["runs"][0]
            if run["files"] and run["files_read"] == run["files"]:
                break
            time.sleep(0.2)
        yield "index of all steps, in the background", time.perf_counter() - began, "s"

        _, again = client.ask("curves", run=folder.name)
        yield "all curves, once the index is whole", again, "s"
        _, seconds = client.ask("histogram", run=folder.name)
        yield "the histogram of all rewards", seconds, "s"

        step = str(run["last_step"] // 2)
        _, seconds = client.ask("step", run=folder.name, step=step)
        yield "a step", seconds, "s"
        _, seconds = client.ask("group", run=folder.name, step=step, group="3")
        yield "a prompt with its rollouts", seconds, "s"
        for what, filters in FILTERS.items():
            found, seconds = client.ask("search", **filters)
            read = f", {found['read']['left']:,} steps left" if found["read"] else ""
            total = "" if found["total"] is None else f", {found['total']:,} found"
            yield f"filter: {what}{total}{read}", seconds, "s"
        yield "memory of the server", client.memory("VmRSS"), "MB"
        yield "memory at most", client.memory("VmHWM"), "MB"


def main() -> None:
    """Make the run, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    parser.add_argument("--run", type=Path, help="measure this run, which is there, in its place")
    args = parser.parse_args()

    if args.run:
        print_measures(args.run)
        return

    with tempfile.TemporaryDirectory(dir=args.folder) as parent:
        folder = Path(parent, "run")
        steps = write_run(folder, args.gigabytes)
        print(f"{args.gigabytes:g} GB, {steps:,} steps, {steps * PROMPTS * N:,} rollouts")
        print_measures(folder)


def print_measures(run: Path) -> None:
    """A line for each thing that is measured."""
    for what, value, unit in measure(run):
        print(f"{value:9.2f} {unit:3} {what}", flush=True)


if __name__ == "__main__":
    main()
