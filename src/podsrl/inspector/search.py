"""Filters over all rollouts, and pages of what they find, newest steps first.

Numbers are filtered in the index, whatever the size of the run. Texts are not in it: a search for
words reads the files, newest steps first, for a second or two, says how far it came, and goes on
from there when it is asked to.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

from podsrl.errors import InvalidInputError
from podsrl.inspector.dataset import Dataset, IndexedFile, Run, no_glob, quoted

#: Rollouts on a page of results.
PAGE = 50
#: Seconds that one request reads texts.
_SECONDS = 1.2
_SNIPPET_SECONDS = 0.8
#: Rollouts in a file that is downloaded.
DOWNLOAD = 100_000
_ROWS = 1_000  # of a download at a time: DuckDB sorts them in memory, with their texts
_PARQUET = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROWS}"
_SNIPPET = 400  # characters
#: A cell of these begins a formula in programs for tables; a completion must not be one.
_FORMULA = "^[=+\\-@\\t\\r]"


@dataclass(frozen=True)
class Query:
    """What to look for; None: anything.

    Args:
        run: The name of a run.
        text: Words that stand in the completion or in a turn, in any case.
        first_step, last_step: Bounds of the step, included; so are the other bounds.
        reward_min, reward_max: Bounds of the reward.
        tokens_min, tokens_max: Bounds of the completion's length.
        kept: Whether it was kept.
        cut_off: Whether it has all the tokens that the run allows (TRL's runs only).
        function: A reward function; part_min and part_max are bounds of its value.
    """

    run: str | None = None
    text: str | None = None
    first_step: int | None = None
    last_step: int | None = None
    reward_min: float | None = None
    reward_max: float | None = None
    tokens_min: int | None = None
    tokens_max: int | None = None
    kept: bool | None = None
    cut_off: bool | None = None
    function: str | None = None
    part_min: float | None = None
    part_max: float | None = None

    @classmethod
    def of(cls, words: Mapping[str, str]) -> "Query":
        """From the words of an address; an empty one is left out, and an unknown one ignored."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            word = words.get(field.name, "")
            if word:
                kind, _ = get_args(field.type)  # such as int | None
                values[field.name] = _read(field.name, word, kind)
        return cls(**values)


def _read(name: str, word: str, kind: type) -> Any:
    """The value of a filter from the word in an address."""
    if kind is bool:
        if word not in ("0", "1"):
            raise InvalidInputError(f"{name} must be 0 or 1; got {word!r}")
        return word == "1"
    try:
        return kind(word)
    except ValueError as error:
        raise InvalidInputError(f"{name} must be a number; got {word!r}") from error


def search(dataset: Dataset, query: Query, before: str = "") -> dict[str, Any]:
    """A page of results, and the words for `before` that ask for the next one; "" if none is left.

    Args:
        dataset: The runs.
        query: The filters.
        before: Where the last page ended.
    """
    if query.text:
        return _search_texts(dataset, query, before)
    return _search_numbers(dataset, query, before)


def _search_numbers(dataset: Dataset, query: Query, before: str) -> dict[str, Any]:
    where, values = _conditions(dataset, query, before)

    # One more than the page shows says whether there is another page.
    found = dataset.rows(
        f"SELECT {_COLUMNS} FROM rollouts WHERE {where}"
        f" ORDER BY step DESC, run, grp, rollout LIMIT {PAGE + 1}",
        values,
    )
    rows = found[:PAGE]
    _add_snippets(dataset, rows)

    total = None
    if not before:
        [of_all] = dataset.rows(f"SELECT count(*) AS n FROM rollouts WHERE {where}", values)
        total = of_all["n"]

    return {
        "rows": _named(dataset, rows),
        "before": _place_of(rows[-1]) if len(found) > PAGE else "",
        "total": total,
        "read": None,
    }


def _search_texts(dataset: Dataset, query: Query, before: str) -> dict[str, Any]:
    """Read the texts of one step after the other, newest first, until the page or time is full."""
    steps = _steps(dataset, query, before)

    rows: list[dict[str, Any]] = []
    read: list[int] = []
    finished = 0
    after = ""
    end = time.monotonic() + _SECONDS
    for of_step in steps:
        room = PAGE - len(rows)
        found = _rows_with_text(
            dataset,
            query,
            of_step,
            columns=f"found.*, {_AROUND_TEXT}",
            most=room + 1,
            before=before,
        )
        rows += found[:room]
        read.append(of_step["step"])

        # The next page goes on within this step.
        if len(found) > room:
            after = _place_of(rows[-1])
            break

        finished += 1
        after = _end_of(of_step)
        if len(rows) == PAGE or time.monotonic() > end:
            break

    left = len(steps) - finished
    return {
        "rows": _named(dataset, rows),
        "before": after if left else "",
        "total": None,
        "read": {
            "from": read[-1] if read else None,
            "to": read[0] if read else None,
            "left": left,
        },
    }


_COLUMNS = 'run, step, grp AS "group", rollout, reward, kept, advantage, tokens'
#: The text around the words, for `_rows_with_text`.
_AROUND_TEXT = (
    "substr(completion, greatest(1, position(lower($text) IN lower(completion)) - 100),"
    f" {_SNIPPET}) AS snippet"
)


def _steps(dataset: Dataset, query: Query, before: str = "") -> list[dict[str, Any]]:
    """The steps of runs that have rollouts with such numbers, newest first."""
    where, values = _conditions(dataset, query, before)
    return dataset.rows(
        f"SELECT DISTINCT step, run FROM rollouts WHERE {where} ORDER BY step DESC, run", values
    )


def _rows_with_text(
    dataset: Dataset,
    query: Query,
    of_step: Mapping[str, Any],
    columns: str,
    most: int,
    before: str = "",
) -> list[dict[str, Any]]:
    """The rollouts of a step that match in numbers and text.

    Args:
        dataset: The runs.
        query: The filters.
        of_step: The step and the number of its run.
        columns: What to get of each rollout, as SQL; `found` has its numbers.
        most: How many to get, the first ones by group and rollout.
        before: Where the last page ended.
    """
    run, step = of_step["run"], of_step["step"]
    files = dataset.runs[run].files_of([step])
    where, values = _conditions(dataset, query, before)

    return dataset.rows(
        f"WITH found AS (SELECT {_COLUMNS} FROM rollouts"
        f" WHERE {where} AND run = $of_run AND step = $of_step)"
        f" SELECT {columns}"
        ' FROM read_parquet($paths, union_by_name=true) AS read JOIN found USING ("group", rollout)'
        f" WHERE read.step = $of_step AND ({_has_text(files)})"
        f' ORDER BY "group", rollout LIMIT {most}',
        {
            **values,
            "of_run": run,
            "of_step": step,
            "text": query.text,
            "paths": [no_glob(file.readable) for file in files],
        },
    )


def _has_text(files: Sequence[IndexedFile]) -> str:
    """The condition that a rollout says $text, in its answer or in any of its turns."""
    texts = ["completion"]
    if any("turns" in file.columns for file in files):
        texts.append("turns")
    return " OR ".join(f"contains(lower({text}), lower($text))" for text in texts)


def _add_snippets(dataset: Dataset, rows: Sequence[dict[str, Any]]) -> None:
    """The beginnings of the completions, step by step; None of those for which there is no time.

    Rare rollouts are each of another step, whose texts are read as a whole.
    """
    by_step: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        by_step.setdefault((row["run"], row["step"]), []).append(row)

    end = time.monotonic() + _SNIPPET_SECONDS
    for (run, step), of_step in by_step.items():
        if time.monotonic() > end:
            return
        groups = {row["group"] for row in of_step}
        texts = dataset.texts(
            dataset.runs[run], step, sorted(groups), ["completion"], length=_SNIPPET
        )
        text_of = {(text["group"], text["rollout"]): text["completion"] for text in texts}
        for row in of_step:
            row["snippet"] = text_of.get((row["group"], row["rollout"]))


def _conditions(dataset: Dataset, query: Query, before: str = "") -> tuple[str, dict[str, Any]]:
    """The filters on numbers, as SQL and the values that it names.

    Args:
        dataset: The runs.
        query: The filters.
        before: Where the last page ended; rollouts up to there are left out.
    """
    where = ["true"]
    values: dict[str, Any] = {}

    def add(condition: str, name: str, value: Any) -> None:
        if value is not None:
            where.append(condition)
            values[name] = value

    if query.run is not None:
        add("run = $run", "run", dataset.run_named(query.run).number)

    add("step >= $first_step", "first_step", query.first_step)
    add("step <= $last_step", "last_step", query.last_step)
    add("reward >= $reward_min", "reward_min", query.reward_min)
    add("reward <= $reward_max", "reward_max", query.reward_max)
    add("tokens >= $tokens_min", "tokens_min", query.tokens_min)
    add("tokens <= $tokens_max", "tokens_max", query.tokens_max)
    add("kept = $kept", "kept", query.kept)

    if query.cut_off is not None:
        where.append(_cut_off(dataset.runs, query.cut_off))
    if query.function is not None:
        part = _part(dataset.runs, query.function)
        where.append(f"{part} IS NOT NULL")
        add(f"{part} >= $part_min", "part_min", query.part_min)
        add(f"{part} <= $part_max", "part_max", query.part_max)

    if before:
        step, *rest = _place(before)
        place = {f"place_{number}": value for number, value in enumerate([-step, *rest])}
        columns = ("-step", "run", "grp", "rollout")[: len(place)]
        where.append(f"({', '.join(columns)}) > ({', '.join(f'${name}' for name in place)})")
        values |= place

    return " AND ".join(where), values


def _cut_off(runs: Sequence[Run], wanted: bool) -> str:
    """Whether a rollout has as many tokens as its run allows; never, where that is not known."""
    of_runs = [
        f"(run = {run.number} AND tokens >= {run.source.longest})"
        for run in runs
        if run.source.longest is not None
    ]
    is_cut_off = f"coalesce({' OR '.join(of_runs) or 'false'}, false)"
    return is_cut_off if wanted else f"NOT {is_cut_off}"


def _part(runs: Sequence[Run], function: str) -> str:
    """The value of a reward function, whose place differs from run to run."""
    places = [
        f"WHEN {run.number} THEN parts[{run.functions.index(function) + 1}]"
        for run in runs
        if function in run.functions
    ]
    if not places:
        known = sorted({name for run in runs for name in run.functions})
        raise InvalidInputError(f"no reward function {function!r}; there are {', '.join(known)}")
    return f"(CASE run {' '.join(places)} END)"


def _named(dataset: Dataset, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "run": dataset.runs[row["run"]].source.name} for row in rows]


def _place_of(row: Mapping[str, Any]) -> str:
    """The place of a rollout among all results, as `_place` reads it."""
    return f"{row['step']},{row['run']},{row['group']},{row['rollout']}"


def _end_of(of_step: Mapping[str, Any]) -> str:
    """The place after all rollouts of a step, as `_place` reads it."""
    return f"{of_step['step']},{of_step['run']}"


def _place(words: str) -> list[int]:
    """A step and a run; then also a group and a rollout, unless it is the end of the step."""
    try:
        numbers = [int(word) for word in words.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 4):
        raise InvalidInputError(f"before={words!r} is no place in these results")
    return numbers


def write_results(dataset: Dataset, query: Query, kind: str, folder: Path) -> Path:
    """All that a query finds, `DOWNLOAD` rollouts at most, newest first, as csv or parquet.

    Texts in CSV that a program for tables would take for a formula begin with an apostrophe.
    """
    if kind not in ("csv", "parquet"):
        raise InvalidInputError(f"format must be csv or parquet; got {kind!r}")

    parts: list[Path] = []
    left = DOWNLOAD
    for of_step in _steps(dataset, query):
        places = _places_in_step(dataset, query, of_step, left)
        for first in range(0, len(places), _ROWS):
            part = folder / f"{len(parts)}.parquet"
            _write_rollouts(dataset, of_step, places[first : first + _ROWS], part)
            parts.append(part)

        left -= len(places)
        if not left:
            break

    if not parts:
        raise InvalidInputError("nothing was found that could be downloaded")

    cursor = dataset.cursor()
    target = folder / f"rollouts.{kind}"
    columns = "*"
    options = _PARQUET
    if kind == "csv":
        columns = f"* REPLACE ({_without_formulas(cursor, parts)})"
        options = "FORMAT csv, HEADER"
    cursor.execute(
        f"COPY (SELECT {columns} FROM read_parquet($parts, union_by_name=true))"
        f" TO $target ({options})",
        {"parts": list(map(str, parts)), "target": str(target)},
    )
    return target


def _without_formulas(cursor: Any, parts: Sequence[Path]) -> str:
    """The columns of text, each as a text that is no formula."""
    described = cursor.execute(
        "DESCRIBE SELECT * FROM read_parquet(?, union_by_name=true)", [list(map(str, parts))]
    ).fetchall()
    texts = [quoted(name) for name, type_, *_ in described if type_ == "VARCHAR"]
    return ", ".join(
        f"CASE WHEN regexp_matches({text}, '{_FORMULA}') THEN '''' || {text} ELSE {text} END"
        f" AS {text}"
        for text in texts
    )


def _places_in_step(
    dataset: Dataset, query: Query, of_step: Mapping[str, Any], most: int
) -> list[dict[str, Any]]:
    """The group and rollout of what a query finds in a step; the first `most` of them."""
    # The index knows the numbers, and the files know the texts.
    if query.text:
        return _rows_with_text(dataset, query, of_step, columns='"group", rollout', most=most)

    where, values = _conditions(dataset, query)
    return dataset.rows(
        'SELECT grp AS "group", rollout FROM rollouts'
        f" WHERE {where} AND run = $of_run AND step = $of_step"
        f" ORDER BY grp, rollout LIMIT {most}",
        {**values, "of_run": of_step["run"], "of_step": of_step["step"]},
    )


def _write_rollouts(
    dataset: Dataset,
    of_step: Mapping[str, Any],
    places: Sequence[Mapping[str, Any]],
    target: Path,
) -> None:
    """Write rollouts of a step, with all their columns, to a file of their own."""
    run = dataset.runs[of_step["run"]]
    files = run.files_of([of_step["step"]])

    dataset.cursor().execute(
        "COPY (SELECT $name AS run, read.* FROM read_parquet($paths, union_by_name=true) AS read"
        ' JOIN (SELECT unnest($groups) AS "group", unnest($rollouts) AS rollout) AS found'
        ' USING ("group", rollout)'
        ' WHERE read.step = $step ORDER BY "group", rollout)'
        f" TO $target ({_PARQUET})",
        {
            "name": run.source.name,
            "step": of_step["step"],
            "paths": [no_glob(file.readable) for file in files],
            "groups": [place["group"] for place in places],
            "rollouts": [place["rollout"] for place in places],
            "target": str(target),
        },
    )
