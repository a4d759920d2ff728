"""The folder of a run: the one writer and the one reader of its files.

    config.yaml         the resolved config, a flat mapping with at least arm, seed and task
    environment.json    versions, hardware, git state, command line, start time
    metrics.jsonl       one object per logged step
    evaluations.jsonl   one evaluation per line, where the laboratory `podslab` evaluates
    rollouts/step_000001/rank_0_of_1.parquet    one row per rollout, kept or not, of those that
                        this process generated: see columns.py
    podsrl-notes.jsonl  labels and notes that people gave to rollouts in the inspector
    finished.json       {"arm", "seed", "steps", "training_seconds"}, once the run is complete
    previous-1/         the same, and the checkpoints, of an earlier run, where a later one began
                        anew in its folder
    config-until-6.yaml what the run was set to until step 6, where it went on with other settings

Importing this module imports neither torch nor pyarrow.
"""

import fcntl
import io
import itertools
import logging
import os
import platform
import re
import shutil
import time
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from podsrl.errors import InvalidInputError
from podsrl.rollout_log import files
from podsrl.rollout_log.columns import REQUIRED, column_kinds
from podsrl.rollout_log.environment import describe_environment
from podsrl.rollout_log.files import DamagedFileWarning

#: What the time of a step is made of; metrics "pods/seconds_<phase>".
PHASES = ("generate", "score", "select", "update")

logger = logging.getLogger("podsrl.rollout_log")
_RESULTS = ("metrics.jsonl", "evaluations.jsonl", "rollouts", "finished.json", "checkpoint-*")
#: What people wrote of the rollouts in the inspector; it goes with them.
NOTES = "podsrl-notes.jsonl"
_SETTINGS = ("config.yaml", "config-until-*.yaml", "environment.json", NOTES)
_PREVIOUS = "previous-"
_LOCK = ".podsrl.lock"
# libyaml's, where PyYAML was built with it: ten times as fast
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


#: The folders that this process has locked.
_LOCKED: set["RunFolder"] = set()


def _forget_locks() -> None:
    """In a forked process, such as one that grades: a lock must end with the run, if it dies."""
    while _LOCKED:
        folder = _LOCKED.pop()
        held, folder._lock = folder._lock, None
        if held is not None:
            os.close(held)


os.register_at_fork(after_in_child=_forget_locks)


#: Seconds that a run waits for those who ask whether its folder is locked: a bound on hanging.
_MOST_SECONDS = 60.0


def _lock_alone(file: int) -> None:
    """Lock a file for one writer.

    Who asks whether it is locked has a shared lock for a moment, which lasts on a busy machine: it
    is waited for. A writer keeps others out of a shared lock, too.

    Raises:
        BlockingIOError: A writer has it.
    """
    end = time.monotonic() + _MOST_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # lockf's ends when a reader closes
            return
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)
            if time.monotonic() > end:
                raise
        time.sleep(0.01)


def _is_at(file: int, path: Path) -> bool:
    """Whether an open file still has this path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False


class Part(NamedTuple):
    """A file with a part of a step's rollouts: those of one process and one generation.

    Attributes:
        process: The number of the process that generated them.
        world: The number of processes.
        generation: The number of the generation; a step may have several.
    """

    process: int = 0
    world: int = 1
    generation: int = 0

    @property
    def file_name(self) -> str:
        """The file's name; those of a generation are in order as text, too."""
        digits = len(str(self.world - 1))
        later = f"-{self.generation + 1}" if self.generation else ""
        return f"rank_{self.process:0{digits}}_of_{self.world}{later}.parquet"

    @classmethod
    def of(cls, name: str) -> "Part | None":
        """The part that a file's name says; None if it is no part's.

        >>> Part.of("rank_03_of_16-2.parquet")
        Part(process=3, world=16, generation=1)
        """
        found = re.fullmatch(r"rank_(\d+)_of_(\d+)(?:-(\d+))?\.parquet", name)
        return found and cls(int(found[1]), int(found[2]), int(found[3] or 1) - 1)


#: The part of a process that is alone, and generates once for a step.
WHOLE = Part()


class RunFolder:
    """The files of one run. Writing creates the folder; reading never changes it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock: int | None = None

    def lock(self) -> None:
        """Refuse the folder to other writers; an `InvalidInputError` if another one has it."""
        if self._lock is not None:
            return
        held = self._open_lock()
        while not _is_at(held, self.path / _LOCK):  # the run that had it has ended just now
            os.close(held)
            held = self._open_lock()

        # Who has it, for the message to others.
        os.truncate(held, 0)
        os.write(held, f"process {os.getpid()} on {platform.node()}".encode())
        self._lock = held
        _LOCKED.add(self)

    def _open_lock(self) -> int:
        """The lock's file, locked where the file system knows locks."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InvalidInputError(f"can't write to {self.path}: {error.strerror}") from error

        try:
            _lock_alone(file)
        except BlockingIOError as error:
            who = os.read(file, 200).decode(errors="replace") or "another process"
            os.close(file)
            raise InvalidInputError(
                f"{self.path} is being written to by {who}: wait until that has ended, or choose"
                " another output_dir"
            ) from error
        except OSError:  # the file system knows no locks
            pass
        return file

    @property
    def is_being_written(self) -> bool | None:
        """Whether a process of this machine has the folder locked; None if that is not known.

        A run that was killed leaves its lock file behind, and nobody holds it.
        """
        try:
            asked = os.open(self.path / _LOCK, os.O_RDONLY)
        except OSError:  # the run has ended, or writes no lock
            return None
        try:
            fcntl.flock(asked, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # the file system knows no locks
            return None
        finally:
            os.close(asked)
        return False

    def unlock(self) -> None:
        """Let other processes have the folder, if it was locked."""
        held, self._lock = self._lock, None
        if held is not None:
            _LOCKED.discard(self)
            (self.path / _LOCK).unlink(missing_ok=True)
            os.close(held)

    @property
    def is_run(self) -> bool:
        """Whether config.yaml is a run's: it names the arm."""
        path = self.path / "config.yaml"
        return path.is_file() and bool(re.search(rb"^arm:", path.read_bytes(), re.MULTILINE))

    def refuse_foreign(self) -> None:
        """Refuse a folder whose config.yaml is of something else, and would be overwritten.

        Raises:
            InvalidInputError: It is. Nothing in the folder was touched.
        """
        if (self.path / "config.yaml").exists() and not self.is_run:
            raise InvalidInputError(
                f"{self.path / 'config.yaml'} would be overwritten, and is no run's, as it names no"
                " arm: choose another output_dir, or move that file away"
            )

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write config.yaml; an `InvalidInputError` where something else has that name."""
        self.refuse_foreign()
        values = files.plain(config)
        text = yaml.dump(values, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
        files.write_whole(self.path / "config.yaml", text.encode())

    def config(self) -> dict[str, Any]:
        """The resolved config of the run; an `InvalidInputError` where it is no YAML mapping."""
        path = self.path / "config.yaml"
        try:
            value = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
        except FileNotFoundError as error:
            raise InvalidInputError(f"{self.path} is no run: it has no config.yaml") from error
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            raise InvalidInputError(f"{path} is damaged: not YAML ({error})") from error
        if not isinstance(value, dict):
            raise InvalidInputError(f"{path} is damaged: not a mapping")
        return value

    def write_environment(self, run: str | None = None) -> None:
        """Write environment.json: what each start ran on, and the name of the run's checkpoints."""
        now = describe_environment()
        value = self.environment()
        if value:
            value["resumed"] = [*value.get("resumed", []), now]
        else:
            value = now
        if run is not None:
            value["run"] = run
        files.write_json(self.path / "environment.json", value)

    def environment(self) -> dict[str, Any]:
        """The result of `describe_environment`; of later starts under "resumed". {} if unknown.

        A damaged file, such as a full disk leaves behind, is unknown, with a `DamagedFileWarning`:
        nothing of the training rests on it.
        """
        path = self.path / "environment.json"
        try:
            return files.read_json(path) or {}
        except InvalidInputError as error:
            warnings.warn(f"{error}; it is taken for unknown", DamagedFileWarning, 2)
            return {}

    def append_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Add one logged step to metrics.jsonl; it must hold an integer "step"."""
        files.append_line(self.path / "metrics.jsonl", metrics)

    def metrics(self) -> list[dict[str, Any]]:
        """The logged steps, ascending; one that is damaged or out of order is refused by name."""
        rows = files.read_lines(self.path / "metrics.jsonl")
        steps = [row["step"] for row in rows if "pods/training_seconds" in row]
        for step, after in itertools.pairwise(steps):
            if after <= step:
                raise InvalidInputError(
                    f"{self.path / 'metrics.jsonl'} has step {after} after step {step}: several"
                    " runs wrote into this folder. Leave it out, or train again in a new one"
                )
        return rows

    def truncate_after(self, step: int) -> None:
        """Forget what was recorded after `step`, where a run resumes; set later saves aside.

        Raises:
            InvalidInputError: The folder is of something else (`refuse_foreign`).
        """
        self.refuse_foreign()
        for name in ("metrics.jsonl", "evaluations.jsonl"):
            files.keep_steps(self.path / name, step)
        for later in self.rollout_steps():
            if later > step:
                shutil.rmtree(self.rollout_folder(later))
        (self.path / "finished.json").unlink(missing_ok=True)

        later_checkpoints = []
        for path in self.path.glob("checkpoint-*"):
            saved_at = path.name.rpartition("-")[2]
            if saved_at.isdigit() and int(saved_at) > step:
                later_checkpoints.append(path)
        self._move(later_checkpoints)

    def set_aside(self) -> Path | None:
        """Move what an earlier run left to a folder of its own; None if it left nothing.

        Raises:
            InvalidInputError: The folder is of something else (`refuse_foreign`).
        """
        if not self.is_used:
            return None
        self.refuse_foreign()
        names = (*_SETTINGS, *_RESULTS)
        return self._move([path for name in names for path in self.path.glob(name)])

    def _move(self, paths: Sequence[Path]) -> Path | None:
        if not paths:
            return None
        names = (self.path / f"{_PREVIOUS}{number}" for number in itertools.count(1))
        aside = next(path for path in names if not path.exists())
        aside.mkdir()
        for path in paths:
            path.rename(aside / path.name)
        return aside

    @property
    def is_used(self) -> bool:
        """Whether a run recorded or saved anything here."""
        for name in _RESULTS:
            for path in self.path.glob(name):
                if any(path.iterdir()) if path.is_dir() else path.stat().st_size > 0:
                    return True
        return False

    def write_rollouts(
        self, step: int, columns: Mapping[str, Sequence[Any]], part: Part = WHOLE
    ) -> None:
        """Write rollouts that were generated for an optimiser step, one row each.

        The columns are those of columns.py except "step", without any optional ones, and one
        "rewards/<function>" per reward function; None or NaN is no value. Without a part they are
        all of the step.
        """
        data = as_parquet(step, columns)
        files.write_whole(self.rollout_folder(step) / part.file_name, data)

    def rollout_steps(self) -> list[int]:
        """The steps whose rollouts were written, in ascending order."""
        paths = (self.path / "rollouts").glob("step_*/*.parquet")
        return sorted({int(path.parent.name.removeprefix("step_")) for path in paths})

    def rollout_parts(self, step: int) -> list[Path]:
        """The files of a step, in the order of its groups and rollouts.

        Raises:
            InvalidInputError: A process's part is missing, as after a kill, or in a folder that not
                all processes of the run wrote to.
        """
        paths: dict[Part, Path] = {}
        there: dict[tuple[int, int], set[int]] = defaultdict(set)
        for path in self.rollout_folder(step).glob("*.parquet"):
            if (part := Part.of(path.name)) is not None:
                paths[part] = path
                there[part.generation, part.world].add(part.process)

        for (_, world), processes in there.items():
            if missing := sorted(set(range(world)) - processes):
                ranks = ", ".join(map(str, missing))
                raise InvalidInputError(
                    f"{self.rollout_folder(step)} lacks the parts of ranks {ranks} of {world}: the"
                    " run was killed, or not all of its processes wrote to this folder"
                )
        order = sorted(paths, key=lambda part: (part.generation, part.process))
        return [paths[part] for part in order]

    def rollouts(self, step: int) -> Any:
        """The table of a step; None, with a `DamagedFileWarning`, if not all of it can be read."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        # What the warning names: the step's folder, or the one of its files that can't be read.
        folder = self.rollout_folder(step)
        damaged = folder
        try:
            tables = []
            for damaged in self.rollout_parts(step):
                tables.append(pq.read_table(damaged))

            damaged = folder
            table = pa.concat_tables(tables, promote_options="default")
            if {column.name for column in REQUIRED} <= set(table.column_names):
                return table
            problem = f"its columns are {', '.join(table.column_names)}"
        except (ValueError, OSError, pa.ArrowException) as error:
            problem = str(error)

        what = f"{damaged} is damaged and the step was skipped: {problem}"
        warnings.warn(what, DamagedFileWarning, 2)
        return None

    def rollout_count(self, step: int) -> int:
        """The number of rollouts of a step that were written; 0 if any of its files is damaged."""
        import pyarrow.parquet as pq

        try:
            return sum(pq.read_metadata(path).num_rows for path in self.rollout_parts(step))
        except (ValueError, OSError):  # `rollouts` tells
            return 0

    def delete_parts(self, step: int, process: int, world: int) -> None:
        """Delete a process's parts of a step, and those of processes that an earlier start had.

        The step's folder stays, as another process may be writing into it; `sweep` removes it.
        """
        for path in self.rollout_folder(step).glob("*.parquet"):
            part = Part.of(path.name)
            if part is not None and part.process % world == process:
                path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove the folders of steps whose parts were all deleted; no process may be writing."""
        for folder in (self.path / "rollouts").glob("step_*"):
            with suppress(OSError):  # it is not empty
                folder.rmdir()

    def finish(self, arm: str, seed: int, steps: int, training_seconds: float) -> None:
        """Write finished.json: this run is complete."""
        value = {"arm": arm, "seed": seed, "steps": steps, "training_seconds": training_seconds}
        files.write_json(self.path / "finished.json", value)

    def finished(self) -> dict[str, Any] | None:
        """The mapping that `finish` wrote; None for a run that is not complete."""
        return files.read_json(self.path / "finished.json")

    def rollout_folder(self, step: int) -> Path:
        """Where the rollouts of a step are."""
        return self.path / "rollouts" / f"step_{step:06d}"


def as_parquet(step: int, columns: Mapping[str, Sequence[Any]]) -> bytes:
    """The rollouts of a step as a parquet file, from what `RunFolder.write_rollouts` takes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"step": [step] * len(columns["group"]), **columns}
    arrays = {
        name: pa.array(columns[name], arrow_type(kind), from_pandas=True)
        for name, kind in column_kinds(list(columns)).items()
    }
    buffer = io.BytesIO()
    # Only prompts and images repeat; dictionaries of the other columns cost time and space.
    repeated = [name for name in ("prompt", "images") if name in arrays]
    pq.write_table(pa.table(arrays), buffer, compression="zstd", use_dictionary=repeated)
    return buffer.getvalue()


def arrow_type(kind: str) -> Any:
    """The Arrow type of a column, from its name in columns.py."""
    import pyarrow as pa

    inner = re.fullmatch(r"list<(.+)>", kind)
    return pa.list_(pa.type_for_alias(inner[1])) if inner else pa.type_for_alias(kind)


def find_runs(folder: str | Path) -> list[RunFolder]:
    """The runs in a folder and below, by path; the folder itself may be a run, set aside or not."""
    folder = Path(folder)
    runs = []
    for path in sorted(folder.rglob("config.yaml")):
        if path.parent.relative_to(folder).name.startswith((_PREVIOUS, ".")):
            continue
        run = RunFolder(path.parent)
        if path.parent == folder or run.is_run:
            runs.append(run)
        else:
            logger.warning("%s is no run's, as it names no arm, and was skipped", path)
    if not runs:
        raise InvalidInputError(
            f"no run in {folder}: no config.yaml in it or below; give a trainer's output_dir"
        )
    return runs
