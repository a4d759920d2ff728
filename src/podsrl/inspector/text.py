"""The app's questions, answered for a terminal and for a program.

`ask` gives one dictionary, whose form is documented in docs/reading.md and only ever grows;
`as_lines` is the same for people. What models wrote is shown without codes for terminals.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.inspector.answers import curves_of, group_of, groups_of, state_of, step_of, worst_of
from podsrl.inspector.index import Index, Run, coarse_to_fine
from podsrl.inspector.search import Query, search

#: The form of the answer; it changes when something in it is renamed or taken away.
VERSION = 1
_OVERVIEW_SECONDS = 0.1
_STEPS = 40  # of a run, in an overview
_AT_ONCE = 8  # steps that a search reads before it looks
_WIDTH = 100
_SHORT = 240

_OF_RUN = (
    "name",
    "format",
    "state",
    "note",
    "reading",
    "would_keep",
    "doubts",
    "damaged",
    "functions",
    "step",
    "total_steps",
    "seconds_left",
    "reward",
    "first_step",
    "last_step",
    "logged_steps",
    "rollouts",
    "files",
    "files_read",
)
_OF_ROLLOUT = (
    "run",
    "step",
    "group",
    "rollout",
    "reward",
    "kept",
    "advantage",
    "tokens",
    "cut_off",
    "rewards",
    "label",
    "note",
    "check",
    "prompt",
    "answer",
    "data",
    "completion",
    "length",
    "turns",
    "turns_length",
)
_OF_ROW = ("prompt", "answer", "data")
_OF_STEP = (
    "step",
    "rollouts",
    "kept",
    "prompts",
    "reward",
    "kept_reward",
    "dropped_reward",
    "contrast",
    "kept_contrast",
    "teaching",
    "rows_with_pass",
    "tokens",
    "kept_tokens",
    "longest",
)
_OF_PROMPT = (
    "group",
    "rollouts",
    "kept",
    "reward",
    "kept_reward",
    "contrast",
    "tokens",
    "prompt",
    "answer",
)

#: Characters that a terminal acts on, or that turn the direction of others.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)


@dataclass(frozen=True)
class Question:
    """A question of the command line.

    Args:
        step: The step; None: the newest one, or all where nothing of one is asked.
        prompts: Numbers of prompts of that step, whose rollouts are told.
        worst: How many of the rollouts with the lowest rewards of the step are told.
        query: What is searched for in all steps.
        limit: How many rollouts that were found are told.
    """

    step: int | None = None
    prompts: tuple[int, ...] = ()
    worst: int | None = None
    query: Query | None = None
    limit: int = 10

    @property
    def is_of_a_step(self) -> bool:
        """Whether it is about one step."""
        return self.step is not None or bool(self.prompts) or self.worst is not None


def ask(index: Index, question: Question) -> dict[str, Any]:
    """The answer to a question, reading no more of the files than it needs.

    Raises:
        InvalidInputError: There is no such step, prompt or filter, or nothing can be read.
    """
    found: dict[str, Any]
    if question.query is not None:
        found = _search(index, question.query, question.limit)
    elif question.is_of_a_step:
        found = _of_step(index, question)
    else:
        index.refresh(seconds=_OVERVIEW_SECONDS)
        found = {"steps": [row for run in index.runs for row in _steps_of(index, run)]}

    runs = [{name: run[name] for name in _OF_RUN} for run in state_of(index)["runs"]]
    damaged = [why for run in runs for why in run["damaged"]]
    if damaged and not any(run["rollouts"] for run in runs):
        raise InvalidInputError(damaged[0])
    return {"version": VERSION, "runs": runs, **found}


def _of_step(index: Index, question: Question) -> dict[str, Any]:
    """The prompts of a step, and the rollouts that are asked for."""
    step = question.step
    if step is None:
        newest = index.steps_by_name()
        step = newest[0] if newest else None
    index.refresh(steps=None if step is None else [step])

    prompts: list[dict[str, Any]] = []
    rollouts: list[dict[str, Any]] = []
    for run in index.runs:
        last = step if step is not None else state_of(index)["runs"][run.number]["last_step"]
        if last is None or (len(index.runs) > 1 and not run.files_of([last])):
            continue
        of_step = step_of(index, run, last)
        where = {"run": run.source.name, "step": last}
        prompts += [{**where, **_only(group, _OF_PROMPT)} for group in of_step["groups"]]
        for number in question.prompts:
            group = group_of(index, run, last, number)
            of_group = {name: group[name] for name in ("group", *_OF_ROW)}
            rollouts += [_rollout({**where, **of_group, **one}) for one in group["rollouts"]]
        if question.worst is not None:
            found = worst_of(index, run, last, question.worst)
            rollouts += [_rollout({**where, **one}) for one in found]
    if question.prompts or question.worst is not None:
        return {"rollouts": rollouts}
    return {"prompts": prompts}


def _steps_of(index: Index, run: Run) -> list[dict[str, Any]]:
    """The summaries of evenly spaced steps."""
    columns = curves_of(index, run)["steps"]
    places = sorted(coarse_to_fine(range(len(columns.get("step", ()))))[:_STEPS])
    return [
        {"run": run.source.name, **{name: columns[name][place] for name in _OF_STEP}}
        for place in places
    ]


def _search(index: Index, query: Query, limit: int) -> dict[str, Any]:
    """The newest rollouts that a query finds, reading the newest steps first."""
    steps = index.steps_by_name()
    parts: list[Sequence[int] | None] = [None]
    if steps is not None:
        wanted = [step for step in steps if query.has_step(step)]
        parts = [wanted[first : first + _AT_ONCE] for first in range(0, len(wanted), _AT_ONCE)]

    hits: list[dict[str, Any]] = []
    read = 0
    for part in parts:
        index.refresh(steps=part)
        read += len(part or ())
        hits += _hits(index, query if part is None else query.between(min(part), max(part)), limit)
        if len(hits) > limit:
            break

    found = [_with_texts(index, hit) for hit in hits[:limit]]
    searched = {"steps_searched": read, "steps": len(steps)} if steps is not None else {}
    return {"rollouts": found, "more": len(hits) > limit, **searched}


def _hits(index: Index, query: Query, limit: int) -> list[dict[str, Any]]:
    """Where a query finds something in the steps that were read; one more than the limit."""
    hits: list[dict[str, Any]] = []
    before = ""
    while len(hits) <= limit:
        page = search(index, query, before)
        hits += page["rows"]
        before = page["before"]
        if not before:
            break
    return hits[: limit + 1]


def _with_texts(index: Index, hit: Mapping[str, Any]) -> dict[str, Any]:
    """A rollout that was found, with all that is known of it."""
    run = index.run_named(hit["run"])
    group = groups_of(index, run, hit["step"], [hit["group"]])[hit["group"]]
    [rollout] = [one for one in group["rollouts"] if one["rollout"] == hit["rollout"]]
    asked = {name: group[name] for name in ("run", "step", "group", *_OF_ROW)}
    return _rollout({**asked, **rollout})


def _rollout(values: Mapping[str, Any]) -> dict[str, Any]:
    rollout = _only(values, _OF_ROLLOUT)
    if isinstance(rollout["turns"], str):
        try:
            rollout["turns"] = json.loads(rollout["turns"])
        except ValueError:  # another program's own text
            rollout["turns"] = None
    return rollout


def _only(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: values.get(name) for name in names}


# ---- for people ----------------------------------------------------------------------------------


def as_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """The answer for a terminal."""
    for run in answer["runs"]:
        yield from _lines_of_run(run)
    if "steps" in answer and isinstance(answer["steps"], list):
        yield ""
        yield from _table(answer["steps"], _STEP_COLUMNS, len(answer["runs"]) > 1)
        yield ""
        yield (
            "next: --step K shows the prompts of a step, --worst 5 the rollouts with the lowest"
            " rewards, --search WORDS the rollouts that contain words; without options an app opens"
        )
    if "prompts" in answer:
        yield ""
        yield from _table(answer["prompts"], _PROMPT_COLUMNS, len(answer["runs"]) > 1)
        yield ""
        yield (
            "next: --step K --prompt N shows the rollouts of a prompt, --step K --worst 5 the"
            " rollouts with the lowest rewards"
        )
    if "rollouts" in answer:
        yield from _lines_of_rollouts(answer)


_STEP_COLUMNS = {
    "step": "step",
    "rollouts": "rollouts",
    "kept": "kept",
    "reward": "reward",
    "kept_reward": "kept reward",
    "contrast": "contrast",
    "teaching": "share with contrast",
    "tokens": "tokens",
}
_PROMPT_COLUMNS = {
    "step": "step",
    "group": "prompt",
    "rollouts": "rollouts",
    "kept": "kept",
    "reward": "reward",
    "contrast": "contrast",
    "prompt": "question",
}


def _lines_of_run(run: Mapping[str, Any]) -> Iterator[str]:
    said = [f"{run['name']}: {run['format']}, {run['state']}"]
    first, last = run["first_step"], run["last_step"]
    if last is not None:
        said.append(f"step {last}" if first == last else f"steps {first} to {last}")
    said.append(f"{run['rollouts']:,} rollouts read")
    if run["files_read"] < run["files"]:
        said.append(f"from {run['files_read']:,} of {run['files']:,} files")
    yield visible(", ".join(said))
    if run["reading"]:
        yield visible("  " + "; ".join(f"{name}: {how}" for name, how in run["reading"].items()))
    if run["would_keep"]:
        yield f"  the files do not say what was kept; {run['would_keep']}"
    for note in [run["note"], *run["doubts"], *run["damaged"]]:
        if note:
            yield visible(f"  note: {note}")


def _table(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], several_runs: bool
) -> Iterator[str]:
    """Rows under their headings."""
    names = {**({"run": "run"} if several_runs else {}), **columns}
    cells = [list(names.values())]
    cells += [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [min(48, max(len(row[place]) for row in cells)) for place in range(len(names))]
    for row in cells:
        padded = [
            cell[:width].ljust(width) if name in ("run", "prompt") else cell[:width].rjust(width)
            for cell, width, name in zip(row, widths, names, strict=True)
        ]
        yield "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    return short(asked(str(value)), 48)


def _lines_of_rollouts(answer: Mapping[str, Any]) -> Iterator[str]:
    """The rollouts one after the other, below a heading for each prompt."""
    if not answer["rollouts"]:
        yield ""
        yield "nothing found"

    choosing = {run["name"] for run in answer["runs"] if run["would_keep"]}
    shown = None
    for rollout in answer["rollouts"]:
        prompt = (rollout["run"], rollout["step"], rollout["group"])
        if prompt != shown:
            shown = prompt
            yield ""
            yield from _lines_of_prompt(rollout, several_runs=len(answer["runs"]) > 1)

        yield ""
        yield f"-- {_facts(rollout, would=rollout['run'] in choosing)}"
        yield from _indented(rollout["completion"] or "")
        more = (rollout["length"] or 0) - len(rollout["completion"] or "")
        if more > 0:
            yield f"  … and {more:,} characters more"

    if answer.get("more"):
        yield ""
        yield "there are more: --limit K shows the first K"


def _lines_of_prompt(rollout: Mapping[str, Any], several_runs: bool) -> Iterator[str]:
    """The prompt of a rollout, and the row of the dataset behind it."""
    run = f"{rollout['run']}, " if several_runs else ""
    yield visible(f"== {run}step {rollout['step']}, prompt {rollout['group']}")
    yield from _indented(rollout["prompt"] or "")

    if rollout["answer"] is not None:
        yield f"  right answer: {short(rollout['answer'], _SHORT)}"
    for name, value in (rollout["data"] or {}).items():
        if value != rollout["answer"]:
            yield f"  {short(f'{name}: {value}', _SHORT)}"


def _facts(rollout: Mapping[str, Any], would: bool) -> str:
    """The numbers and notes of a rollout, in one line.

    Args:
        rollout: The rollout.
        would: Whether its log does not say what was kept, so that it is what PODS would keep.
    """
    reward = "no reward" if rollout["reward"] is None else f"reward {rollout['reward']:.4g}"
    kept = "kept" if rollout["kept"] else "dropped"
    facts = [f"rollout {rollout['rollout']}", reward, f"would be {kept}" if would else kept]
    if rollout["advantage"] is not None:
        facts.append(f"advantage {rollout['advantage']:.3g}")
    if rollout["tokens"] is not None:
        facts.append(f"{rollout['tokens']:,} tokens")
    if rollout["cut_off"]:
        facts.append("cut off")
    for name, value in (rollout["rewards"] or {}).items():
        facts.append(f"{name} {'none' if value is None else f'{value:.3g}'}")
    for name in ("label", "note", "check"):
        if rollout[name] not in (None, ""):
            facts.append(f"{name} {rollout[name]}")
    return short(", ".join(facts), 400)


def _indented(text: str) -> Iterator[str]:
    for line in visible(text).splitlines() or [""]:
        yield from textwrap.wrap(
            line,
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="  ",
            replace_whitespace=False,
            drop_whitespace=False,
        ) or [""]


#: Marks of chat templates, and of conversations whose messages were joined.
_MARK = re.compile(
    r"(?:<\|[^<>|\s]{1,40}\|>|<(?:start|end)_of_turn>|</?s>|\[/?INST\])\s*"
    r"(?:(system|user|assistant|model|tool)\b(?:<\|end_header_id\|>)?\s*)?"
    r"|(?:\A|\n\n)(system|developer|user|assistant|tool): "
)


def asked(prompt: str) -> str:
    r"""The last message of a user, without the marks of a chat template around it.

    >>> asked("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n")
    '1+1?'
    >>> asked("system: Be brief.\n\nuser: 1+1?"), asked("1+1?")
    ('1+1?', '1+1?')
    """
    turns = []
    role = ""
    start = 0
    for mark in _MARK.finditer(prompt):
        turns.append((role, prompt[start : mark.start()]))
        role = mark[1] or mark[2] or role
        start = mark.end()
    turns.append((role, prompt[start:]))
    said = [text.strip() for role, text in turns if role == "user" and text.strip()]
    return said[-1] if said else prompt.strip()


def visible(text: str) -> str:
    r"""A text as a terminal can show it: its codes and marks of direction by name.

    >>> visible("\x1b[31mred \u202e")
    '␛[31mred ⟨U+202E⟩'
    """
    return _UNSEEN.sub(_named, text)


def _named(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"


def short(text: str, length: int) -> str:
    """The first characters of a text, on one line."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= length else line[: length - 1] + "…"
