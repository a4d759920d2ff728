"""The meaning of the fields of a file of rollouts: as the user says, else as their names do.

It needs no package, as `pods select` reads JSONL without any.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.rewards import as_number, is_number
from podsrl.rollout_log.columns import REWARD_PREFIX

#: What programs call the fields, in the order in which they are looked for. A dot leads into a
#: field that is an object.
NAMES: Mapping[str, tuple[str, ...]] = {
    "prompt": ("prompt", "input", "question", "query", "problem", "instruction"),
    "completion": ("completion", "output", "response", "generation", "generated_text"),
    "reward": ("reward", "score", "total_reward", "metadata.reward", "attributes.reward"),
    "group": (
        "group",
        "group_index",
        "group_id",
        "uid",
        "prompt_id",
        "example_id",
        "problem_id",
        "question_id",
        "metadata.group_id",
    ),
    "step": (
        "step",
        "global_step",
        "train_step",
        "training_step",
        "gen_step",
        "__metadata__.step",
        "metadata.step",
        "attributes.step",
    ),
    # A "label" is none: it judges a rollout (KTO) as often as it answers the question.
    "answer": ("answer", "gts", "ground_truth", "solution", "target"),
    "advantage": ("advantage", "advantages"),
    "tokens": ("tokens", "completion_tokens", "response_length", "completion_length"),
    "kept": ("kept",),
}
#: The fields that the user can name.
SETTABLE = ("prompt", "completion", "reward", "group", "step")
#: Where a conversation stands whose last messages are the completion.
_CONVERSATIONS = ("messages", "conversation")
#: Columns of `podsrl.rollout_log` that no other program calls otherwise.
_AS_THEY_ARE = ("turns", "images", "cut_off", "token_logprobs", "token_entropies", "token_ends")


def lookup(row: Mapping[str, Any], name: str) -> Any:
    """A field of a row; a dot leads into a field that is an object. None if there is none.

    >>> lookup({"__metadata__": {"step": 3}, "a.b": 1}, "__metadata__.step")
    3
    """
    if name in row:
        return row[name]
    first, dot, rest = name.partition(".")
    inner = row.get(first) if dot else None
    return lookup(inner, rest) if isinstance(inner, Mapping) else None


def has_field(row: Mapping[str, Any], name: str) -> bool:
    """Whether a row has a field of this name, be it empty."""
    if name in row:
        return True
    first, dot, rest = name.partition(".")
    inner = row.get(first) if dot else None
    return isinstance(inner, Mapping) and has_field(inner, rest)


@dataclass(frozen=True)
class Fields:
    """The fields of a file, as the user names them; None goes by their own names.

    Args:
        prompt, completion, group, step: The name of a field.
        reward: The name of a field, or several with their weights: "right=1,form=0.2".
    """

    prompt: str | None = None
    completion: str | None = None
    reward: str | None = None
    group: str | None = None
    step: str | None = None

    @property
    def rewards(self) -> dict[str, float]:
        """The weights of the fields that make the reward.

        Raises:
            InvalidInputError: A weight is no number, or a name is empty.

        >>> Fields(reward="right,form=0.2").rewards
        {'right': 1.0, 'form': 0.2}
        """
        weights = {}
        for word in (self.reward or "").split(",") if self.reward else ():
            name, equals, weight = word.strip().partition("=")
            try:
                weights[name] = float(weight) if equals else 1.0
            except ValueError:
                name = ""
            if not name:
                raise InvalidInputError(
                    f"--reward {self.reward}: allowed are the name of a field, or several with"
                    " their weights, such as right=1,form=0.2"
                )
        return weights

    def as_options(self) -> str:
        """The user's names, as options of the command line."""
        said = [(f.name, getattr(self, f.name)) for f in fields(self)]
        return " ".join(f"--{name} {value}" for name, value in said if value is not None)


@dataclass
class Reading:
    """The fields of a file by their meanings, and the rollouts that its rows are.

    Args:
        names: The field of each meaning; the meanings are those in `NAMES`.
        rewards: The fields that make the reward, with their weights.
        sums_functions: Whether the reward is the sum of the reward functions that a row has; other
            rows may have others than `rewards`, which are those of the first rows.
        parts: The fields beside those of reward functions that are shown as such.
        instruction: The field with the first part of the prompt, where it has two.
        group_of_verl: Whether "group" is verl's key of a row.
        group_in_run: Whether groups are numbered anew in each run of the file.
        conversation: The field with a whole conversation, if prompt and completion are in one.
        step_of_file: The step, where it stands in the file's name.
        said: The meanings that the user named.
    """

    names: dict[str, str] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    sums_functions: bool = False
    parts: tuple[str, ...] = ()
    instruction: str | None = None
    group_of_verl: bool = False
    group_in_run: bool = False
    conversation: str | None = None
    step_of_file: bool = False
    said: frozenset[str] = frozenset()

    def in_words(self) -> dict[str, str]:
        """Where each meaning comes from, for people."""
        words = {name: f"`{self.names[name]}`" for name in self.names}
        if self.conversation:
            words["prompt"] = f"`{self.conversation}`, until the model first speaks"
            words["completion"] = f"`{self.conversation}`, from there on"
        if self.instruction:
            words["prompt"] = f"`{self.instruction}` and {words['prompt']}"
        terms = [
            f"`{name}`" if weight == 1 else f"{weight:g} x `{name}`"
            for name, weight in self.rewards.items()
        ]
        words["reward"] = " + ".join(terms)
        if "step" not in words:
            words["step"] = "the number in the file's name" if self.step_of_file else "none: all 1"
        if "group" not in words:
            words["group"] = "rollouts of one prompt text and step"
        if self.group_in_run:
            words["group"] = f"`run` and {words['group']}"
        return {
            name: words[name] + (" (as you said)" if name in self.said else "")
            for name in SETTABLE
            if name in words
        }

    def rollout(self, row: Mapping[str, Any], step_of_file: int | None = None) -> dict[str, Any]:
        """A row as a rollout, as `conversion.as_rollouts` takes it."""
        rollout: dict[str, Any] = {name: lookup(row, of_row) for name, of_row in self.names.items()}
        if self.conversation:
            rollout["prompt"], rollout["completion"] = split_conversation(
                lookup(row, self.conversation)
            )
        if self.instruction:
            rollout["prompt"] = _joined(lookup(row, self.instruction), rollout["prompt"])
        if self.step_of_file and "step" not in self.names:
            rollout["step"] = step_of_file
        if self.group_of_verl:
            rollout["group"] = prompt_of_verl(rollout["group"])
        if self.group_in_run:
            rollout["group"] = f"{row.get('run')} {rollout['group']}"

        rollout["reward"] = self.reward(row)
        for name in (*self.parts, *_functions([row])):
            rollout[REWARD_PREFIX + name.removeprefix(REWARD_PREFIX)] = lookup(row, name)
        for name in _AS_THEY_ARE:
            if name in row:
                rollout[name] = row[name]
        return rollout

    def reward(self, row: Mapping[str, Any]) -> Any:
        """The reward of a row: the value of one field, or the weighted sum of several."""
        if self.sums_functions:
            functions = _functions([row])
            return weighted(
                {name: lookup(row, name) for name in functions}, dict.fromkeys(functions, 1.0)
            )
        if len(self.rewards) == 1:
            [(name, weight)] = self.rewards.items()
            value = lookup(row, name)
            return value if weight == 1 or not is_number(value) else weight * as_number(value)
        return weighted({name: lookup(row, name) for name in self.rewards}, self.rewards)


def _joined(instruction: Any, prompt: Any) -> Any:
    """Both as one text; a conversation stands alone."""
    filled = [text for text in (instruction, prompt) if not _is_empty(text)]
    return "\n\n".join(filled) if all(isinstance(text, str) for text in filled) else prompt


def prompt_of_verl(uid: Any) -> str | None:
    """The prompt's part of verl's key of a row, "{uid of the prompt}_{session}_{index}".

    >>> prompt_of_verl("0c1f_3_0")
    '0c1f'
    """
    return None if uid is None else re.sub(r"_\d+_\d+$", "", str(uid))


def weighted(values: Mapping[str, Any], weights: Mapping[str, float]) -> float | None:
    """The weighted sum of the values that are numbers, as TRL sums; None where none is one."""
    terms = [
        weight * as_number(values.get(name))
        for name, weight in weights.items()
        if is_number(values.get(name))
    ]
    terms = [term for term in terms if term == term]
    return sum(terms) if terms else None


def read_fields(
    rows: Sequence[Mapping[str, Any]],
    said: Fields,
    where: str,
    needs: Iterable[str] = ("prompt", "completion", "reward"),
    numbered_file: bool = False,
) -> Reading:
    """Find the fields of a file by their meanings: as the user says, else by their names.

    Args:
        rows: The first rows of the file.
        said: What the user says.
        where: The file, for messages.
        needs: The meanings that a file must have to be read.
        numbered_file: Whether the file's name is a number.

    Raises:
        InvalidInputError: A field that was named is not there, or one that is needed can't be told
            from the others; the message says how to name it.
    """
    if not rows:
        raise InvalidInputError(f"{where}: there are no rollouts in it")

    reading = Reading()
    named = set()
    for name in SETTABLE:
        given = getattr(said, name)
        if given is None:
            continue
        named.add(name)
        for one in said.rewards if name == "reward" else (given,):
            _refuse_missing(rows, name, one, where)
        if name != "reward":
            reading.names[name] = given
    reading.said = frozenset(named)

    reading.rewards = said.rewards or _rewards(rows)
    reading.sums_functions = not said.rewards and not set(reading.rewards) & set(NAMES["reward"])
    for name, usual in NAMES.items():
        if name in reading.names or name == "reward":
            continue
        # What judges the rollout is not the right answer to its question.
        candidates = [one for one in usual if name != "answer" or one not in reading.rewards]
        if (found := _first_filled(rows, candidates)) is not None:
            reading.names[name] = found

    columns = {column for row in rows for column in row}
    if "prompt" not in reading.said and reading.names.get("prompt") == "input":
        reading.instruction = "instruction" if "instruction" in columns else None  # Alpaca's
    if "group" not in reading.said:
        group = reading.names.get("group")
        reading.group_of_verl = group == "uid" and columns >= {"input", "output", "score"}
        # As a search over several runs is downloaded.
        reading.group_in_run = group == "group" and columns >= {"run", "rollout"}

    # A file with whole conversations may call nothing a prompt.
    if not {"prompt", "completion"} <= set(reading.names):
        reading.conversation = next(
            (one for one in _CONVERSATIONS if any(_is_conversation(row.get(one)) for row in rows)),
            None,
        )
        if reading.conversation and "completion" not in reading.names:
            reading.names.pop("prompt", None)
            reading.instruction = None
        else:
            reading.conversation = None

    reading.parts = tuple(reading.rewards) if len(reading.rewards) > 1 else ()
    reading.step_of_file = numbered_file and "step" not in reading.names
    _refuse_unknown(reading, rows, where, needs)
    return reading


def _rewards(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The field with the reward; else those of reward functions, whose sum it is then."""
    name = _first_filled(rows, NAMES["reward"])
    functions = _functions(rows)
    if name is None or (functions and not _is_filled(rows, name)):
        return dict.fromkeys(functions, 1.0)
    return {name: 1.0}


def _first_filled(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> str | None:
    """The first of these fields that is filled in any row; if none is, the first that is there."""
    there = [name for name in names if any(has_field(row, name) for row in rows)]
    return next((name for name in there if _is_filled(rows, name)), there[0] if there else None)


def _is_filled(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return not all(_is_empty(lookup(row, name)) for row in rows)


def _is_empty(value: Any) -> bool:
    return value is None or value == ""


def _functions(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields that are called as values of reward functions are."""
    found: dict[str, None] = {}
    for row in rows:
        for name, value in row.items():
            if name.startswith(REWARD_PREFIX) and is_number(value):
                found[name] = None
            if name in ("rewards", "scores") and isinstance(value, Mapping):
                found |= {f"{name}.{part}": None for part, n in value.items() if is_number(n)}
    return list(found)


def _refuse_missing(rows: Sequence[Mapping[str, Any]], name: str, given: str, where: str) -> None:
    if any(has_field(row, given) for row in rows):
        return
    raise InvalidInputError(
        f"{where}: no field {given!r}; it has {_listed(rows[0])}. Name the field of the {name} with"
        f" --{name}"
    )


def _refuse_unknown(
    reading: Reading, rows: Sequence[Mapping[str, Any]], where: str, needs: Iterable[str]
) -> None:
    """Ask for what can't be told from the names, with a guess where one is likely."""
    missing = []
    for name in needs:
        has = reading.rewards if name == "reward" else reading.conversation or name in reading.names
        if not has:
            missing.append(name)
    if not missing:
        return

    taken = {*reading.names.values(), *reading.rewards}
    likely = [f"--{name} {_likely(name, rows[0], taken)}" for name in missing]
    usual = ", ".join(NAMES[missing[0]][1:4])
    raise InvalidInputError(
        f"{where}, rollout 1: no field {missing[0]!r} (nor {usual}); it has {_listed(rows[0])}. Say"
        f" which it is: {' '.join(likely)}"
    )


def _likely(name: str, row: Mapping[str, Any], taken: set[str]) -> str:
    """A field whose name has a usual one in it, such as my_question."""
    for usual in (*NAMES[name], *(("answer",) if name == "completion" else ())):
        for field_ in row:
            if field_ not in taken and usual in field_.lower():
                return field_
    return "FIELD"


def _listed(row: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, row))


def _is_conversation(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(message, Mapping) and "role" in message for message in value)
    )


def split_conversation(messages: Any) -> tuple[Any, Any]:
    """The messages before the model first speaks, and those from there on.

    >>> split_conversation([{"role": "user"}, {"role": "assistant"}, {"role": "tool"}])
    ([{'role': 'user'}], [{'role': 'assistant'}, {'role': 'tool'}])
    """
    if not _is_conversation(messages):
        return messages, None
    roles = [message.get("role") for message in messages]
    first = roles.index("assistant") if "assistant" in roles else len(roles)
    return messages[:first], messages[first:]
