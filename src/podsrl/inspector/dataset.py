"""The numbers of all rollouts in an index; their texts stay in the files of the runs.

Texts make nearly all of a run's size. So the index, a DuckDB file in a temporary folder, holds of
each rollout its numbers and a hash of its prompt, about 50 bytes. A thread fills it while pages are
already shown: the newest step first, then evenly spaced ones, so that curves are whole from the
start and get finer. Texts are read from the files of one step when a page shows it.
"""

import logging
import math
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from podsrl.errors import InvalidInputError, PodsError
from podsrl.inspector.conversion import as_rollouts
from podsrl.inspector.sources import ForeignSource, RolloutFile, Source
from podsrl.rollout_log.files import plain
from podsrl.rollout_log.run_folder import REWARD_PREFIX, ROLLOUT_COLUMNS

_Any = TypeVar("_Any")

logger = logging.getLogger("podsrl.inspector")

_MEMORY = "100MB"  # of DuckDB; the rest of the process has about as much
_FILES_AT_ONCE = 32
_FILES_AT_FIRST = 4  # until the first page can be shown
_BURST = 0.3  # seconds between the requests of one page, at most
_PATIENCE = 1.0  # seconds that the index waits for readers
_CHARACTERS = 20_000  # of a completion that a page gets; the rest when it is asked for
_ELSEWHERE = 200  # other places of the same prompt that a page gets
_LOOK_AGAIN = 2.0  # seconds between two looks for new steps

_TABLES = """
CREATE TABLE rollouts (
    run USMALLINT, file UINTEGER, step INTEGER, grp INTEGER, rollout INTEGER,
    reward DOUBLE, kept BOOLEAN, advantage DOUBLE, tokens INTEGER, prompt UBIGINT, parts DOUBLE[]
);
CREATE TABLE steps (
    run USMALLINT, step INTEGER, rollouts INTEGER, kept INTEGER, prompts INTEGER,
    reward DOUBLE, kept_reward DOUBLE, dropped_reward DOUBLE,
    contrast DOUBLE, kept_contrast DOUBLE, teaching DOUBLE, rows_with_pass INTEGER,
    tokens DOUBLE, kept_tokens DOUBLE, longest INTEGER
);
"""

#: Of each step: means over its rollouts, and the spread of rewards within its prompts.
_SUMMARIES = """
WITH prompts AS (
    SELECT run, step, grp, count(*) AS rollouts,
        stddev_pop(reward) AS spread,
        stddev_pop(reward) FILTER (kept) AS kept_spread,
        max(reward) > min(reward) AS differs
    FROM rollouts WHERE run = $run AND step IN (SELECT unnest($steps))
    GROUP BY run, step, grp
), spreads AS (
    SELECT run, step, count(*) AS prompts, avg(spread) AS contrast,
        avg(kept_spread) AS kept_contrast, avg(coalesce(differs, false)::INT) AS teaching
    FROM prompts GROUP BY run, step
), means AS (
    SELECT run, step, count(*) AS rollouts, count(*) FILTER (kept) AS kept,
        avg(reward) AS reward, avg(reward) FILTER (kept) AS kept_reward,
        avg(reward) FILTER (NOT kept) AS dropped_reward,
        count(*) FILTER (kept AND advantage != 0) AS rows_with_pass,
        avg(tokens) AS tokens, avg(tokens) FILTER (kept) AS kept_tokens, max(tokens) AS longest
    FROM rollouts WHERE run = $run AND step IN (SELECT unnest($steps))
    GROUP BY run, step
)
INSERT INTO steps
SELECT run, step, rollouts, kept, prompts, reward, kept_reward, dropped_reward, contrast,
    kept_contrast, teaching, rows_with_pass, tokens, kept_tokens, longest
FROM means JOIN spreads USING (run, step)
"""

#: What the page draws of metrics.jsonl, beside the seconds of the phases.
METRICS = ("entropy", "kl", "grad_norm", "learning_rate", "completions/mean_length")
_SECONDS = ("generate", "score", "select", "update")
CLOCK = "pods/training_seconds"


@dataclass
class IndexedFile:
    """A file whose rollouts are in the index."""

    number: int
    listed: RolloutFile
    readable: Path  # itself, or its conversion
    steps: list[int] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)  # the reward functions it has
    columns: list[str] = field(default_factory=list)


@dataclass
class Run:
    """What is known of one source."""

    number: int
    source: Source
    files: dict[Path, IndexedFile] = field(default_factory=dict)
    listed: int = 0
    functions: list[str] = field(default_factory=list)  # in the order of `parts`
    metrics: dict[str, list[float | None]] = field(default_factory=dict)
    damaged: dict[RolloutFile, str] = field(default_factory=dict)

    def files_of(self, steps: Iterable[int]) -> list[IndexedFile]:
        """The files that hold rollouts of these steps."""
        wanted = set(steps)
        return [file for file in list(self.files.values()) if wanted.intersection(file.steps)]


#: What is told where files of a step are taken away while it is read.
FILES_CHANGED = "the files of this step changed while they were read; load it again"


class Dataset:
    """The rollouts of several runs; it can be asked by several threads while it grows.

    Args:
        find: Finds the runs; it is asked again while the app is open, as runs may begin.
    """

    def __init__(self, find: Callable[[], Sequence[Source]]) -> None:
        sources = find()

        self._folder = Path(tempfile.mkdtemp(prefix="podsrl-inspect-"))
        self._database = duckdb.connect(
            str(self._folder / "index.duckdb"),
            config={
                "memory_limit": _MEMORY,
                "threads": 2,
                "temp_directory": str(self._folder),
                # It is never to ask anything over the network.
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        self._database.execute(_TABLES)

        self._find = find
        self._files = 0  # how many were numbered so far
        self.runs: list[Run] = []
        self._add_runs(sources)
        self.version = 0  # changes whenever there is something new to see

        self._last_asked = time.monotonic()  # a page is opened as soon as the address is told
        self._writing = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- filling

    def start(self) -> None:
        """Fill the index in a thread, and look for new steps until `close`."""
        self._thread = threading.Thread(target=self._watch, name="inspector index", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking, and remove the index."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._database.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _watch(self) -> None:
        find_again = 0.0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                if began >= find_again:
                    with suppress(InvalidInputError):  # a folder was moved away
                        self._add_runs(self._find())
                    # A large tree of folders is not to be searched all the time.
                    now = time.monotonic()
                    find_again = now + 20 * (now - began)
                self._read_changes()
            except Exception:
                # Whatever a folder does while it is written to, the next look may find it whole.
                logger.exception("the runs could not be read; trying again")
            self._stopping.wait(_LOOK_AGAIN)

    def refresh(self) -> None:
        """Bring the index up to date with the folders and files as they are now."""
        self._add_runs(self._find())
        self._read_changes()

    def _read_changes(self) -> None:
        with self._writing:
            for run in self.runs:
                self._refresh_metrics(run)
            waiting = [self._changes(run) for run in self.runs]

            at_once = _FILES_AT_FIRST
            while any(waiting) and not self._stopping.is_set():
                for run, files in zip(self.runs, waiting, strict=True):
                    batch = files[:at_once]
                    del files[:at_once]
                    if batch:
                        self._index(run, batch)
                self._let_readers_go_first()
                at_once = _FILES_AT_ONCE

    def has_reader(self) -> None:
        """Note that a page is being loaded, which the filling of the index shall not slow down."""
        self._last_asked = time.monotonic()

    def _let_readers_go_first(self) -> None:
        """Wait for the end of a burst of requests, as a page makes it; not for ever."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < min(end, self._last_asked + _BURST):
            self._stopping.wait(_BURST / 4)

    def _add_runs(self, sources: Sequence[Source]) -> None:
        known = {run.source.path for run in self.runs}
        new = [source for source in sources if source.path not in known]
        self.runs += [Run(len(self.runs) + i, source) for i, source in enumerate(new)]

    def _refresh_metrics(self, run: Run) -> None:
        rows = run.source.metrics()
        if not rows:
            return
        names = ["step", CLOCK, "reward", *METRICS, *(f"pods/seconds_{p}" for p in _SECONDS)]
        if run.metrics and rows[0]["step"] <= (run.metrics["step"][-1] or 0):
            run.metrics = {}  # a resumed run went on from an earlier step: its log was cut
        for name in names:
            column = run.metrics.setdefault(name, [])
            column += [_number(row.get(name)) for row in rows]
        self.version += 1

    def _changes(self, run: Run) -> list[RolloutFile]:
        """The files to index, in the order in which they are wanted; those gone are forgotten."""
        listed = run.source.files()
        run.listed = len(listed)
        there = {file.path: file for file in listed}
        gone = [indexed for path, indexed in run.files.items() if there.get(path) != indexed.listed]
        if gone:
            self._forget(run, gone)
        run.damaged = {file: why for file, why in run.damaged.items() if file in listed}
        read = {indexed.listed for indexed in run.files.values()} | set(run.damaged)
        return coarse_to_fine([file for file in listed if file not in read])

    def _forget(self, run: Run, files: Sequence[IndexedFile]) -> None:
        cursor = self._database.cursor()
        for file in files:
            del run.files[file.listed.path]
            if file.readable != file.listed.path:
                file.readable.unlink(missing_ok=True)
        numbers = [file.number for file in files]
        cursor.execute("DELETE FROM rollouts WHERE file IN (SELECT unnest(?))", [numbers])
        self._summarise(cursor, run, {step for file in files for step in file.steps})

    def _index(self, run: Run, listed: Sequence[RolloutFile]) -> None:
        cursor = self._database.cursor()
        prepared = [self._prepared(run, one) for one in listed]
        files = [file for file in prepared if file is not None]
        try:
            self._insert(cursor, run, files)
        except (duckdb.Error, OSError):
            for file in files:  # one by one, to know which is damaged
                try:
                    self._insert(cursor, run, [file])
                except (duckdb.Error, OSError) as error:
                    self._note_damage(run, file.listed, error)
        steps = {step for file in files for step in file.steps}
        self._summarise(cursor, run, steps)

    def _prepared(self, run: Run, listed: RolloutFile) -> IndexedFile | None:
        """A file with what it has; None if it can't be read."""
        self._files += 1
        readable = listed.path
        try:
            if isinstance(run.source, ForeignSource):
                readable = self._folder / f"{self._files}.parquet"
                rows = run.source.rows(listed.path)
                as_rollouts(rows, listed.path, run.source.keep, readable)
            columns = self._columns(readable)
        except (duckdb.Error, OSError, PodsError) as error:
            self._note_damage(run, listed, error)
            return None

        if missing := [name for name in ROLLOUT_COLUMNS if name not in columns]:
            self._note_damage(run, listed, f"it lacks the columns {', '.join(missing)}")
            return None

        parts = [c.removeprefix(REWARD_PREFIX) for c in columns if c.startswith(REWARD_PREFIX)]
        run.functions += [name for name in parts if name not in run.functions]
        return IndexedFile(self._files, listed, readable, parts=parts, columns=columns)

    def _columns(self, path: Path) -> list[str]:
        cursor = self._database.cursor()
        described = cursor.execute(
            "SELECT name FROM parquet_schema(?) WHERE num_children IS NULL", [no_glob(path)]
        )
        return [name for (name,) in described.fetchall()]

    def _note_damage(self, run: Run, listed: RolloutFile, error: object) -> None:
        """A file that is damaged is left out until it changes, and the page names it."""
        run.damaged[listed] = f"{listed.path} can't be read and was left out: {error}"
        self.version += 1

    def _insert(self, cursor: Any, run: Run, files: Sequence[IndexedFile]) -> None:
        """Read the numbers of files that have the same reward functions, together."""
        by_functions: dict[tuple[str, ...], list[IndexedFile]] = {}
        for file in files:
            if file.listed.path not in run.files:
                by_functions.setdefault(tuple(sorted(file.parts)), []).append(file)

        for functions, alike in by_functions.items():
            self._insert_numbers(cursor, run, alike, functions)
            steps_of_file = self._steps_of_files(cursor, [file.number for file in alike])
            for file in alike:
                file.steps = sorted(steps_of_file.get(file.number, []))
                run.files[file.listed.path] = file

    def _insert_numbers(
        self, cursor: Any, run: Run, files: Sequence[IndexedFile], functions: Sequence[str]
    ) -> None:
        """Put the numbers of files into the index, all of which have these reward functions."""
        parts = [
            quoted(REWARD_PREFIX + name) if name in functions else "NULL" for name in run.functions
        ]
        cursor.execute(
            'INSERT INTO rollouts SELECT $run, numbers.number, step, "group", rollout,'
            " CASE WHEN isfinite(reward) THEN reward END, coalesce(kept, false),"
            " CASE WHEN isfinite(advantage) THEN advantage END, tokens, hash(prompt),"
            f" [{', '.join(parts)}]::DOUBLE[]"
            " FROM read_parquet($paths, union_by_name=true, filename=true) AS read"
            " JOIN (SELECT unnest($names) AS name, unnest($numbers) AS number) AS numbers"
            " ON read.filename = numbers.name",
            {
                "run": run.number,
                "paths": [no_glob(file.readable) for file in files],
                "names": [str(file.readable) for file in files],
                "numbers": [file.number for file in files],
            },
        )

    def _steps_of_files(self, cursor: Any, numbers: Sequence[int]) -> dict[int, list[int]]:
        """The steps that are in each file, by its number; a file without rollouts is left out."""
        found = cursor.execute(
            "SELECT file, list(DISTINCT step) FROM rollouts"
            " WHERE file IN (SELECT unnest(?)) GROUP BY file",
            [list(numbers)],
        )
        return dict(found.fetchall())

    def _summarise(self, cursor: Any, run: Run, steps: Iterable[int]) -> None:
        values = {"run": run.number, "steps": sorted(steps)}
        if not values["steps"]:
            return
        cursor.execute("BEGIN")
        cursor.execute(
            "DELETE FROM steps WHERE run = $run AND step IN (SELECT unnest($steps))", values
        )
        cursor.execute(_SUMMARIES, values)
        cursor.execute("COMMIT")
        self.version += 1

    # ---- asking

    def run_named(self, name: str | None) -> Run:
        """The run of that name; the first one without a name."""
        for run in self.runs:
            if name is None or run.source.name == name:
                return run
        names = ", ".join(run.source.name for run in self.runs)
        raise InvalidInputError(f"no run {name!r}; there are {names}")

    def cursor(self) -> Any:
        """A connection of a thread's own to the index."""
        return self._database.cursor()

    def rows(self, query: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """What a query of the index gives, as dictionaries of plain values."""
        cursor = self.cursor().execute(query, dict(values or {}))
        names = [column[0] for column in cursor.description]
        return [
            {name: plain(value) for name, value in zip(names, row, strict=True)}
            for row in cursor.fetchall()
        ]

    def state(self) -> dict[str, Any]:
        """How far each run is, and how much of it is in the index."""
        return {"version": self.version, "runs": [self._state_of(run) for run in self.runs]}

    def _state_of(self, run: Run) -> dict[str, Any]:
        [indexed] = self.rows(
            "SELECT count(*) AS steps, min(step) AS first, max(step) AS last,"
            " sum(rollouts) AS rollouts, arg_max(reward, step) AS reward"
            " FROM steps WHERE run = $run",
            {"run": run.number},
        )

        # A run without metrics is as far as its rollouts are.
        progress = run.source.progress()
        step = progress.step if progress.step is not None else indexed["last"]
        reward = progress.reward if progress.reward is not None else indexed["reward"]

        return {
            "name": run.source.name,
            "note": run.source.note,
            "functions": list(run.functions),
            "longest": run.source.longest,
            "state": progress.state,
            "step": step,
            "total_steps": progress.total_steps,
            "seconds_left": progress.seconds_left,
            "reward": reward,
            "logged_steps": indexed["steps"],
            "first_step": indexed["first"],
            "last_step": indexed["last"],
            "rollouts": indexed["rollouts"] or 0,
            "files": run.listed,
            "files_read": len(run.files) + len(run.damaged),
            "damaged": list(run.damaged.values())[:5],
        }

    def curves(self, run: Run) -> dict[str, Any]:
        """The summaries of all logged steps, and the metrics, as columns."""
        rows = self.rows(
            "SELECT * EXCLUDE (run) FROM steps WHERE run = $run ORDER BY step",
            {"run": run.number},
        )
        steps = {}
        for name in rows[0] if rows else ():
            steps[name] = [_short(row[name]) for row in rows]

        metrics = {}
        for name, column in run.metrics.items():
            if any(value is not None for value in column):
                metrics[name] = [_short(value) for value in column]

        return {"run": run.source.name, "steps": steps, "metrics": metrics}

    def step(self, run: Run, step: int, most: int = 200) -> dict[str, Any]:
        """The prompts of a step, each with the rewards of its rollouts.

        Args:
            run: The run.
            step: One of its logged steps.
            most: How many prompts have their text and the dots of their rollouts; the first ones
                by reward, lowest first.
        """
        values = {"run": run.number, "step": step}
        groups = self.rows(
            'SELECT grp AS "group", count(*) AS rollouts, count(*) FILTER (kept) AS kept,'
            " avg(reward) AS reward, avg(reward) FILTER (kept) AS kept_reward,"
            " stddev_pop(reward) AS contrast, avg(tokens) AS tokens"
            " FROM rollouts WHERE run = $run AND step = $step GROUP BY grp"
            " ORDER BY reward NULLS FIRST, grp",
            values,
        )
        if not groups:
            raise InvalidInputError(f"no rollouts of step {step} in {run.source.name}")
        [span] = self.rows(
            "SELECT min(reward) AS low, max(reward) AS high,"
            " bool_and(reward IN (0, 1)) AS is_pass_rate"
            " FROM rollouts WHERE run = $run AND step = $step",
            values,
        )

        shown = [group["group"] for group in groups[:most]]
        dots = self.rows(
            'SELECT grp AS "group", list(rollout ORDER BY reward DESC, rollout) AS rollout,'
            " list(reward ORDER BY reward DESC, rollout) AS reward,"
            " list(kept ORDER BY reward DESC, rollout) AS kept FROM rollouts"
            " WHERE run = $run AND step = $step AND grp IN (SELECT unnest($groups)) GROUP BY grp",
            {**values, "groups": shown},
        )
        dots_of = {row.pop("group"): row for row in dots}
        texts = self.texts(run, step, shown, ["prompt", "answer"], length=2_000, of_groups=True)
        text_of = {row["group"]: row for row in texts}
        for group in groups[:most]:
            text = text_of.get(group["group"], {})
            group["prompt"] = text.get("prompt")
            group["answer"] = text.get("answer")
            group["dots"] = dots_of.get(group["group"])
        return {
            "run": run.source.name,
            "step": step,
            **self._neighbours(run, step),
            **span,
            "prompts": len(groups),
            "groups": groups,
        }

    def group(self, run: Run, step: int, group: int) -> dict[str, Any]:
        """The rollouts of a prompt with all that is known of them, best first."""
        found = self.groups(run, step, [group])
        if not found:
            raise InvalidInputError(f"no prompt {group} in step {step} of {run.source.name}")
        return found[group]

    def groups(self, run: Run, step: int, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Several prompts of a step by their numbers, each as `group` gives it."""
        rows = self.rows(
            "SELECT grp, rollout, reward, kept, advantage, tokens, parts, prompt FROM rollouts"
            " WHERE run = $run AND step = $step AND grp IN (SELECT unnest($numbers))"
            " ORDER BY grp, reward DESC NULLS LAST, rollout",
            {"run": run.number, "step": step, "numbers": list(numbers)},
        )
        texts = self.texts(run, step, numbers, ["prompt", "answer", "completion", "turns"])
        text_of = {(text["group"], text["rollout"]): text for text in texts}
        of_step = {
            **self._neighbours(run, step),
            "groups": self._groups_by_reward(run, step),
            "longest": run.source.longest,
        }

        functions = {name for file in run.files_of([step]) for name in file.parts}
        found: dict[int, dict[str, Any]] = {}
        hashes: dict[int, set[int]] = {}
        for row in rows:
            number = row.pop("grp")
            hashes.setdefault(number, set()).add(row.pop("prompt"))

            # The index and the files are read one after the other, and a run may thin out its log.
            text = text_of.get((number, row["rollout"]))
            if text is None:
                raise InvalidInputError(FILES_CHANGED)
            row |= {name: text.get(name) for name in ("completion", "length", "turns")}
            parts = zip(run.functions, row.pop("parts"), strict=False)
            row["rewards"] = {name: value for name, value in parts if name in functions}

            if number not in found:
                where = {"run": run.source.name, "step": step, "group": number}
                asked = {name: text.get(name) for name in ("prompt", "answer")}
                found[number] = {**where, **of_step, **asked, "rollouts": []}
            found[number]["rollouts"].append(row)

        elsewhere = self._elsewhere({one for of_group in hashes.values() for one in of_group})
        for number, group in found.items():
            same = [other for one in hashes[number] for other in elsewhere.get(one, ())]
            group["elsewhere"] = same[:_ELSEWHERE]
        return found

    def full_text(self, run: Run, step: int, group: int, rollout: int) -> str:
        """The whole completion of a rollout."""
        rows = self.texts(run, step, [group], ["completion"], length=None)
        for row in rows:
            if row["rollout"] == rollout:
                return str(row["completion"])
        raise InvalidInputError(f"no rollout {rollout} of prompt {group} in step {step}")

    def featured(self) -> dict[str, Any] | None:
        """A prompt to begin with: of the newest step with one, where kept rollouts differ most."""
        found = self.rows(
            "WITH newest AS (SELECT run, max(step) AS step FROM steps WHERE kept_contrast > 0"
            " GROUP BY run ORDER BY bool_or(kept < rollouts) DESC, run LIMIT 1)"
            " SELECT run, step, grp, stddev_pop(reward) FILTER (kept) AS spread,"
            " count(*) FILTER (NOT kept) AS dropped"
            " FROM rollouts JOIN newest USING (run, step) GROUP BY run, step, grp"
            " ORDER BY spread DESC NULLS LAST, dropped DESC, grp LIMIT 1"
        )
        if not found:
            return None
        [best] = found
        return self.group(self.runs[best["run"]], best["step"], best["grp"])

    def _neighbours(self, run: Run, step: int) -> dict[str, int | None]:
        """The logged steps before and after."""
        [found] = self.rows(
            "SELECT max(step) FILTER (step < $step) AS earlier,"
            " min(step) FILTER (step > $step) AS later FROM steps WHERE run = $run",
            {"run": run.number, "step": step},
        )
        return found

    def _groups_by_reward(self, run: Run, step: int) -> list[int]:
        rows = self.rows(
            "SELECT grp FROM rollouts WHERE run = $run AND step = $step GROUP BY grp"
            " ORDER BY avg(reward) NULLS FIRST, grp",
            {"run": run.number, "step": step},
        )
        return [row["grp"] for row in rows]

    def _elsewhere(self, hashes: Iterable[int]) -> dict[int, list[dict[str, Any]]]:
        """Where each of these prompts stands in all steps of all runs, with its mean reward."""
        rows = self.rows(
            'SELECT prompt, run, step, grp AS "group", avg(reward) AS reward,'
            " avg(reward) FILTER (kept) AS kept_reward FROM rollouts"
            " WHERE prompt IN (SELECT unnest($hashes)) GROUP BY prompt, run, step, grp"
            " ORDER BY run, step, grp",
            {"hashes": list(hashes)},
        )
        found: dict[int, list[dict[str, Any]]] = {}
        for row in rows:
            row["run"] = self.runs[row["run"]].source.name
            found.setdefault(row.pop("prompt"), []).append(row)
        return found

    def texts(
        self,
        run: Run,
        step: int,
        groups: Sequence[int],
        names: Sequence[str],
        length: int | None = _CHARACTERS,
        of_groups: bool = False,
    ) -> list[dict[str, Any]]:
        """Texts of a step's groups, of each rollout or of the first one of each group.

        The texts have at most `length` characters; "length" says how many the completion has.
        """
        files = run.files_of([step])
        if not files:
            return []

        columns = {column for file in files for column in file.columns}
        wanted = ['"group"', "rollout"]
        for name in names:
            text = name if name in columns else "NULL"
            wanted.append(f"left({text}, {length}) AS {name}" if length else f"{text} AS {name}")
        if "completion" in names:
            wanted.append("length(completion) AS length")

        first = ' QUALIFY row_number() OVER (PARTITION BY "group") = 1' if of_groups else ""
        return self.rows(
            f"SELECT {', '.join(wanted)}"
            " FROM read_parquet($paths, union_by_name=true)"
            f' WHERE step = $step AND "group" IN (SELECT unnest($groups)){first}',
            {
                "paths": [no_glob(file.readable) for file in files],
                "step": step,
                "groups": list(groups),
            },
        )


def coarse_to_fine(places: Sequence[_Any]) -> list[_Any]:
    """The last one, then the others so that those before any place are spread evenly.

    >>> coarse_to_fine(list("abcdefghi"))
    ['i', 'a', 'e', 'c', 'g', 'b', 'f', 'd', 'h']
    """
    if not places:
        return []
    spread = sorted(range(len(places) - 1), key=_bits_reversed)
    return [places[-1], *(places[place] for place in spread)]


def _bits_reversed(place: int) -> int:
    """A key that sorts 0, 1, 2, 3 ... as 0, half, a quarter, three quarters ... of a power of 2.

    >>> sorted(range(8), key=_bits_reversed)
    [0, 4, 2, 6, 1, 5, 3, 7]
    """
    return int(f"{place:040b}"[::-1], 2)


def no_glob(path: Path) -> str:
    """A path in which DuckDB sees no pattern for several files."""
    return "".join(f"[{c}]" if c in "[*?" else c for c in str(path))


def quoted(name: str) -> str:
    """The name of a column inside a query."""
    return '"' + name.replace('"', '""') + '"'


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and math.isfinite(value)
    return value if is_number else None


def _short(value: Any) -> Any:
    """A number to five digits, which a curve does not show more of."""
    return float(f"{value:.5g}") if isinstance(value, float) else value
