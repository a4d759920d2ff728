"""Many runs of one `pods compare`, and what has grown with them in the process that starts them.

    python -m support.soak_compare          # in tests/, or nox -s soak: 24 runs, some minutes
    python -m support.soak_compare 100

The command is started as a user starts it, with a config of tiny runs, and looked at from outside:
its open files, threads, memory and child processes, and what is in its folder and in the one for
temporary files. The exit status is 1 where something grew with the number of runs. What it holds
once all runs have ended, while the answer is computed, has a line of its own.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from podslab.models import resolve
from podsrl.rollout_log.run_folder import find_runs
from support.growth import grown, memory_now, soak_command
from support.tiny_run import TINY_RUN

ARMS = ("grpo", "pods")
_LINES = 4
_LOOK_EVERY = 0.2
#: By so much may the memory of the second half of the runs be above that of the first, in MB.
_MORE_MB = 10


def config_of(runs: int, folder: Path) -> dict[str, Any]:
    """A comparison of so many runs of one step."""
    settings = {name: value for name, value in TINY_RUN.items() if name != "max_steps"}
    return {
        "settings": {**settings, "model_name_or_path": str(resolve("tiny")), "save_strategy": "no"},
        "arms": {arm: {} for arm in ARMS},
        "seeds": -(-runs // len(ARMS)),
        "budget": {"steps": 1},
        "evaluations": 1,
        "output_dir": str(folder),
    }


class Watched:
    """The process of a `pods compare`, seen from outside.

    Args:
        config: The file of the comparison.
        temporary: The folder for its temporary files.
    """

    def __init__(self, config: Path, temporary: Path) -> None:
        command = [sys.executable, "-m", "podsrl.cli", "compare", "--config", str(config)]
        environment = {**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.temporary = temporary
        self._folder = Path(f"/proc/{self.process.pid}")

    def counts(self) -> dict[str, int]:
        """What it holds now; nothing once it has ended."""
        try:
            children = (self._folder / "task" / self._folder.name / "children").read_text().split()
            return {
                "open files": len(list((self._folder / "fd").iterdir())),
                "threads": len(list((self._folder / "task").iterdir())),
                "child processes": len(children),
                "temporary files": len(list(self.temporary.iterdir())),
                "memory MB": memory_now(self.process.pid),
            }
        except (OSError, ValueError):
            return {}


def finished(folder: Path) -> int:
    """How many runs are finished."""
    return len(list(folder.rglob("finished.json")))


def soak(runs: int, folder: Path) -> list[str]:
    """Compare, print the most that was seen in each part of the runs, and tell what grew."""
    out = folder / "runs"
    temporary = folder / "tmp"
    temporary.mkdir()
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(config_of(runs, out)))

    # The last one is of the answer, which needs memory of its own, however many runs there were.
    parts: list[dict[str, int]] = [{} for _ in range(_LINES + 1)]
    watched = Watched(config, temporary)
    while watched.process.poll() is None:
        # One run is being trained while the others wait.
        part = _LINES * finished(out) // runs
        for name, count in watched.counts().items():
            parts[part][name] = max(parts[part].get(name, 0), count)
        time.sleep(_LOOK_EVERY)
    if watched.process.returncode:
        assert watched.process.stderr is not None
        raise AssertionError(watched.process.stderr.read()[-4_000:])

    print("\t".join(["runs", *parts[0]]))
    upto = [str((part + 1) * runs // _LINES) for part in range(_LINES)]
    for name, seen in zip([*upto, "answer"], parts, strict=True):
        print("\t".join(map(str, [name, *seen.values()])))

    more = _more(parts[:_LINES])
    problems = [f"{name}: {first} -> {last}" for name, (first, last) in more.items()]
    problems += _more_files(out, runs)
    problems += [f"left in the folder for temporary files: {left}" for left in temporary.iterdir()]
    return problems + _of_second_time(config, temporary, out)


def _more(parts: list[dict[str, int]]) -> dict[str, tuple[int, int]]:
    """What was more in the second half than in the first."""
    halves = []
    for half in (parts[: _LINES // 2], parts[_LINES // 2 :]):
        names = dict.fromkeys(name for seen in half for name in seen)
        halves.append({name: max(seen.get(name, 0) for seen in half) for name in names})
    more = grown(*halves)
    first, last = more.get("memory MB", (0, 0))
    if last - first <= _MORE_MB:
        more.pop("memory MB", None)
    return more


def _more_files(out: Path, runs: int) -> list[str]:
    """The first run and the last one of an arm leave as much, and the comparison nothing more."""
    found = sorted(run.path for run in find_runs(out))
    names = [
        {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()} for run in found
    ]
    print(f"files of a run: {min(map(len, names))} to {max(map(len, names))}")
    problems = [] if len(found) == runs else [f"{len(found)} of {runs} runs were found"]
    problems += [
        f"files of a run: {sorted(mine ^ names[0])}" for mine in names if len(mine) != len(names[0])
    ]
    beside = [path for path in out.rglob("*") if path.is_file()]
    others = [path for path in beside if not any(path.is_relative_to(run) for run in found)]
    print(f"files beside the runs: {len(others)} ({others and others[0].relative_to(out)}, ...)")
    return problems


def _of_second_time(config: Path, temporary: Path, out: Path) -> list[str]:
    """The same command again finds all finished, and leaves everything as it is."""
    before = {path: path.stat().st_mtime_ns for path in out.rglob("run*") if path.is_file()}
    began = time.perf_counter()
    again = Watched(config, temporary)
    again.process.communicate()
    print(f"the same command again: {time.perf_counter() - began:.1f} s")
    changed = [str(path) for path in before if path.stat().st_mtime_ns != before[path]]
    problems = [f"changed by the same command again: {path}" for path in changed]
    if again.process.returncode:
        problems.append(f"the same command again ended with {again.process.returncode}")
    return problems


if __name__ == "__main__":
    sys.exit(soak_command(__doc__, soak, "runs", 24))
