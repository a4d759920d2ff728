"""The raw results: one JSON for each attempt at a run that ended, and a ledger of all that began.

An attempt that was killed leaves its line in the ledger and no JSON: it is listed as stopped, and
the run is made again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from benchmarks.comparison.protocol import TUNING, PlannedRun, Protocol
from benchmarks.folders import RESULTS
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.files import read_json, write_whole

FOLDER = RESULTS / "comparison"
#: How often a run is tried that fails with an error of its own.
MOST_FAILURES = 2
#: The state of an attempt whose settings are no longer the protocol's.
EARLIER = "of an earlier protocol"


@dataclass(frozen=True)
class Attempt:
    """An attempt at a run.

    Args:
        run: The name of the run.
        number: 1 for the first attempt at it, and so on.
        started: When it began, in UTC, as ISO 8601.
        machine: The processor that it ran on.
        commit: Of the code.
        protocol: The SHA-256 of the protocol's file when it began.
        state: "ended", "failed" (with an error of its own), "stopped" (from outside; or it is at
            work), or "of an earlier protocol", which gave this run other settings.
        result: The content of its JSON; None where it was stopped.
    """

    run: str
    number: int
    started: str
    machine: str
    commit: str
    protocol: str
    state: str
    result: Mapping[str, Any] | None = None


class Records:
    """The raw results in a folder.

    Args:
        protocol: What names the runs.
        folder: It holds ledger.jsonl and raw/.
    """

    def __init__(self, protocol: Protocol, folder: Path = FOLDER) -> None:
        self.protocol = protocol
        self.folder = folder
        self.ledger = folder / "ledger.jsonl"

    def begin(self, run: PlannedRun, *, started: str, machine: str, commit: str) -> int:
        """Write a line into the ledger, before anything of the run is done.

        Returns:
            The number of the attempt.

        Raises:
            UnknownNameError: The protocol does not name the run.
        """
        self.protocol.named(run.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / ".ledger.lock"):
            number = 1 + sum(line["run"] == run.name for line in self._lines())
            line = {
                "run": run.name,
                "attempt": number,
                "started": started,
                "machine": machine,
                "commit": commit,
                "protocol": self.protocol.digest,
            }
            before = self.ledger.read_bytes() if self.ledger.is_file() else b""
            write_whole(self.ledger, before + json.dumps(line).encode() + b"\n")
        return number

    def end(self, run: PlannedRun, number: int, result: Mapping[str, Any]) -> Path:
        """Write the JSON of an attempt that ended or failed, as a whole."""
        file = self._file(run.name, number)
        write_whole(file, _as_text(result).encode())
        return file

    def attempts(self) -> list[Attempt]:
        """All attempts, in the order in which they began.

        Raises:
            UnknownNameError: The protocol does not name a run of which there is a line.
            InvalidInputError: There is a JSON of an attempt that the ledger does not list, or one
                whose settings are not those of the protocol that it was begun by.
        """
        # An attempt writes its line before its JSON. Listed in the other order, a file may be of an
        # attempt that another process began and ended between the two looks.
        there = sorted((self.folder / "raw").glob("*.json"))
        found = []
        files = set()
        for line in self._lines():
            self.protocol.named(line["run"])
            file = self._file(line["run"], line["attempt"])
            files.add(file)
            result = read_json(file)
            state = "stopped" if result is None else str(result["state"])
            if result is not None and (other := self._other_settings(line["run"], result)):
                if line["protocol"] == self.protocol.digest:
                    raise InvalidInputError(
                        f"{file} was made with other settings than the protocol's, so it is not"
                        f" reported: {', '.join(other)}"
                    )
                state = EARLIER
            found.append(
                Attempt(
                    run=line["run"],
                    number=line["attempt"],
                    started=line["started"],
                    machine=line["machine"],
                    commit=line["commit"],
                    protocol=line["protocol"],
                    state=state,
                    result=result,
                )
            )
        for file in there:
            if file not in files:
                raise InvalidInputError(
                    f"{file} is of no attempt in {self.ledger}, so it is not reported: restore the"
                    " ledger, or take the file away"
                )
        return found

    def _other_settings(self, name: str, result: Mapping[str, Any]) -> list[str]:
        """What a run that ended was made with otherwise than the protocol says now."""
        if result["state"] != "ended":
            return []
        run = self.protocol.named(name)
        planned = self.protocol.settings_of(run, result["rate"])
        planned |= {"schedule": self.protocol.schedule_of(run.stage, run.set, run.arm)}
        made = {**result["settings"], "schedule": result["schedule"]}
        names = sorted({*planned, *made})
        other = [key for key in names if planned.get(key) != made.get(key)]

        if run.rate not in (None, result["rate"]):
            other.append("learning_rate")
        if result["seconds"] != planned["max_training_seconds"]:
            other.append("max_training_seconds")
        return other

    def _lines(self) -> list[dict[str, Any]]:
        if not self.ledger.is_file():
            return []
        text = self.ledger.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line]

    def _file(self, run: str, number: int) -> Path:
        return self.folder / "raw" / f"{run}_{number}.json"


class Reported:
    """What counts of the attempts, as the protocol says.

    The runs of a block count from one kind of machine alone, the first on which all of them ended.
    Nothing else leaves out a run that ended.
    """

    def __init__(self, protocol: Protocol, attempts: list[Attempt]) -> None:
        self.protocol = protocol
        self.attempts = attempts
        #: The first attempt that ended of each run on each machine, with its place among all.
        self._ended: dict[tuple[str, str], tuple[int, Attempt]] = {}
        self._failures: dict[str, int] = {}
        for place, attempt in enumerate(attempts):
            if attempt.state == "ended":
                self._ended.setdefault((attempt.run, attempt.machine), (place, attempt))
            elif attempt.state == "failed":
                self._failures[attempt.run] = self._failures.get(attempt.run, 0) + 1

        self._blocks: dict[tuple[str, ...], list[PlannedRun]] = {}
        for run in (*protocol.runs, *protocol.gpu_runs):
            self._blocks.setdefault(run.block, []).append(run)
        self._machines = {block: self._first_complete_on(block) for block in self._blocks}

    def has_given_up(self, run: PlannedRun) -> bool:
        """Whether a run failed so often with an error of its own that it is not tried again."""
        return self._failures.get(run.name, 0) >= MOST_FAILURES

    def machine_of(self, block: tuple[str, ...]) -> str | None:
        """The kind of machine that a block counts from; None while it is not complete on any."""
        return self._machines[block]

    def _first_complete_on(self, block: tuple[str, ...]) -> str | None:
        wanted = [run for run in self._blocks[block] if not self.has_given_up(run)]
        complete_at: dict[str, int] = {}
        for machine in dict.fromkeys(attempt.machine for attempt in self.attempts):
            ended = [self._ended.get((run.name, machine)) for run in wanted]
            places = [found[0] for found in ended if found is not None]
            if places and len(places) == len(wanted):
                complete_at[machine] = max(places)
        return min(complete_at, key=lambda machine: complete_at[machine], default=None)

    def missing(self, machine: str, stages: Sequence[str]) -> list[PlannedRun]:
        """The runs of some stages that are still to be made, if this is the machine, in order."""
        missing = []
        for block, runs in self._blocks.items():
            if runs[0].stage not in stages or self.machine_of(block) is not None:
                continue
            for run in runs:
                if not self.has_given_up(run) and (run.name, machine) not in self._ended:
                    missing.append(run)
        return missing

    def result(self, run: PlannedRun) -> Mapping[str, Any] | None:
        """What counts of a run: None while its block is not complete, or if the run failed."""
        machine = self.machine_of(run.block)
        if machine is None:
            return None
        found = self._ended.get((run.name, machine))
        return found[1].result if found else None

    def number_that_count(self) -> int:
        """How many of the protocol's runs count already."""
        return sum(self.result(run) is not None for run in self.protocol.runs)

    def tuned(self, set_name: str, arm: str) -> list[Mapping[str, Any]]:
        """The tuning runs of an arm at the rate that was chosen; none while there is no choice."""
        rate = self.chosen_rate(set_name, arm)
        if rate is None:
            return []
        results = [
            self.result(PlannedRun(TUNING, set_name, arm, seed, rate))
            for seed in self.protocol.stage(TUNING)["seeds"]
        ]
        return [result for result in results if result is not None]

    def check_rates(self) -> None:
        """Refuse runs at another rate than the one that tuning chose.

        Raises:
            InvalidInputError: There is one.
        """
        for attempt in self.attempts:
            run = self.protocol.named(attempt.run)
            if run.rate is not None or attempt.state != "ended" or attempt.result is None:
                continue
            chosen = self.rate_of(run)
            if attempt.result["rate"] != chosen:
                raise InvalidInputError(
                    f"{run.name} was made at the rate {attempt.result['rate']}, and tuning chose"
                    f" {chosen}: it is not reported"
                )

    def rate_of(self, run: PlannedRun) -> float | None:
        """The rate that a run is made at; None while tuning has not chosen it."""
        by = self.protocol.tuned_by(run.stage, run.arm)
        return run.rate or self.chosen_rate(run.set, run.arm, by)

    def chosen_rate(self, set_name: str, arm: str, by: str = TUNING) -> float | None:
        """The rate that a stage chose: the highest mean over the run, averaged over its seeds.

        Of equal ones it is the lower rate. None while a run of it is missing; a rate of which a run
        failed is not chosen.
        """
        stage = self.protocol.stage(by)
        best: tuple[float, float] | None = None
        for rate in sorted(stage["rates"]):
            values = []
            for seed in stage["seeds"]:
                run = PlannedRun(by, set_name, arm, seed, rate)
                result = self.result(run)
                if result is None and self.has_given_up(run):
                    break
                if result is None:
                    return None
                values.append(float(result["mean_over_run"]))
            else:
                mean = sum(values) / len(values)
                if best is None or mean > best[0]:
                    best = (mean, rate)
        return best[1] if best else None


def _as_text(result: Mapping[str, Any]) -> str:
    """JSON with one line for each entry, and one for each measurement: small, and readable."""
    lines = []
    for name, value in result.items():
        if name == "measured":
            points = ",\n  ".join(json.dumps(point, allow_nan=False) for point in value)
            lines.append(f' "measured": [\n  {points}\n ]')
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
