"""The numbers of all rollouts in an index; their texts stay in the files of the runs.

Texts make nearly all of a run's size. So the index, a DuckDB file in a temporary folder, holds of
each rollout its numbers and a hash of its prompt, about 50 bytes. A thread fills it while pages are
already shown: the newest step first, then evenly spaced ones, so that curves are whole from the
start and get finer. `answers.py` asks it.
"""

import logging
import math
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from podsrl.errors import InvalidInputError, PodsError
from podsrl.inspector.checks import Check
from podsrl.inspector.choosing import choose_anew
from podsrl.inspector.conversion import Converted, as_rollouts
from podsrl.inspector.keeping import Keep
from podsrl.inspector.notes import Mark, Place, add_note, read_notes
from podsrl.inspector.sources import ForeignSource, RolloutFile, Source, WaitingFolder
from podsrl.inspector.sources.base import SETTLED_SECONDS
from podsrl.rollout_log.columns import INDEXED, REQUIRED, REWARD_PREFIX, Column
from podsrl.rollout_log.files import plain

_Any = TypeVar("_Any")

logger = logging.getLogger("podsrl.inspector")

_MEMORY = "100MB"  # of DuckDB; the rest of the process has about as much
_FILES_AT_ONCE = 32
_FILES_AT_FIRST = 4  # until the first page can be shown
_BURST = 0.3  # seconds between the requests of one page, at most
_PATIENCE = 1.0  # seconds that the index waits for readers
_LOOK_AGAIN = 2.0  # seconds between two looks for new steps
#: A file that grows is looked at again after so many times what reading it took.
_REST = 10
#: More than a file has groups of a step; the groups of a second file of the step begin here.
_GROUPS_OF_FILE = 1_000_000

_TABLES = f"""
CREATE TABLE rollouts (
    run USMALLINT, file UINTEGER, {", ".join(f"{c.in_sql} {c.index}" for c in INDEXED)},
    prompt UBIGINT, parts DOUBLE[]
);
CREATE TABLE steps (
    run USMALLINT, step INTEGER, rollouts INTEGER, kept INTEGER, prompts INTEGER,
    reward DOUBLE, kept_reward DOUBLE, dropped_reward DOUBLE,
    contrast DOUBLE, kept_contrast DOUBLE, teaching DOUBLE, rows_with_pass INTEGER,
    tokens DOUBLE, kept_tokens DOUBLE, longest INTEGER, parts DOUBLE[]
);
CREATE TABLE marks (
    run USMALLINT, step INTEGER, "group" INTEGER, rollout INTEGER, label VARCHAR, note VARCHAR
);
CREATE TABLE checks (
    run USMALLINT, step INTEGER, "group" INTEGER, rollout INTEGER, value DOUBLE
);
"""

#: Of each step: means over its rollouts, and the spread of rewards within its prompts.
_SUMMARIES = """
WITH prompts AS (
    SELECT run, step, "group", count(*) AS rollouts,
        stddev_pop(reward) AS spread,
        stddev_pop(reward) FILTER (kept) AS kept_spread,
        max(reward) > min(reward) AS differs
    FROM rollouts WHERE run = $run AND step IN (SELECT unnest($steps))
    GROUP BY run, step, "group"
), spreads AS (
    SELECT run, step, count(*) AS prompts, avg(spread) AS contrast,
        avg(kept_spread) AS kept_contrast, avg(coalesce(differs, false)::INT) AS teaching
    FROM prompts GROUP BY run, step
), means AS (
    SELECT run, step, count(*) AS rollouts, count(*) FILTER (kept) AS kept,
        avg(reward) AS reward, avg(reward) FILTER (kept) AS kept_reward,
        avg(reward) FILTER (NOT kept) AS dropped_reward,
        CASE WHEN count(advantage) > 0 THEN count(*) FILTER (kept AND advantage != 0) END
            AS rows_with_pass,
        avg(tokens) AS tokens, avg(tokens) FILTER (kept) AS kept_tokens, max(tokens) AS longest,
        [{parts}]::DOUBLE[] AS parts
    FROM rollouts WHERE run = $run AND step IN (SELECT unnest($steps))
    GROUP BY run, step
)
INSERT INTO steps
SELECT run, step, rollouts, kept, prompts, reward, kept_reward, dropped_reward, contrast,
    kept_contrast, teaching, rows_with_pass, tokens, kept_tokens, longest, parts
FROM means JOIN spreads USING (run, step)
"""

#: What the page draws of metrics.jsonl, beside the seconds of the phases.
METRICS = (
    "entropy",
    "kl",
    "grad_norm",
    "learning_rate",
    "completions/mean_length",
    "eval_reward",
)
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
    converted: Converted | None = None
    seconds: float = 0.0  # that reading it took
    read_at: float = 0.0


@dataclass
class Run:
    """A source in the index."""

    number: int
    source: Source
    files: dict[Path, IndexedFile] = field(default_factory=dict)
    listed: int = 0
    functions: list[str] = field(default_factory=list)  # in the order of `parts`
    metrics: dict[str, list[float | None]] = field(default_factory=dict)
    damaged: dict[RolloutFile, str] = field(default_factory=dict)
    places: dict[Path, int] = field(default_factory=dict)  # of the files, as they are listed
    files_of_step: dict[int, list[Path]] = field(default_factory=dict)
    renumbered: set[Path] = field(default_factory=set)  # to be read again for their groups' numbers
    marks: dict[Place, Mark] = field(default_factory=dict)
    marks_read: tuple[int, int] = (0, 0)  # the time of their file, in nanoseconds, and its bytes

    def files_of(self, steps: Iterable[int]) -> list[IndexedFile]:
        """The files that hold rollouts of these steps."""
        wanted = set(steps)
        return [file for file in list(self.files.values()) if wanted.intersection(file.steps)]

    def first_group(self, path: Path, step: int) -> int:
        """The number of the first group that a file has of a step.

        Files of other programs number nothing across files; two of one step have other prompts.
        They are numbered in the order in which they are listed, whichever is read first, so that
        labels and addresses mean the same rollouts the next time.
        """
        paths = self.files_of_step.setdefault(step, [])
        if path not in paths:
            paths.append(path)
            paths.sort(key=lambda one: self.places.get(one, 0))
            self.renumbered |= set(paths[paths.index(path) + 1 :])
        return _GROUPS_OF_FILE * paths.index(path)

    def files_to_renumber(self) -> list[RolloutFile]:
        """The files that were read before an earlier one of their steps was known."""
        return [self.files[path].listed for path in self.renumbered if path in self.files]

    @property
    def would_keep(self) -> Keep | None:
        """The rule that chose what is kept in some file; None if all files say what was kept."""
        if not isinstance(self.source, ForeignSource):
            return None
        converted = [file.converted for file in list(self.files.values()) if file.converted]
        if converted and all(one.says_kept for one in converted):
            return None
        return self.source.options.keep

    @property
    def doubts(self) -> list[str]:
        """The doubts about the way in which its files were read, each once."""
        notes: dict[str, None] = {}
        for file in list(self.files.values()):
            notes |= dict.fromkeys(file.converted.notes if file.converted else ())
        return list(notes)


class Index:
    """The rollouts of several runs; it can be asked by several threads while it grows.

    Args:
        find: Finds the runs; it is asked again while the app is open, as runs may begin.
        check: The user's own check of each rollout, whose result is a column.
    """

    def __init__(self, find: Callable[[], Sequence[Source]], check: Check | None = None) -> None:
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
        self._keep: Keep | None = None  # that a reader chose
        self.runs: list[Run] = []
        self._add_runs(sources)
        self.check = check
        self.version = 0  # changes whenever there is something new to see

        self._last_asked = time.monotonic()  # a page is opened as soon as the address is told
        self._filling = threading.Lock()
        self._writing = threading.Lock()  # held for some files at a time
        self._marking = threading.Lock()  # which does not wait while files are read
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
                self._read_changes(resting=True)
                if self.check is not None:
                    self.check.run(self, self._stopping)
            except Exception:
                # Whatever a folder does while it is written to, the next look may find it whole.
                logger.exception("the runs could not be read; trying again")
            self._stopping.wait(_LOOK_AGAIN)

    def refresh(
        self,
        tell: Callable[[int, int], None] = lambda done, of: None,
        steps: Collection[int] | None = None,
        seconds: float = math.inf,
    ) -> None:
        """Bring the index up to date with the folders and files as they are now.

        Args:
            tell: Is told how many files of how many were read so far, after every few of them.
            steps: The steps that are wanted; files that have none of them are left for later.
                None: all.
            seconds: How long files may be read, once they are listed; the first ones are read in
                any case. The next call reads what is left.
        """
        self._add_runs(self._find())
        self._let_files_settle()
        self._read_changes(tell, steps, seconds)
        if self.check is not None:
            self.check.run(self, self._stopping, seconds=math.inf)

    def _let_files_settle(self) -> None:
        """Wait a moment for files that were written just now, as nobody looks again later."""
        end = time.monotonic() + 2 * SETTLED_SECONDS
        while time.monotonic() < end:
            files = [file for run in self.runs for file in run.source.files()]
            if all(file.is_settled for file in files):
                return
            self._stopping.wait(SETTLED_SECONDS / 10)

    def steps_by_name(self) -> list[int] | None:
        """The steps of all files, newest first; None if the name of any does not say it."""
        found = set()
        for run in self.runs:
            for file in run.source.files():
                step = run.source.step_of(file)
                if step is None:
                    return None
                found.add(step)
        return sorted(found, reverse=True)

    def _read_changes(
        self,
        tell: Callable[[int, int], None] = lambda done, of: None,
        steps: Collection[int] | None = None,
        seconds: float = math.inf,
        resting: bool = False,
    ) -> None:
        with self._filling:
            for run in self.runs:
                self._refresh_metrics(run)
                with self._marking:
                    self._refresh_marks(run)
            with self._writing:
                waiting = [self._changes(run, steps, resting) for run in self.runs]
            total = sum(map(len, waiting))

            at_once = _FILES_AT_FIRST
            end = time.monotonic() + seconds
            while any(waiting) and not self._stopping.is_set() and time.monotonic() < end:
                for run, files in zip(self.runs, waiting, strict=True):
                    batch = files[:at_once]
                    del files[:at_once]
                    if batch:
                        with self._writing:
                            self._index(run, batch)
                        again = [file for file in run.files_to_renumber() if file not in files]
                        files += again
                        total += len(again)
                        tell(total - sum(map(len, waiting)), total)
                self._let_readers_go_first()
                at_once = min(2 * at_once, _FILES_AT_ONCE)

    def has_reader(self) -> None:
        """Note that a page is being loaded, which the filling of the index shall not slow down."""
        self._last_asked = time.monotonic()

    def _let_readers_go_first(self) -> None:
        """Wait for the end of a burst of requests, as a page makes it; not for ever."""
        if self._thread is None:  # nobody reads yet
            return
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < min(end, self._last_asked + _BURST):
            self._stopping.wait(_BURST / 4)

    def _add_runs(self, sources: Sequence[Source]) -> None:
        if self._keep is not None:
            _set_keep(sources, self._keep)
        known = {run.source.key for run in self.runs}
        new = [source for source in sources if source.key not in known]
        for run in self.runs:
            if isinstance(run.source, WaitingFolder) and new:
                run.source = new.pop(0)  # what it waited for
        self.runs += [Run(len(self.runs) + i, source) for i, source in enumerate(new)]

    def _refresh_metrics(self, run: Run) -> None:
        rows = run.source.metrics()
        if not rows:
            return
        names = ["step", CLOCK, "reward", *METRICS, *(f"pods/seconds_{p}" for p in _SECONDS)]
        # A resumed run went on from an earlier step, and its log was cut. An evaluation, which
        # stands after its step, says nothing of that.
        of_steps = [row["step"] for row in rows if not any(n.startswith("eval_") for n in row)]
        before = run.metrics
        if before and of_steps and of_steps[0] <= (before["step"][-1] or 0):
            before = {}
        # All columns at once, as a page may be reading those of before.
        run.metrics = {
            name: [*before.get(name, ()), *(_number(row.get(name)) for row in rows)]
            for name in names
        }
        self.version += 1

    def _refresh_marks(self, run: Run) -> None:
        """Read labels and notes again, where somebody wrote some."""
        path = run.source.notes_file
        there = (0, 0)
        if path.is_file():
            status = path.stat()
            # Two notes may come within one tick of the file system's clock.
            there = (status.st_mtime_ns, status.st_size)
        if there == run.marks_read:
            return
        run.marks = read_notes(path)
        run.marks_read = there
        columns = [
            [place[0] for place in run.marks],
            [place[1] for place in run.marks],
            [place[2] for place in run.marks],
            [mark.label for mark in run.marks.values()],
            [mark.note for mark in run.marks.values()],
        ]
        cursor = self.cursor()
        cursor.execute("BEGIN")
        cursor.execute("DELETE FROM marks WHERE run = ?", [run.number])
        cursor.execute(
            "INSERT INTO marks SELECT ?, unnest(?::INTEGER[]), unnest(?::INTEGER[]),"
            " unnest(?::INTEGER[]), unnest(?::VARCHAR[]), unnest(?::VARCHAR[])",
            [run.number, *columns],
        )
        cursor.execute("COMMIT")
        self.version += 1

    def mark(self, run: Run, place: Place, mark: Mark) -> None:
        """Write what somebody says of a rollout to the file beside the run.

        Raises:
            InvalidInputError: There is no such rollout, or the file can't be written.
        """
        step, group, rollout = place
        found = self.rows(
            "SELECT 1 FROM rollouts WHERE run = $run AND step = $step"
            ' AND "group" = $group AND rollout = $rollout',
            {"run": run.number, "step": step, "group": group, "rollout": rollout},
        )
        if not found:
            raise InvalidInputError(f"no rollout {rollout} of prompt {group} in step {step}")
        with self._marking:
            add_note(run.source.notes_file, place, mark)
            self._refresh_marks(run)

    def keep_by(self, keep: Keep) -> None:
        """Choose anew what PODS would keep, in all runs whose files do not say it."""
        with self._writing:
            self._keep = keep
            _set_keep([run.source for run in self.runs], keep)
            for run in self.runs:
                if run.would_keep is None:
                    continue
                cursor = self.cursor()
                choose_anew(cursor, run, keep)
                self._summarise(cursor, run, {step for f in run.files.values() for step in f.steps})
            self.version += 1

    def _changes(self, run: Run, steps: Collection[int] | None, resting: bool) -> list[RolloutFile]:
        """The files to index, in the order in which they are wanted; those gone are forgotten.

        Args:
            run: The run.
            steps: The steps that are wanted, as `refresh` takes them.
            resting: Whether a file that grows is left for a later look where reading it took long.
        """
        found = run.source.files()
        run.listed = len(found)
        run.places = {file.path: place for place, file in enumerate(found)}
        there = {file.path: file for file in found}
        gone = [indexed for path, indexed in run.files.items() if path not in there]
        if gone:
            self._forget(run, gone)
        run.damaged = {file: why for file, why in run.damaged.items() if file in found}

        now = time.monotonic()
        wanted = []
        for file in found:
            indexed = run.files.get(file.path)
            is_read = file in run.damaged or (indexed is not None and indexed.listed == file)
            is_read = is_read and file.path not in run.renumbered
            rests = (
                resting and indexed is not None and now - indexed.read_at < _REST * indexed.seconds
            )
            step = None if steps is None else run.source.step_of(file)
            is_asked_for = steps is None or step is None or step in steps
            if not is_read and not rests and is_asked_for and file.is_settled:
                wanted.append(file)
        return coarse_to_fine(wanted)

    def _forget(self, run: Run, files: Sequence[IndexedFile]) -> None:
        cursor = self.cursor()
        for file in files:
            del run.files[file.listed.path]
            if file.readable != file.listed.path:
                file.readable.unlink(missing_ok=True)
        numbers = [file.number for file in files]
        cursor.execute("DELETE FROM rollouts WHERE file IN (SELECT unnest(?))", [numbers])
        self._summarise(cursor, run, {step for file in files for step in file.steps})

    def _index(self, run: Run, listed: Sequence[RolloutFile]) -> None:
        cursor = self.cursor()
        prepared = [self._prepared(run, one) for one in listed]
        files = [file for file in prepared if file is not None]

        # One that has changed is there until its new rollouts are.
        changed = [run.files[file.path] for file in listed if file.path in run.files]
        if changed:
            self._forget(run, changed)
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
        run.renumbered.discard(listed.path)
        began = time.monotonic()
        readable = listed.path
        converted = None
        try:
            if isinstance(run.source, ForeignSource):
                readable = self._folder / f"{self._files}.parquet"
                rollouts = run.source.rollouts(listed.path)
                keep = run.source.options.keep
                first = partial(run.first_group, listed.path)
                converted = as_rollouts(rollouts, listed.path, keep, readable, first)
            columns = self._columns(readable)
        except (duckdb.Error, OSError, PodsError) as error:
            self._note_damage(run, listed, error)
            return None
        except Exception as error:
            # Files of strangers hold what no reader foresees, and others wait for their turn.
            logger.exception("%s can't be read", listed.path)
            self._note_damage(run, listed, f"{type(error).__name__}: {error}")
            return None

        if missing := [column.name for column in REQUIRED if column.name not in columns]:
            self._note_damage(run, listed, f"it lacks the columns {', '.join(missing)}")
            return None

        parts = [c.removeprefix(REWARD_PREFIX) for c in columns if c.startswith(REWARD_PREFIX)]
        run.functions += [name for name in parts if name not in run.functions]
        return IndexedFile(
            self._files,
            listed,
            readable,
            parts=parts,
            columns=columns,
            converted=converted,
            seconds=time.monotonic() - began,
            read_at=time.monotonic(),
        )

    def _columns(self, path: Path) -> list[str]:
        """The names of a file's columns; of a column of lists its own."""
        described = self.cursor().execute(
            f"SELECT column_name FROM (DESCRIBE SELECT * FROM {read_parquet('$path')})",
            {"path": no_glob(path)},
        )
        return [name for (name,) in described.fetchall()]

    def _note_damage(self, run: Run, listed: RolloutFile, error: object) -> None:
        """A file that is damaged is left out until it changes, and the page names it."""
        path = str(listed.path)
        message = str(error)
        run.damaged[listed] = (
            f"left out: {message}"
            if message.startswith(path)
            else f"{path} can't be read and was left out: {message}"
        )
        self.version += 1

    def _insert(self, cursor: Any, run: Run, files: Sequence[IndexedFile]) -> None:
        """Read the numbers of files that have the same columns, together."""
        alike: dict[tuple[str, ...], list[IndexedFile]] = {}
        for file in files:
            if file.listed.path not in run.files:
                alike.setdefault(tuple(sorted(file.columns)), []).append(file)

        for columns, of_columns in alike.items():
            self._insert_numbers(cursor, run, of_columns, columns)
            steps_of_file = self._steps_of_files(cursor, [file.number for file in of_columns])
            for file in of_columns:
                file.steps = sorted(steps_of_file.get(file.number, []))
                run.files[file.listed.path] = file

    def _insert_numbers(
        self, cursor: Any, run: Run, files: Sequence[IndexedFile], columns: Sequence[str]
    ) -> None:
        """Add the numbers of files that have the same columns to the index."""
        parts = []
        for name in run.functions:
            column = REWARD_PREFIX + name
            parts.append(quoted(column) if column in columns else "NULL")
        numbers = [_indexed(column, columns, run.source.longest) for column in INDEXED]
        cursor.execute(
            f"INSERT INTO rollouts SELECT $run, numbers.number, {', '.join(numbers)},"
            f" hash(prompt), [{', '.join(parts)}]::DOUBLE[]"
            f" FROM {read_parquet('$paths', filename=True)} AS read"
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
        parts = ", ".join(f"avg(parts[{place + 1}])" for place in range(len(run.functions)))
        cursor.execute("BEGIN")
        cursor.execute(
            "DELETE FROM steps WHERE run = $run AND step IN (SELECT unnest($steps))", values
        )
        cursor.execute(_SUMMARIES.format(parts=parts), values)
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
        """The rows of a query of the index, as dictionaries of plain values."""
        cursor = self.cursor().execute(query, dict(values or {}))
        names = [column[0] for column in cursor.description]
        return [
            {name: plain(value) for name, value in zip(names, row, strict=True)}
            for row in cursor.fetchall()
        ]


def _set_keep(sources: Iterable[Source], keep: Keep) -> None:
    for source in sources:
        if isinstance(source, ForeignSource):
            source.options = replace(source.options, keep=keep)


def _indexed(column: Column, there: Sequence[str], longest: int | None) -> str:
    """The value of a column in the index, from the columns of a file."""
    value = column.in_sql if column.name in there else "NULL"
    if column.name == "kept":
        return f"coalesce({value}, false)"
    if column.name == "cut_off" and longest is not None:
        return f"coalesce({value}, tokens >= {int(longest)})"
    if column.index == "DOUBLE" and value != "NULL":
        return f"CASE WHEN isfinite({value}) THEN {value} END"
    return value


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


def read_parquet(paths: str, filename: bool = False) -> str:
    """DuckDB's call that reads parquet files, by the columns that are in them alone.

    DuckDB would take a folder `step=3`, as Hydra names them, for a column.

    Args:
        paths: The parameter of the query with the files.
        filename: Whether the path of each row's file is a column.
    """
    columns = "union_by_name=true, hive_partitioning=false"
    return f"read_parquet({paths}, {columns}, filename={str(filename).lower()})"


def quoted(name: str) -> str:
    """The name of a column inside a query."""
    return '"' + name.replace('"', '""') + '"'


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and math.isfinite(value)
    return value if is_number else None
