"""A run that grows under `pods inspect` for thousands of polls, and what has grown with them.

    python -m support.soak_inspector         # in tests/, or nox -s soak: 2,000 polls, some minutes

The run writes a step between two polls, and its log holds the last 100 of them, as
`rollout_log_max_rows` asks. Each poll is what the app does every two seconds, and what an open page
asks for. The exit status is 1 where something grew, or where a poll takes longer than one before.
"""

import math
import sys
import time
from pathlib import Path
from typing import Any

from podsrl.inspector.app import InspectorServer
from podsrl.inspector.index import Index
from podsrl.inspector.sources import Options, find_sources
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.rollout_log.writer import RolloutLog
from support.growth import containers, grown, memory_now, objects, of_process, soak_command
from support.inspected import answer
from support.synthetic_rollouts import rollouts

_LINES = 8
#: Steps that the log of the run holds at most, and the prompts of each.
_HELD = 100
_PROMPTS, _ROLLOUTS = 16, 4
#: By so much may a poll take longer in the last eighth of the soak than in the third, in processor
#: time, which others on the machine hardly change.
_SLOWER = 1.5
#: By so much may memory be above that after a quarter of the soak, in MB.
_MORE_MB = 30
#: DuckDB writes down what changes, and empties that file once it has 16 MB.
_MOST_BYTES = 24 << 20
#: The curve of a run has a number for each step, and is meant to.
_OF_CURVE = ".metrics["
#: A log that is full leaves half of its steps out each time that the run has doubled. Their empty
#: folders stay until the run's end, as another process may be writing into them.
_OF_FOLDERS = "._listings"


class Training:
    """A run that writes a step whenever it is asked to."""

    def __init__(self, folder: Path) -> None:
        self.run = RunFolder(folder)
        self.run.write_config({"arm": "pods", "seed": 0})
        self._columns = rollouts(groups=_PROMPTS, n=_ROLLOUTS)
        self._rows = len(self._columns["group"])
        self._log = RolloutLog(self.run, max_rows=_HELD * self._rows)

    def take(self, step: int) -> None:
        """Write a step."""
        self._log.write(step, lambda: self._columns, groups=_PROMPTS, rollouts=self._rows)
        self._log.flush()
        metrics = {"step": step, "reward": 0.5, "pods/training_seconds": float(step)}
        self.run.append_metrics(metrics)

    def close(self) -> None:
        """End the log's thread."""
        self._log.close()


def poll(index: Index, server: InspectorServer, step: int) -> float:
    """Look for new steps, and ask what a page of this step asks; the processor seconds of it."""
    began = time.process_time()
    index.refresh()
    for path in ("/api/state", "/api/curves", f"/api/step?step={step}"):
        status, _, body = answer(server, path)
        if status != 200:
            raise AssertionError(f"{path}: {body!r}")
    return time.process_time() - began


def counts(index: Index) -> dict[str, Any]:
    """What could grow with the polls."""
    [connections] = index.rows("SELECT count FROM duckdb_connection_count()")
    [rows] = index.rows("SELECT count(*) AS there FROM rollouts")
    files = list(index._folder.iterdir())
    return {
        **of_process(),
        "DuckDB connections": connections["count"],
        "indexed rollouts": rows["there"],
        "files of the index": len(files),
        "bytes of the index": sum(file.stat().st_size for file in files),
        "memory MB": memory_now(),
    }


def soak(polls: int, folder: Path) -> list[str]:
    """Poll a run that grows, print a line for each part of the soak, and tell what grew."""
    training = Training(folder / "run")
    training.take(1)
    index = Index(lambda: find_sources([folder], Options()))
    server = InspectorServer(index)
    server.start()

    every = max(1, polls // _LINES)
    found: dict[int, dict[str, Any]] = {}
    whole: dict[int, Any] = {}
    seconds = 0.0
    try:
        for step in range(2, polls + 2):
            training.take(step)
            newest = max(training.run.rollout_steps())  # a full log leaves steps out
            seconds += poll(index, server, newest)
            done = step - 1
            if done % every == 0:
                found[done] = {"ms of a poll": 1000 * seconds / every, **counts(index)}
                whole[done] = (containers(index, "index"), objects())
                seconds = 0.0
                if done == every:
                    print("\t".join(["polls", *found[done]]))
                line = (f"{value:.1f}" for value in found[done].values())
                print("\t".join([str(done), *line]), flush=True)
    finally:
        server.close()
        training.close()
    return _grown(found, whole)


def _grown(found: dict[int, dict[str, Any]], whole: dict[int, Any]) -> list[str]:
    """What is more at the end than after a quarter of the soak, when the log has been full."""
    at = list(found)
    early, late = found[at[_LINES // 4 - 1]], found[at[-1]]
    more = grown(early, late)
    measured = {name: more.pop(name, (0, 0)) for name in ("ms of a poll", "memory MB")}
    for name in ("bytes of the index", "indexed rollouts"):  # each has a bound of its own
        more.pop(name, None)

    problems = [f"{name}: {first} -> {last}" for name, (first, last) in more.items()]
    third = found[at[2]]["ms of a poll"]
    if late["ms of a poll"] > _SLOWER * third:
        problems.append(f"ms of a poll: {third:.1f} -> {late['ms of a poll']:.1f}")
    if measured["memory MB"][1] - measured["memory MB"][0] > _MORE_MB:
        problems.append(f"memory MB: {measured['memory MB']}")
    if late["indexed rollouts"] > _HELD * _PROMPTS * _ROLLOUTS:
        problems.append(f"indexed rollouts: {late['indexed rollouts']}")
    if late["bytes of the index"] > _MOST_BYTES:
        problems.append(f"bytes of the index: {late['bytes of the index']}")

    (held_early, types_early), (held_late, types_late) = whole[at[_LINES // 4 - 1]], whole[at[-1]]
    # Of a step's files the names change, and how many there are does not.
    held = {name: (first, last) for name, (first, last) in grown(held_early, held_late).items()}
    problems += [
        f"{name}: {first} -> {last}"
        for name, (first, last) in held.items()
        if _OF_CURVE not in name and "step_" not in name and not name.endswith(_OF_FOLDERS)
    ]
    listed = max(
        (last for name, (_, last) in held.items() if name.endswith(_OF_FOLDERS)), default=0
    )
    if listed > _HELD * (1 + math.log2(max(2, at[-1] / _HELD))):
        problems.append(f"listings of folders: {listed}")
    polls = at[-1] - at[_LINES // 4 - 1]
    problems += [
        f"objects of {name}: {first} -> {last}"
        for name, (first, last) in grown(types_early, types_late).items()
        if last - first > 20 + polls // 10
    ]
    return problems


if __name__ == "__main__":
    sys.exit(soak_command(__doc__, soak, "polls", 2_000))
