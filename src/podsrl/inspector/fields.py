"""The meaning of the fields of a file of rollouts: as the user says, else as their names do.

It needs no package, as `pods select` reads JSONL without any.
"""

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
    "answer": ("answer", "gts", "label", "ground_truth", "solution", "target"),
    "advantage": ("advantage", "advantages"),
    "tokens": ("tokens", "completion_tokens", "response_length", "completion_length"),
    "kept": ("kept",),
}
#: The fields that the user can name.
SETTABLE = ("prompt", "completion", "reward", "group", "step")
#: Where a conversation stands whose last messages are the completion.
_CONVERSATIONS = ("messages", "conversation")


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
        parts: The fields that are values of reward functions, beside "rewards/<function>".
        conversation: The field with a whole conversation, if prompt and completion are in one.
        step_of_file: The step, where it stands in the file's name.
        said: The meanings that the user named.
    """

    names: dict[str, str] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    conversation: str | None = None
    step_of_file: bool = False
    said: frozenset[str] = frozenset()

    def in_words(self) -> dict[str, str]:
        """Where each meaning comes from, for people."""
        words = {name: f"`{self.names[name]}`" for name in self.names}
        if self.conversation:
            words["prompt"] = f"`{self.conversation}`, until the model first speaks"
            words["completion"] = f"`{self.conversation}`, from there on"
        terms = [
            f"`{name}`" if weight == 1 else f"{weight:g} x `{name}`"
            for name, weight in self.rewards.items()
        ]
        words["reward"] = " + ".join(terms)
        if "step" not in words:
            words["step"] = "the number in the file's name" if self.step_of_file else "none: all 1"
        if "group" not in words:
            words["group"] = "rollouts of one prompt text and step"
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
        if self.step_of_file and "step" not in self.names:
            rollout["step"] = step_of_file

        rollout["reward"] = self.reward(row)
        for name in self.parts:
            rollout[REWARD_PREFIX + name.removeprefix(REWARD_PREFIX)] = lookup(row, name)
        for name, value in row.items():
            if name.startswith(REWARD_PREFIX):
                rollout.setdefault(name, value)
        for name in ("turns", "images", "token_logprobs", "token_entropies", "token_ends"):
            if name in row:
                rollout[name] = row[name]
        return rollout

    def reward(self, row: Mapping[str, Any]) -> Any:
        """The reward of a row: the value of one field, or the weighted sum of several."""
        if len(self.rewards) == 1:
            [(name, weight)] = self.rewards.items()
            value = lookup(row, name)
            return value if weight == 1 or not is_number(value) else weight * as_number(value)
        return weighted({name: lookup(row, name) for name in self.rewards}, self.rewards)


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

    for name, usual in NAMES.items():
        if name in reading.names or name == "reward":
            continue
        found = next((one for one in usual if any(has_field(row, one) for row in rows)), None)
        if found is not None:
            reading.names[name] = found

    # A file with whole conversations may call nothing a prompt.
    if not {"prompt", "completion"} <= set(reading.names):
        reading.conversation = next(
            (one for one in _CONVERSATIONS if any(_is_conversation(row.get(one)) for row in rows)),
            None,
        )
        if reading.conversation and "completion" not in reading.names:
            reading.names.pop("prompt", None)
        else:
            reading.conversation = None

    reading.rewards = said.rewards or _rewards(rows)
    reading.parts = _parts(rows, reading.rewards)
    reading.step_of_file = numbered_file and "step" not in reading.names
    _refuse_unknown(reading, rows, where, needs)
    return reading


def _rewards(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The field with the reward; else those of reward functions, whose sum it is then."""
    for name in NAMES["reward"]:
        if any(has_field(row, name) for row in rows):
            return {name: 1.0}
    functions = _functions(rows)
    return dict.fromkeys(functions, 1.0)


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


def _parts(rows: Sequence[Mapping[str, Any]], rewards: Mapping[str, float]) -> tuple[str, ...]:
    """The fields of reward functions that are shown beside the reward."""
    parts = list(rewards) if len(rewards) > 1 else []
    parts += [name for name in _functions(rows) if name not in parts]
    return tuple(name for name in parts if not name.startswith(REWARD_PREFIX))


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
