"""Finding the sources in a path."""

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from podsrl.errors import InvalidInputError
from podsrl.inspector.sources import inspect_log, ms_swift, nemo_rl, torchtitan, traces, trl, verl
from podsrl.inspector.sources.any_file import SUFFIXES, AnyFiles, sources_of_files
from podsrl.inspector.sources.base import Options, Source, entries
from podsrl.inspector.sources.slime import SlimeDump, slime_folder
from podsrl.inspector.sources.trackio import TrackioTraces, trackio_runs
from podsrl.inspector.sources.trained_run import TrainedRun, WaitingFolder, is_trained_run

#: What a path may be, for messages.
_ALLOWED = (
    "a trainer's output_dir, a folder of runs, or what TRL, verl, slime, prime-rl, ms-swift,"
    " NeMo-RL, TorchTitan, Trackio, verifiers or Inspect wrote; or JSONL or parquet with prompt,"
    " completion and reward"
)
#: Folders in which no run is looked for.
_NOT_RUNS = ("previous-", "checkpoint", "global_step_", "wandb", "node_modules", "__pycache__")
_MOST_FOLDERS = 20_000


def find_sources(paths: Sequence[Path], options: Options) -> list[Source]:
    """The sources in these paths, each with a name that tells it from the others.

    Raises:
        InvalidInputError: A path holds nothing that can be opened; the message says what can.
    """
    found: list[Source] = []
    for path in paths:
        of_path = _sources_of(path, options)
        for source in of_path:
            source.name = _name(source, path, several=len(paths) > 1)
        found += of_path

    found = _each_once(found)
    for place, source in enumerate(found):
        earlier = [other.name for other in found[:place]]
        if source.name in earlier:  # two folders of one name
            source.name = " ".join(source.key)
    return found


def _each_once(sources: Sequence[Source]) -> list[Source]:
    """The sources without second ways to one: a link, such as `latest`, gives way to the run."""

    def is_by_link(source: Source) -> bool:
        return source.path.absolute() != source.path.resolve()

    chosen: dict[tuple[str, ...], Source] = {}
    for source in sorted(sources, key=is_by_link):
        chosen.setdefault(source.key, source)
    return [source for source in sources if chosen[source.key] is source]


def _name(source: Source, given: Path, several: bool) -> str:
    """A run by its path below the folder that was given; links are named as they are."""
    name = Path(os.path.abspath(given)).name
    below = source.path.relative_to(given)
    if isinstance(source, TrackioTraces):
        below = below / source.run
    if not below.parts:
        return name
    return str(Path(name) / below) if several else str(below)


def _sources_of(path: Path, options: Options) -> list[Source]:
    if not path.exists():
        raise InvalidInputError(
            f"there is no {path}{_near(path)}. If a run will begin there, make the folder first;"
            f" else give {_ALLOWED}"
        )
    if path.is_file():
        return _sources_of_file(path, options)

    found = _detect(path, options)
    if found is None and (path / "config.yaml").is_file():
        found = [TrainedRun(path)]
    if found is None and _is_checkpoint(path):
        raise InvalidInputError(
            f"{path} is a checkpoint, and has no rollouts; give the run's folder, {path.parent}"
        )
    if found is None:
        found = _below(path, options)
    if not found:
        found = list(sources_of_files(path, options))
    if not found and _may_be_about_to_begin(path):
        return [WaitingFolder(path)]
    if not found:
        raise InvalidInputError(f"no run in {path}, nor rollouts that can be read; give {_ALLOWED}")
    return found


def _sources_of_file(path: Path, options: Options) -> list[Source]:
    if path.suffix == ".db" and (runs := trackio_runs(path, options)):
        return list(runs)
    if inspect_log.is_inspect(path):
        return [inspect_log.InspectLog(path, options)]
    if path.suffix not in SUFFIXES:
        raise InvalidInputError(f"{path} has no rollouts that can be read; give {_ALLOWED}")
    return _files_own_format(path, options) or [AnyFiles(path, options)]


def _files_own_format(path: Path, options: Options) -> list[Source] | None:
    """The format of a file, or of a folder that has such files; None if it is none of these."""
    if trl.is_trl(path):
        return [trl.TrlCompletions(path, options)]
    if ms_swift.is_swift(path):
        return [ms_swift.SwiftCompletions(path, options)]
    if nemo_rl.is_nemo(path):
        return [nemo_rl.NemoRollouts(path, options)]
    if torchtitan.is_titan(path):
        return [torchtitan.TitanSamples(path, options)]
    if traces.is_traces(path):
        return [traces.VerifiersTraces(path, options)]
    return None


def _detect(folder: Path, options: Options) -> list[Source] | None:
    """The sources that a folder itself is; None if it is none, and may have some below it."""
    if is_trained_run(folder):
        return [TrainedRun(folder)]
    if traces.is_prime(folder):
        return [traces.PrimeRun(folder, options)]
    if found := _files_own_format(folder, options):
        return found
    if verl.is_verl(folder):
        return [verl.VerlDump(folder, options)]
    if slime := slime_folder(folder):
        return [SlimeDump(slime, options)]
    if runs := trackio_runs(folder, options):
        return list(runs)
    logs = [Path(entry.path) for entry in entries(folder) if entry.is_file()]
    if logs := [path for path in logs if inspect_log.is_inspect(path)]:
        return [inspect_log.InspectLog(path, options) for path in logs]
    if (folder / "results.jsonl").is_file():  # verifiers' before 0.4
        return [AnyFiles(folder / "results.jsonl", options)]
    if (folder / "config.yaml").is_file() and _names_arm(folder / "config.yaml"):
        return [TrainedRun(folder)]  # which has not written any rollouts yet
    return None


def _names_arm(config: Path) -> bool:
    return any(line.startswith(b"arm:") for line in config.read_bytes().splitlines())


def _below(folder: Path, options: Options) -> list[Source]:
    """The sources in the folders below one; nothing is looked for below a run."""
    found: list[Source] = []
    waiting = [folder]
    seen = 0
    while waiting and seen < _MOST_FOLDERS:
        for entry in entries(waiting.pop(0)):
            if not entry.is_dir() or entry.name.startswith(_NOT_RUNS):
                continue
            seen += 1
            child = Path(entry.path)
            sources = _detect(child, options)
            if sources is None:
                waiting.append(child)
            else:
                found += sources
    return sorted(found, key=lambda source: _by_number(str(source.path)))


def _by_number(name: str) -> list[tuple[int, str]]:
    """A key that sorts seed-2 before seed-10."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _may_be_about_to_begin(folder: Path) -> bool:
    """Whether a folder has no file yet, or TRL's folder of tables without any table yet."""
    if (folder / "completions").is_dir() and not entries(folder / "completions"):
        return True
    return not any(entry.is_file() for entry in entries(folder)) and not any(
        entries(Path(entry.path)) for entry in entries(folder)
    )


def _is_checkpoint(folder: Path) -> bool:
    return (folder / "trainer_state.json").is_file() or (folder / "optimizer.pt").is_file()


def _near(path: Path) -> str:
    """The name of a neighbour that is nearly the same."""
    names = [entry.name for entry in entries(path.parent)]
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""
