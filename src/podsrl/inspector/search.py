"""Filters over all rollouts, and pages of what they find, newest steps first.

Numbers are filtered in the index, whatever the size of the run. Texts are not in it: a search for
words reads the files, newest steps first, for a second or two, says how far it came, and goes on
from there when it is asked to.
"""

import time
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import duckdb

from podsrl.errors import InvalidInputError, suggestion
from podsrl.inspector.answers import named_runs, texts_of
from podsrl.inspector.index import Index, IndexedFile, Run, no_glob, quoted, read_parquet
from podsrl.rollout_log.columns import FILTERS, INDEXED

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


#: The words of a query beside those that the list of columns gives.
_WORDS = (
    "run",
    "text",
    "pattern",
    "function",
    "part_min",
    "part_max",
    "label",
    "check_min",
    "check_max",
)


class Query:
    """A search, in the words that an address has for it.

    Each column with a filter gives words of its own: `<name>_min` and `<name>_max` for a number,
    bounds included, or `<name>` for yes or no (1 or 0). Beside them there are:

    * run: the name of a run;
    * text: words that stand in the completion or in a turn, in any case;
    * pattern: a regular expression (RE2) that is found there, in any case;
    * function, part_min, part_max: a reward function, and bounds of its value;
    * label: a label that somebody gave; "*" for any label or note;
    * check_min, check_max: bounds of what the user's own check says.

    Raises:
        InvalidInputError: A value is of a wrong kind, or both text and pattern are given.
    """

    def __init__(self, **words: Any) -> None:
        known = {*_WORDS, *words_of_columns()}
        if unknown := sorted(set(words) - known):
            raise InvalidInputError(
                f"no filter {unknown[0]!r}; {suggestion(unknown[0], sorted(known))}"
            )
        given = {name: value for name, value in words.items() if value not in (None, "")}

        self.run: str | None = given.pop("run", None)
        self.text: str | None = given.pop("text", None)
        self.pattern: str | None = given.pop("pattern", None)
        self.function: str | None = given.pop("function", None)
        self.label: str | None = given.pop("label", None)
        self.values = {name: _read(name, value) for name, value in given.items()}
        if self.text and self.pattern:
            raise InvalidInputError("give text or pattern, and not both")

    @classmethod
    def of(cls, words: Mapping[str, str]) -> "Query":
        """From the words of an address; an unknown one is ignored."""
        known = {*_WORDS, *words_of_columns()}
        return cls(**{name: word for name, word in words.items() if name in known})

    def has_step(self, step: int) -> bool:
        """Whether a step is within the bounds."""
        low, high = (self.values.get(name) for name in ("step_min", "step_max"))
        return (low is None or step >= low) and (high is None or step <= high)

    def between(self, first: int, last: int) -> "Query":
        """The same query of a part of the steps, which lie within its bounds."""
        part = copy(self)
        part.values = {**self.values, "step_min": first, "step_max": last}
        return part

    @property
    def reads_texts(self) -> bool:
        """Whether the files have to be read."""
        return bool(self.text or self.pattern)


def words_of_columns() -> dict[str, str]:
    """The words of a query that the list of columns gives, with their conditions in SQL."""
    found = {}
    for column in FILTERS:
        if column.filter == "number":
            found[f"{column.name}_min"] = f"{column.in_sql} >= ${column.name}_min"
            found[f"{column.name}_max"] = f"{column.in_sql} <= ${column.name}_max"
        else:
            found[column.name] = f"coalesce({column.in_sql}, false) = ${column.name}"
    return found


def _read(name: str, value: Any) -> Any:
    """The value of a filter from the word in an address."""
    if any(column.name == name for column in FILTERS):
        if str(value) not in ("0", "1", "False", "True"):
            raise InvalidInputError(f"{name} must be 0 or 1; got {value!r}")
        return str(value) in ("1", "True")
    try:
        return float(value)
    except ValueError as error:
        raise InvalidInputError(f"{name} must be a number; got {value!r}") from error


def search(index: Index, query: Query, before: str = "") -> dict[str, Any]:
    """A page of results, and the words for `before` that ask for the next one; "" if none is left.

    Args:
        index: The runs.
        query: The filters.
        before: Where the last page ended.
    """
    _refuse_no_pattern(index, query)
    if query.reads_texts:
        return _search_texts(index, query, before)
    return _search_numbers(index, query, before)


def _refuse_no_pattern(index: Index, query: Query) -> None:
    """Refuse a pattern that RE2 does not know, such as one that refers back to a group."""
    if query.pattern is None:
        return
    try:
        index.rows("SELECT regexp_matches('', $text)", {"text": _sought(query)})
    except duckdb.Error as error:
        reason = str(error).partition("Error: ")[2] or str(error)
        raise InvalidInputError(
            f"pattern {query.pattern!r} is none that can be searched for: {reason}"
        ) from error


def _search_numbers(index: Index, query: Query, before: str) -> dict[str, Any]:
    where, values = _conditions(index, query, before)

    # One more than the page shows says whether there is another page.
    found = index.rows(
        f"SELECT {_COLUMNS} FROM rollouts WHERE {where}"
        f' ORDER BY step DESC, run, "group", rollout LIMIT {PAGE + 1}',
        values,
    )
    rows = found[:PAGE]
    _add_snippets(index, rows)

    total = None
    if not before:
        [of_all] = index.rows(f"SELECT count(*) AS n FROM rollouts WHERE {where}", values)
        total = of_all["n"]

    return {
        "rows": named_runs(index, rows),
        "before": _place_of(rows[-1]) if len(found) > PAGE else "",
        "total": total,
        "read": None,
    }


def _search_texts(index: Index, query: Query, before: str) -> dict[str, Any]:
    """Read the texts of one step after the other, newest first, until the page or time is full."""
    steps = _steps(index, query, before)

    rows: list[dict[str, Any]] = []
    read: list[int] = []
    finished = 0
    after = ""
    end = time.monotonic() + _SECONDS
    for of_step in steps:
        room = PAGE - len(rows)
        found = _rows_with_text(
            index,
            query,
            of_step,
            columns=f"found.*, {_around(query)}",
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
        "rows": named_runs(index, rows),
        "before": after if left else "",
        "total": None,
        "read": {
            "from": read[-1] if read else None,
            "to": read[0] if read else None,
            "left": left,
        },
    }


_COLUMNS = ", ".join(["run", *(column.in_sql for column in INDEXED)])
#: The text around what is sought, for `_rows_with_text`, and what of it was found.
_AROUND_TEXT = (
    "substr(completion, greatest(1, position(lower({found}) IN lower(completion)) - 100),"
    f" {_SNIPPET}) AS snippet, {{found}} AS matched"
)
_CHECKS = {
    f"check_{end}": '(run, step, "group", rollout) IN (SELECT (run, step, "group", rollout)'
    f" FROM checks WHERE value {sign} $check_{end})"
    for end, sign in (("min", ">="), ("max", "<="))
}
_LABELLED = (
    '(run, step, "group", rollout) IN (SELECT (run, step, "group", rollout) FROM marks'
    " WHERE $label = '*' OR label = $label)"
)


def _around(query: Query) -> str:
    found = "$text" if query.text else f"left(regexp_extract(completion, $text), {_SNIPPET})"
    return _AROUND_TEXT.format(found=found)


def _sought(query: Query) -> str | None:
    """The words, or the pattern as RE2 takes it: in any case, and over the ends of lines."""
    return f"(?is){query.pattern}" if query.pattern else query.text


def _steps(index: Index, query: Query, before: str = "") -> list[dict[str, Any]]:
    """The steps of runs that have rollouts with such numbers, newest first."""
    where, values = _conditions(index, query, before)
    return index.rows(
        f"SELECT DISTINCT step, run FROM rollouts WHERE {where} ORDER BY step DESC, run", values
    )


def _rows_with_text(
    index: Index,
    query: Query,
    of_step: Mapping[str, Any],
    columns: str,
    most: int,
    before: str = "",
) -> list[dict[str, Any]]:
    """The rollouts of a step that match in numbers and text.

    Args:
        index: The runs.
        query: The filters.
        of_step: The step and the number of its run.
        columns: What to get of each rollout, as SQL; `found` has its numbers.
        most: How many to get, the first ones by group and rollout.
        before: Where the last page ended.
    """
    run, step = of_step["run"], of_step["step"]
    files = index.runs[run].files_of([step])
    where, values = _conditions(index, query, before)

    return index.rows(
        f"WITH found AS (SELECT {_COLUMNS} FROM rollouts"
        f" WHERE {where} AND run = $of_run AND step = $of_step)"
        f" SELECT {columns}"
        f" FROM {read_parquet('$paths')} AS read"
        ' JOIN found USING ("group", rollout)'
        f" WHERE read.step = $of_step AND ({_has_text(query, files)})"
        f' ORDER BY "group", rollout LIMIT {most}',
        {
            **values,
            "of_run": run,
            "of_step": step,
            "text": _sought(query),
            "paths": [no_glob(file.readable) for file in files],
        },
    )


def _has_text(query: Query, files: Sequence[IndexedFile]) -> str:
    """The condition that a rollout says $text, in its answer or in any of its turns.

    A pattern is of RE2, whose time is in proportion to the text, whatever the pattern is.
    """
    texts = ["completion"]
    if any("turns" in file.columns for file in files):
        texts.append("turns")
    if query.pattern:
        return " OR ".join(f"regexp_matches({text}, $text)" for text in texts)
    return " OR ".join(f"contains(lower({text}), lower($text))" for text in texts)


def _add_snippets(index: Index, rows: Sequence[dict[str, Any]]) -> None:
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
        texts = texts_of(
            index, index.runs[run], step, sorted(groups), ["completion"], length=_SNIPPET
        )
        text_of = {(text["group"], text["rollout"]): text["completion"] for text in texts}
        for row in of_step:
            row["snippet"] = text_of.get((row["group"], row["rollout"]))


def _conditions(index: Index, query: Query, before: str = "") -> tuple[str, dict[str, Any]]:
    """The filters on numbers, as SQL and the values that it names.

    Args:
        index: The runs.
        query: The filters.
        before: Where the last page ended; rollouts up to there are left out.
    """
    where = ["true"]
    values: dict[str, Any] = {}

    if query.run is not None:
        where.append("run = $run")
        values["run"] = index.run_named(query.run).number

    conditions = words_of_columns() | _CHECKS
    for name, value in query.values.items():
        if name in conditions:
            where.append(conditions[name])
            values[name] = value
    if query.label is not None:
        where.append(_LABELLED)
        values["label"] = query.label
    if query.function is not None:
        part = _part(index.runs, query.function)
        where.append(f"{part} IS NOT NULL")
        for name, sign in (("part_min", ">="), ("part_max", "<=")):
            if name in query.values:
                where.append(f"{part} {sign} ${name}")
                values[name] = query.values[name]

    if before:
        step, *rest = _place(before)
        place = {f"place_{number}": value for number, value in enumerate([-step, *rest])}
        columns = ("-step", "run", '"group"', "rollout")[: len(place)]
        where.append(f"({', '.join(columns)}) > ({', '.join(f'${name}' for name in place)})")
        values |= place

    return " AND ".join(where), values


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


def write_results(index: Index, query: Query, kind: str, folder: Path) -> Path:
    """All that a query finds, `DOWNLOAD` rollouts at most, newest first, as csv or parquet.

    Texts in CSV that a program for tables would take for a formula begin with an apostrophe.
    """
    if kind not in ("csv", "parquet"):
        raise InvalidInputError(f"format must be csv or parquet; got {kind!r}")

    _refuse_no_pattern(index, query)
    parts: list[Path] = []
    left = DOWNLOAD
    for of_step in _steps(index, query):
        places = _places_in_step(index, query, of_step, left)
        for first in range(0, len(places), _ROWS):
            part = folder / f"{len(parts)}.parquet"
            _write_rollouts(index, of_step, places[first : first + _ROWS], part)
            parts.append(part)

        left -= len(places)
        if not left:
            break

    if not parts:
        raise InvalidInputError("nothing was found that could be downloaded")

    cursor = index.cursor()
    target = folder / f"rollouts.{kind}"
    columns = "*"
    options = _PARQUET
    if kind == "csv":
        columns = f"* REPLACE ({_without_formulas(cursor, parts)})"
        options = "FORMAT csv, HEADER"
    cursor.execute(
        f"COPY (SELECT {columns} FROM {read_parquet('$parts')}) TO $target ({options})",
        {"parts": list(map(str, parts)), "target": str(target)},
    )
    return target


def _without_formulas(cursor: Any, parts: Sequence[Path]) -> str:
    """The columns of text, each as a text that is no formula."""
    described = cursor.execute(
        f"DESCRIBE SELECT * FROM {read_parquet('?')}", [list(map(str, parts))]
    ).fetchall()
    texts = [quoted(name) for name, type_, *_ in described if type_ == "VARCHAR"]
    return ", ".join(
        f"CASE WHEN regexp_matches({text}, '{_FORMULA}') THEN '''' || {text} ELSE {text} END"
        f" AS {text}"
        for text in texts
    )


def _places_in_step(
    index: Index, query: Query, of_step: Mapping[str, Any], most: int
) -> list[dict[str, Any]]:
    """The group and rollout of what a query finds in a step; the first `most` of them."""
    # The index knows the numbers, and the files know the texts.
    if query.reads_texts:
        return _rows_with_text(index, query, of_step, columns='"group", rollout', most=most)

    where, values = _conditions(index, query)
    return index.rows(
        'SELECT "group", rollout FROM rollouts'
        f" WHERE {where} AND run = $of_run AND step = $of_step"
        f' ORDER BY "group", rollout LIMIT {most}',
        {**values, "of_run": of_step["run"], "of_step": of_step["step"]},
    )


def _write_rollouts(
    index: Index,
    of_step: Mapping[str, Any],
    places: Sequence[Mapping[str, Any]],
    target: Path,
) -> None:
    """Write rollouts of a step, with all their columns, to a file of their own."""
    run = index.runs[of_step["run"]]
    files = run.files_of([of_step["step"]])

    index.cursor().execute(
        # What would be kept may have been chosen anew since the files were read.
        "COPY (SELECT $name AS run, read.* REPLACE (found.kept AS kept,"
        " found.advantage AS advantage), label, note"
        f" FROM {read_parquet('$paths')} AS read"
        ' JOIN (SELECT "group", rollout, kept, advantage FROM rollouts'
        ' JOIN (SELECT unnest($groups) AS "group", unnest($rollouts) AS rollout)'
        ' USING ("group", rollout) WHERE run = $run AND step = $step) AS found'
        ' USING ("group", rollout)'
        ' LEFT JOIN (SELECT "group", rollout, label, note FROM marks'
        ' WHERE run = $run AND step = $step) AS marks USING ("group", rollout)'
        ' WHERE read.step = $step ORDER BY "group", rollout)'
        f" TO $target ({_PARQUET})",
        {
            "name": run.source.name,
            "run": run.number,
            "step": of_step["step"],
            "paths": [no_glob(file.readable) for file in files],
            "groups": [place["group"] for place in places],
            "rollouts": [place["rollout"] for place in places],
            "target": str(target),
        },
    )
