"""Trackio's traces: the table `traces` of a project's database, `<project>.db` in its folder.

A trace has OpenAI-style messages, and `metadata` with what the trainer wrote. TRL's asynchronous
trainer and verl write reward, advantage, group_id, model_version, completion_tokens and
`rewards/<function>` (Trackio 0.43). A project has several runs: each is a source.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from podsrl.errors import InvalidInputError
from podsrl.inspector.fields import split_conversation
from podsrl.inspector.sources.base import KnownFormat, Options, RolloutFile, entries, listed
from podsrl.rollout_log.columns import REWARD_PREFIX


class TrackioTraces(KnownFormat):
    """The traces of a run.

    Args:
        path: The project's database.
        options: How to read what it does not say.
        run: The name of the run.
    """

    format = "Trackio's traces"
    words: ClassVar[Mapping[str, str]] = {
        "prompt": "the messages until the model first speaks",
        "completion": "the messages from there on",
        "reward": "`metadata.reward`",
        "group": "`metadata.group_id`, else rollouts of one prompt text and step",
        "step": "the step of the trace",
    }

    def __init__(self, path: Path, options: Options, run: str) -> None:
        super().__init__(path, options)
        self.run = run

    @property
    def key(self) -> tuple[str, ...]:
        """The database and the run."""
        return (*super().key, self.run)

    @property
    def notes_file(self) -> Path:
        """Beside the database, for each run."""
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in self.run)
        return self.path.with_name(f"{self.path.name}.{safe}.podsrl-notes.jsonl")

    def files(self) -> list[RolloutFile]:
        """The database, with what was written to its log."""
        [*found] = listed([self.path])
        for log in listed([self.path.with_name(f"{self.path.name}-wal")]):
            found = [
                RolloutFile(file.path, max(file.modified, log.modified), file.size + log.size)
                for file in found
            ]
        return found

    def rollouts(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The traces of the run, by step."""
        query = (
            "SELECT step, messages, metadata FROM traces WHERE run_name = ?"
            " ORDER BY step, key, log_id, trace_index"
        )
        with closing(_connect(path)) as database:
            for step, messages, metadata in database.execute(query, [self.run]):
                said = json.loads(metadata)
                prompt, completion = split_conversation(json.loads(messages))
                yield self.as_said(
                    {"metadata": said, "step": step},
                    {
                        "step": step,
                        "group": said.get("group_id"),
                        "prompt": prompt,
                        "completion": completion or [],
                        "reward": said.get("reward"),
                        "advantage": said.get("advantage"),
                        "kept": said.get("kept"),
                        "answer": said.get("answer"),
                        "tokens": said.get("completion_tokens"),
                        **{k: v for k, v in said.items() if k.startswith(REWARD_PREFIX)},
                    },
                )


def trackio_runs(path: Path, options: Options) -> list[TrackioTraces]:
    """The runs with traces of a database, or of all databases in a folder."""
    if path.is_dir():
        databases = [Path(entry.path) for entry in entries(path) if entry.name.endswith(".db")]
        return [run for database in databases for run in trackio_runs(database, options)]
    try:
        with closing(_connect(path)) as database:
            names = database.execute("SELECT DISTINCT run_name FROM traces ORDER BY 1").fetchall()
    except sqlite3.Error:  # of another program, or of a Trackio without traces
        return []
    return [TrackioTraces(path, options, name) for (name,) in names]


def _connect(path: Path) -> sqlite3.Connection:
    """A database that is only read."""
    try:
        return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise InvalidInputError(f"{path} can't be read as a database: {error}") from error
