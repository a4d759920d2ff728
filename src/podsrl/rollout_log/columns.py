"""The columns of a rollout: one list, which the log, the index, its filters and the page follow.

To add a column is to add it here, and to write it. The inspector then stores it if it has an
`index` type, filters by it if it has a `filter`, and shows it with the others.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Column:
    """A column of the files of rollouts.

    Args:
        name: Its name in the files.
        kind: Its Arrow type.
        help: What it means.
        optional: Whether a file may lack it.
        index: Its type in the inspector's index; None: it stays in the files, as texts do.
        filter: How the inspector filters by it: bounds of a "number", or a "yes or no".
        words: What the inspector calls the values False and True.
    """

    name: str
    kind: str
    help: str
    optional: bool = False
    index: str | None = None
    filter: Literal["number", "yes or no"] | None = None
    words: tuple[str, str] = ("no", "yes")

    @property
    def in_sql(self) -> str:
        """The name inside a query, where "group" is a word of the language."""
        return f'"{self.name}"'


COLUMNS = (
    Column(
        "step",
        "int64",
        "optimiser step that it was generated for, from 1",
        index="INTEGER",
        filter="number",
    ),
    Column("group", "int64", "which prompt of the step, from 0", index="INTEGER"),
    Column("rollout", "int64", "which rollout of the group, from 0", index="INTEGER"),
    Column(
        "round",
        "int64",
        "round in which it was generated, from 0, where there may have been several",
        optional=True,
    ),
    Column("prompt", "string", "as the model read it"),
    Column("completion", "string", "what the model wrote; of a conversation, its last message"),
    Column(
        "reward",
        "float64",
        "weighted sum over the reward functions; null: could not be scored",
        index="DOUBLE",
        filter="number",
    ),
    Column(
        "kept",
        "bool",
        "whether the update saw it",
        index="BOOLEAN",
        filter="yes or no",
        words=("dropped", "kept"),
    ),
    Column(
        "advantage",
        "float64",
        "its weight in the update; null: dropped",
        index="DOUBLE",
        filter="number",
    ),
    Column("tokens", "int64", "of the completion", index="INTEGER", filter="number"),
    Column("answer", "string", "the right answer, where the data has one", optional=True),
    Column(
        "data",
        "string",
        "the texts, numbers and truth values of its row of the dataset, as a JSON object",
        optional=True,
    ),
    Column(
        "turns",
        "string",
        "of a rollout with tools: its turns as JSON; null: one answer",
        optional=True,
    ),
    Column(
        "images",
        "string",
        "the images of its conversation, as a JSON list of data addresses",
        optional=True,
    ),
    Column(
        "token_ends",
        "list<int32>",
        "where each token of the completion ends, in characters",
        optional=True,
    ),
    Column(
        "token_logprobs",
        "list<float>",
        "the log-probability of each token when it was sampled",
        optional=True,
    ),
    Column(
        "token_entropies",
        "list<float>",
        "the entropy of the distribution that each token was sampled from, in nats",
        optional=True,
    ),
    Column(
        "cut_off",
        "bool",
        "whether its length was limited; null: not known",
        optional=True,
        index="BOOLEAN",
        filter="yes or no",
        words=("whole", "cut off"),
    ),
)

#: Beside these, a file has one column for each reward function.
REWARD_PREFIX = "rewards/"

REQUIRED = tuple(column for column in COLUMNS if not column.optional)
OPTIONAL = tuple(column for column in COLUMNS if column.optional)
INDEXED = tuple(column for column in COLUMNS if column.index is not None)
FILTERS = tuple(column for column in COLUMNS if column.filter is not None)


def column_kinds(names: "list[str] | None" = None) -> dict[str, str]:
    """The Arrow types of columns by name, in order.

    Args:
        names: The columns of a file, of which those that no list knows are left out; None: all
            columns without those of reward functions.
    """
    kinds = {c.name: c.kind for c in COLUMNS if names is None or c.name in names or not c.optional}
    for name in names or ():
        if name.startswith(REWARD_PREFIX):
            kinds[name] = "float64"
    return kinds
