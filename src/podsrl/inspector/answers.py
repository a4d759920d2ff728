"""Answers from the index and the files of runs: the same for app, terminal and programs.

An answer is a dictionary of plain values. Texts are read from the files of one step when they are
asked for.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from podsrl.errors import InvalidInputError
from podsrl.inspector.index import Index, Run, no_glob, read_parquet
from podsrl.inspector.sources import ForeignSource
from podsrl.rollout_log.columns import FILTERS, INDEXED
from podsrl.rollout_log.files import plain
from podsrl.rules import RULES

_CHARACTERS = 20_000  # of a completion that a page gets; the rest when it is asked for
_TURNS = 1_000_000  # characters of the turns of a rollout, which are cut between two of them
_IMAGES = 3_000_000  # characters of a rollout's images
_ELSEWHERE = 200  # other places of the same prompt that a page gets
_BINS = 20  # of a histogram
_SHARED = 200  # prompts of two runs that are listed

#: Names of settings whose values are nobody's business.
_SECRET = re.compile(r"token$|secret|password|api_key|credential", re.IGNORECASE)

#: What is told where files of a step are taken away while it is read.
FILES_CHANGED = "the files of this step changed while they were read; load it again"

#: The numbers of a rollout that a page gets, beside those that say where it stands.
SHOWN = [column.name for column in INDEXED if column.name not in ("step", "group", "rollout")]
_SHOWN_IN_SQL = ", ".join(column.in_sql for column in INDEXED if column.name in SHOWN)
#: What a prompt has of its row of the dataset.
_ASKED = ("prompt", "answer", "data")
_TEXTS = ("completion", "turns", "images", "token_ends", "token_logprobs", "token_entropies")


# ---- the runs


def state_of(index: Index, rules: Iterable[str] = RULES) -> dict[str, Any]:
    """The progress of each run, its part in the index, and the fields that can be filtered.

    Args:
        index: The rollouts.
        rules: The rules to choose from, where the files do not say what was kept.
    """
    # First, so that what the index reads meanwhile has a later version, and is asked for again.
    version = index.version
    runs = [_state_of_run(index, run) for run in index.runs]
    rollouts = sum(run["rollouts"] for run in runs)
    labels = sorted({mark.label for run in index.runs for mark in run.marks.values()} - {""})
    return {
        "version": version,
        "runs": runs,
        "filters": filters_of(index),
        "labels": labels,
        "check": None if index.check is None else index.check.state(rollouts),
        "choice": _choice(index, rules),
    }


def _choice(index: Index, rules: Iterable[str]) -> dict[str, Any] | None:
    """The rule that PODS would keep by, and all rules; None where the files say what was kept."""
    keep = next((run.would_keep for run in index.runs if run.would_keep is not None), None)
    if keep is None:
        return None
    return {"rule": keep.rule, "keep": keep.num_kept, "rules": list(rules)}


def filters_of(index: Index) -> list[dict[str, Any]]:
    """The filters of a search, from the list of columns."""
    found = [
        {"name": column.name, "kind": column.filter, "words": list(column.words)}
        for column in FILTERS
    ]
    if index.check is not None:
        found.append({"name": "check", "kind": "number", "words": []})
    return found


def _state_of_run(index: Index, run: Run) -> dict[str, Any]:
    [indexed] = index.rows(
        "SELECT count(*) AS steps, min(step) AS first, max(step) AS last,"
        " sum(rollouts) AS rollouts, arg_max(reward, step) AS reward"
        " FROM steps WHERE run = $run",
        {"run": run.number},
    )

    # A run without metrics is as far as its rollouts are.
    source = run.source
    progress = source.progress()
    step = progress.step if progress.step is not None else indexed["last"]
    reward = progress.reward if progress.reward is not None else indexed["reward"]
    config = source.config

    return {
        "name": source.name,
        "format": source.format,
        "note": source.note,
        "arm": config.get("arm"),
        "seed": config.get("seed"),
        "reading": source.reading() if isinstance(source, ForeignSource) else {},
        "would_keep": None if run.would_keep is None else str(run.would_keep),
        "doubts": run.doubts[:5],
        "functions": list(run.functions),
        "longest": source.longest,
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
        "notes_file": str(source.notes_file),
    }


def settings_of(run: Run, for_sharing: bool = False) -> dict[str, Any]:
    """The run's settings, as far as they are known, without what is or may be secret.

    Args:
        run: The run.
        for_sharing: Whether to leave out paths of this machine, too.
    """
    known = {}
    for name, value in run.source.config.items():
        is_secret = _SECRET.search(name) is not None
        is_path = isinstance(value, str) and value.startswith(("/", "~"))
        if not is_secret and not (for_sharing and is_path):
            known[name] = plain(value)
    return {"run": run.source.name, "settings": known}


def curves_of(index: Index, run: Run) -> dict[str, Any]:
    """The summaries of all logged steps, and the metrics, as columns."""
    rows = index.rows(
        "SELECT * EXCLUDE (run) FROM steps WHERE run = $run ORDER BY step",
        {"run": run.number},
    )
    parts = [row.pop("parts") or [] for row in rows]
    steps = {}
    for name in rows[0] if rows else ():
        steps[name] = [_short(row[name]) for row in rows]

    functions = {}
    for place, name in enumerate(run.functions):
        column = [_short(of_step[place]) if place < len(of_step) else None for of_step in parts]
        if any(value is not None for value in column):
            functions[name] = column

    metrics = {}
    for name, column in run.metrics.items():
        if any(value is not None for value in column):
            metrics[name] = [_short(value) for value in column]

    return {"run": run.source.name, "steps": steps, "functions": functions, "metrics": metrics}


def histogram_of(
    index: Index,
    run: Run,
    function: str | None = None,
    first: int | None = None,
    last: int | None = None,
) -> dict[str, Any]:
    """The numbers of rollouts by reward, kept and dropped.

    Args:
        index: The rollouts.
        run: The run.
        function: The reward function; None: the reward itself.
        first, last: Bounds of the step, included.

    Returns:
        "bins", each with the lowest and highest value in it, and how many are kept and dropped; and
        how many rollouts have no value.
    """
    value = "reward" if function is None else f"parts[{place_of_function(run, function)}]"
    where = "run = $run AND ($first IS NULL OR step >= $first) AND ($last IS NULL OR step <= $last)"
    values = {"run": run.number, "first": first, "last": last}
    of_run = f"SELECT {value} AS value, kept FROM rollouts WHERE {where}"

    [known] = index.rows(
        f"SELECT min(value) AS low, max(value) AS high, approx_count_distinct(value) AS kinds,"
        f" count(*) FILTER (value IS NULL) AS without FROM ({of_run})",
        values,
    )
    low, high = known["low"], known["high"]
    bins: list[dict[str, Any]] = []
    if low is not None:
        # Few values have a bin each; of many the range is divided.
        bin_of = "value"
        if known["kinds"] > _BINS:
            bin_of = f"least(floor((value - $low) / ($high - $low) * {_BINS}), {_BINS - 1})"
            values |= {"low": low, "high": high}
        bins = index.rows(
            "SELECT min(value) AS low, max(value) AS high, count(*) FILTER (kept) AS kept,"
            f" count(*) FILTER (NOT kept) AS dropped FROM ({of_run}) WHERE value IS NOT NULL"
            f" GROUP BY {bin_of} ORDER BY low",
            values,
        )
    return {
        "run": run.source.name,
        "function": function,
        "first": first,
        "last": last,
        "without": known["without"],
        "bins": bins,
    }


def place_of_function(run: Run, function: str) -> int:
    """The place of a reward function among the parts of a run, from 1."""
    if function not in run.functions:
        known = ", ".join(run.functions) or "none"
        raise InvalidInputError(f"no reward function {function!r}; there are {known}")
    return run.functions.index(function) + 1


def shared_prompts(index: Index, left: Run, right: Run) -> dict[str, Any]:
    """The prompts that two runs have in common, those first whose mean rewards differ most.

    Of each run it takes the last step that has the prompt.
    """
    last = (
        "SELECT prompt, max_by(step, step) AS step FROM rollouts WHERE run = ${name}"
        " GROUP BY prompt"
    )
    of_run = (
        'SELECT prompt, step, min("group") AS "group", avg(reward) AS reward FROM rollouts'
        " JOIN ({last}) USING (prompt, step) WHERE run = ${name} GROUP BY prompt, step"
    )
    both = [of_run.format(last=last.format(name=n), name=n) for n in ("left", "right")]
    rows = index.rows(
        'SELECT l.step AS left_step, l."group" AS left_group, l.reward AS left_reward,'
        ' r.step AS right_step, r."group" AS right_group, r.reward AS right_reward,'
        " count(*) OVER () AS prompts"
        f" FROM ({both[0]}) AS l JOIN ({both[1]}) AS r USING (prompt)"
        f" ORDER BY abs(l.reward - r.reward) DESC NULLS LAST, left_step DESC LIMIT {_SHARED}",
        {"left": left.number, "right": right.number},
    )
    prompts = rows[0]["prompts"] if rows else 0
    by_step: dict[int, list[int]] = {}
    for row in rows:
        row.pop("prompts")
        by_step.setdefault(row["left_step"], []).append(row["left_group"])
    asked = {}
    for step, groups in list(by_step.items())[:20]:
        for text in texts_of(index, left, step, groups, ["prompt"], 600, of_groups=True):
            asked[step, text["group"]] = text["prompt"]
    for row in rows:
        row["prompt"] = asked.get((row["left_step"], row["left_group"]))
    return {
        "left": left.source.name,
        "right": right.source.name,
        "prompts": prompts,
        "rows": rows,
    }


# ---- steps and prompts


def step_of(index: Index, run: Run, step: int, most: int = 200) -> dict[str, Any]:
    """The prompts of a step, each with the rewards of its rollouts.

    Args:
        index: The rollouts.
        run: The run.
        step: One of its logged steps.
        most: How many prompts have their text and the dots of their rollouts; the first ones by
            reward, lowest first.
    """
    values = {"run": run.number, "step": step}
    groups = index.rows(
        'SELECT "group", count(*) AS rollouts, count(*) FILTER (kept) AS kept,'
        " avg(reward) AS reward, avg(reward) FILTER (kept) AS kept_reward,"
        " stddev_pop(reward) AS contrast, avg(tokens) AS tokens"
        ' FROM rollouts WHERE run = $run AND step = $step GROUP BY "group"'
        ' ORDER BY reward NULLS FIRST, "group"',
        values,
    )
    if not groups:
        raise InvalidInputError(f"no rollouts of step {step} in {run.source.name}")
    [span] = index.rows(
        "SELECT min(reward) AS low, max(reward) AS high,"
        " bool_and(reward IN (0, 1)) AS is_pass_rate"
        " FROM rollouts WHERE run = $run AND step = $step",
        values,
    )

    shown = [group["group"] for group in groups[:most]]
    dots = index.rows(
        'SELECT "group", list(rollout ORDER BY reward DESC, rollout) AS rollout,'
        " list(reward ORDER BY reward DESC, rollout) AS reward,"
        " list(kept ORDER BY reward DESC, rollout) AS kept FROM rollouts"
        ' WHERE run = $run AND step = $step AND "group" IN (SELECT unnest($groups))'
        ' GROUP BY "group"',
        {**values, "groups": shown},
    )
    dots_of = {row.pop("group"): row for row in dots}
    texts = texts_of(index, run, step, shown, ["prompt", "answer"], length=2_000, of_groups=True)
    text_of = {row["group"]: row for row in texts}
    for group in groups[:most]:
        text = text_of.get(group["group"], {})
        group["prompt"] = text.get("prompt")
        group["answer"] = text.get("answer")
        group["dots"] = dots_of.get(group["group"])
    return {
        "run": run.source.name,
        "step": step,
        **_neighbours(index, run, step),
        **span,
        "prompts": len(groups),
        "groups": groups,
    }


def group_of(index: Index, run: Run, step: int, group: int) -> dict[str, Any]:
    """The rollouts of a prompt with all that is known of them, best first."""
    found = groups_of(index, run, step, [group])
    if not found:
        raise InvalidInputError(f"no prompt {group} in step {step} of {run.source.name}")
    return found[group]


def groups_of(
    index: Index, run: Run, step: int, numbers: Sequence[int]
) -> dict[int, dict[str, Any]]:
    """Several prompts of a step by their numbers, each as `group_of` gives it."""
    rows = index.rows(
        f'SELECT "group", rollout, {_SHOWN_IN_SQL}, parts, prompt, label, note, value AS "check"'
        ' FROM rollouts LEFT JOIN marks USING (run, step, "group", rollout)'
        ' LEFT JOIN checks USING (run, step, "group", rollout)'
        ' WHERE run = $run AND step = $step AND "group" IN (SELECT unnest($numbers))'
        ' ORDER BY "group", reward DESC NULLS LAST, rollout',
        {"run": run.number, "step": step, "numbers": list(numbers)},
    )
    texts = texts_of(index, run, step, numbers, [*_ASKED, *_TEXTS])
    text_of = {(text["group"], text["rollout"]): text for text in texts}
    of_step = {
        **_neighbours(index, run, step),
        "groups": _groups_by_reward(index, run, step),
        "longest": run.source.longest,
    }

    functions = {name for file in run.files_of([step]) for name in file.parts}
    found: dict[int, dict[str, Any]] = {}
    hashes: dict[int, set[int]] = {}
    for row in rows:
        number = row.pop("group")
        hashes.setdefault(number, set()).add(row.pop("prompt"))

        # The index and the files are read one after the other, and a run may thin out its log.
        text = text_of.get((number, row["rollout"]))
        if text is None:
            raise InvalidInputError(FILES_CHANGED)
        row |= {name: text.get(name) for name in (*_TEXTS, "length", "turns_length")}
        parts = zip(run.functions, row.pop("parts"), strict=False)
        row["rewards"] = {name: value for name, value in parts if name in functions}

        if number not in found:
            where = {"run": run.source.name, "step": step, "group": number}
            found[number] = {**where, **of_step, **_asked(text), "rollouts": []}
        found[number]["rollouts"].append(row)

    elsewhere = _elsewhere(index, {one for of_group in hashes.values() for one in of_group})
    for number, group in found.items():
        same = [other for one in hashes[number] for other in elsewhere.get(one, ())]
        group["elsewhere"] = same[:_ELSEWHERE]
    return found


def _asked(text: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a prompt's row of the dataset; "data" as a mapping, None if it has none."""
    asked = {name: text.get(name) for name in _ASKED}
    if asked["data"] is not None:
        asked["data"] = json.loads(asked["data"])
    return asked


def full_text(index: Index, run: Run, step: int, group: int, rollout: int) -> str:
    """The whole completion of a rollout."""
    rows = texts_of(index, run, step, [group], ["completion"], length=None)
    for row in rows:
        if row["rollout"] == rollout:
            return str(row["completion"])
    raise InvalidInputError(f"no rollout {rollout} of prompt {group} in step {step}")


def featured(index: Index) -> dict[str, Any] | None:
    """A prompt to begin with: of the newest step with one, where kept rollouts differ most."""
    found = index.rows(
        "WITH newest AS (SELECT run, max(step) AS step FROM steps WHERE kept_contrast > 0"
        " GROUP BY run ORDER BY bool_or(kept < rollouts) DESC, run LIMIT 1)"
        ' SELECT run, step, "group", stddev_pop(reward) FILTER (kept) AS spread,'
        " count(*) FILTER (NOT kept) AS dropped"
        ' FROM rollouts JOIN newest USING (run, step) GROUP BY run, step, "group"'
        ' ORDER BY spread DESC NULLS LAST, dropped DESC, "group" LIMIT 1'
    )
    if not found:
        return None
    [best] = found
    return group_of(index, index.runs[best["run"]], best["step"], best["group"])


def worst_of(index: Index, run: Run, step: int, most: int) -> list[dict[str, Any]]:
    """The rollouts of a step with the lowest rewards, with their texts."""
    places = index.rows(
        'SELECT "group", rollout FROM rollouts WHERE run = $run AND step = $step'
        f' ORDER BY reward NULLS FIRST, "group", rollout LIMIT {int(most)}',
        {"run": run.number, "step": step},
    )
    groups = groups_of(index, run, step, sorted({place["group"] for place in places}))
    found = []
    for place in places:
        group = groups[place["group"]]
        [rollout] = [one for one in group["rollouts"] if one["rollout"] == place["rollout"]]
        found.append({**place, **{name: group[name] for name in _ASKED}, **rollout})
    return found


def _neighbours(index: Index, run: Run, step: int) -> dict[str, int | None]:
    """The logged steps before and after."""
    [found] = index.rows(
        "SELECT max(step) FILTER (step < $step) AS earlier,"
        " min(step) FILTER (step > $step) AS later FROM steps WHERE run = $run",
        {"run": run.number, "step": step},
    )
    return found


def _groups_by_reward(index: Index, run: Run, step: int) -> list[int]:
    rows = index.rows(
        'SELECT "group" FROM rollouts WHERE run = $run AND step = $step GROUP BY "group"'
        ' ORDER BY avg(reward) NULLS FIRST, "group"',
        {"run": run.number, "step": step},
    )
    return [row["group"] for row in rows]


def _elsewhere(index: Index, hashes: Iterable[int]) -> dict[int, list[dict[str, Any]]]:
    """Where each of these prompts stands in all steps of all runs, with its mean reward."""
    rows = index.rows(
        'SELECT prompt, run, step, "group", avg(reward) AS reward,'
        " avg(reward) FILTER (kept) AS kept_reward FROM rollouts"
        ' WHERE prompt IN (SELECT unnest($hashes)) GROUP BY prompt, run, step, "group"'
        ' QUALIFY row_number() OVER (PARTITION BY prompt ORDER BY run, step, "group")'
        f" <= {_ELSEWHERE}"
        ' ORDER BY run, step, "group"',
        {"hashes": list(hashes)},
    )
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        row["run"] = index.runs[row["run"]].source.name
        found.setdefault(row.pop("prompt"), []).append(row)
    return found


# ---- texts


def texts_of(
    index: Index,
    run: Run,
    step: int,
    groups: Sequence[int],
    names: Sequence[str],
    length: int | None = _CHARACTERS,
    of_groups: bool = False,
) -> list[dict[str, Any]]:
    """Texts of a step's groups, of each rollout or of the first one of each group.

    The texts have at most `length` characters; "length" says how many the completion has. Of long
    turns there are the first ones, and "turns_length" says how many characters all of them have.
    """
    files = run.files_of([step])
    if not files:
        return []

    columns = {column for file in files for column in file.columns}
    wanted = ['"group"', "rollout"]
    for name in names:
        wanted.append(f"{_bounded(name, length) if name in columns else 'NULL'} AS {name}")
    if "completion" in names:
        wanted.append("length(completion) AS length")
    has_turns = "turns" in names and "turns" in columns
    if has_turns:
        wanted.append(f"CASE WHEN length(turns) > {_TURNS} THEN length(turns) END AS turns_length")

    first = ' QUALIFY row_number() OVER (PARTITION BY "group") = 1' if of_groups else ""
    rows = index.rows(
        f"SELECT {', '.join(wanted)}"
        f" FROM {read_parquet('$paths')}"
        f' WHERE step = $step AND "group" IN (SELECT unnest($groups)){first}',
        {
            "paths": [no_glob(file.readable) for file in files],
            "step": step,
            "groups": list(groups),
        },
    )
    for row in rows if has_turns else ():
        if row["turns_length"] is not None:
            row["turns"] = _whole_turns(row["turns"])
    return rows


def _whole_turns(beginning: str) -> str:
    """The turns that are whole in the beginning of a JSON list of turns, as such a list.

    >>> _whole_turns('[{"role": "assistant"}, {"role": "tool"}, {"role": "as')
    '[{"role": "assistant"}, {"role": "tool"}]'
    """
    decoder = json.JSONDecoder()
    between = re.compile(r"\s*[\[,]\s*")
    end = 0
    while separator := between.match(beginning, end):
        try:
            _, end = decoder.raw_decode(beginning, separator.end())
        except ValueError:  # where it was cut
            break
    return f"{beginning[:end] or '['}]"


def _bounded(name: str, length: int | None) -> str:
    """A column in a query, cut to what a page can take."""
    if length is None or name == "data":  # the log bounds it, and a part of JSON is none
        return name
    if name.startswith("token_"):
        return f"list_slice({name}, 1, {length})"
    if name == "turns":
        return f"left(turns, {_TURNS})"
    if name == "images":  # a part of a list is none
        return f"CASE WHEN length({name}) <= {_IMAGES} THEN {name} END"
    return f"left({name}, {length})"


def read_rollouts(index: Index, run: Run, step: int) -> Iterator[dict[str, Any]]:
    """The rollouts of a step with all of their columns, some hundreds in memory at a time."""
    for file in run.files_of([step]):
        with pq.ParquetFile(file.readable) as opened:
            for batch in opened.iter_batches(500):
                for rollout in batch.to_pylist():
                    if rollout["step"] == step:
                        yield {"run": run.source.name, **rollout}


def _short(value: Any) -> Any:
    """A number to five digits, which a curve does not show more of."""
    is_fraction = isinstance(value, float) and math.isfinite(value)
    return float(f"{value:.5g}") if is_fraction else value


def named_runs(index: Index, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose run is a number, with its name in place of that."""
    return [{**row, "run": index.runs[row["run"]].source.name} for row in rows]
