"""Rollouts as columns: what TRL's `_generate` returns, by name, with a value per rollout.

Images belong to rows, too: how TRL reads those of a dataset, and what it can't train on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from podsrl.errors import RewardError, UnsupportedError

Columns = dict[str, Sequence[Any] | None]  # name -> one value per rollout, or nothing at all

#: What TRL's `_generate` returns, in this order.
GENERATED = (
    "prompt_ids",
    "completion_ids",
    "tool_mask",
    "completion",
    "logps",
    "fields",
    "images",
    "tool_images",
)
#: The columns whose value is a list with a number for each token, and what kind of number.
OF_EACH_TOKEN: dict[str, type[np.number]] = {
    "prompt_ids": np.int32,
    "completion_ids": np.int32,
    "tool_mask": np.int32,
    "logps": np.float32,
}
#: Columns that the rollout log alone has use of; they stay with the process that generated.
OF_THE_LOG = ("token_logprobs", "token_entropies")
#: Columns of podsrl's own in TRL's table of completions.
COLUMNS_OF_TABLE = ("kept", "rule")
EXTRA = "extra/"  # before the names of columns that reward functions gave to `log_extra`


def columns_of(
    rows: list[dict[str, Any]], prompts: Sequence[Any], generated: Sequence[Any]
) -> Columns:
    """The results of TRL's `_generate` for these dataset rows and prompts, as columns by name.

    Fields that a `rollout_func` added go into the rows, where reward functions look for them, as
    TRL does it.
    """
    columns: Columns = {"row": rows, "prompt": prompts}
    columns |= zip(GENERATED, generated, strict=True)

    fields: Any = columns.pop("fields")
    for name, values in fields.items():
        for i, row in enumerate(rows):
            if not isinstance(values, list):
                row[name] = values
            elif i < len(values):
                row[name] = values[i]

    if columns["images"] is None:
        columns["images"] = dataset_images(rows)
    columns["tool_images"] = columns["tool_images"] or None
    return columns


def copied(value: Any) -> Any:
    """A value with lists and dictionaries of its own; what they hold, such as images, is shared.

    >>> before = [[{"role": "user", "content": "2+2"}], "2+2"]
    >>> after = copied(before)
    >>> after[0][0]["content"] = "3+3"
    >>> before[0][0]["content"]
    '2+2'
    """
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    if isinstance(value, list):
        return [copied(part) for part in value]
    return value


def generated_for_trl(columns: Columns, images_in_dataset: bool) -> tuple[Any, ...]:
    """Rows as TRL's `_generate` returns them; their fields are in the dataset rows already.

    Raises:
        UnsupportedError: TRL can't train on these rows, for their images.
    """
    values: dict[str, Any] = {**columns, "fields": {}}
    values["images"] = refuse_mixed_images(values["images"], images_in_dataset)
    values["tool_images"] = values["tool_images"] or []
    return tuple(values[name] for name in GENERATED)


def take_extra_logs(pending: dict[str, Any], rollouts: int, drops: bool) -> Columns:
    """Take what reward functions gave to `log_extra`, as columns beside the others.

    TRL would log them beside the rows that it goes on with, so they are taken out of `pending`, and
    those of the kept rollouts are put back.

    Args:
        pending: What TRL holds.
        rollouts: The number of rollouts that this process generated.
        drops: Whether some are dropped, so that the table has a column of podsrl's.

    Raises:
        RewardError: A column has another length, or the name of podsrl's.
    """
    for name in COLUMNS_OF_TABLE if drops else ():
        if name in pending:
            raise RewardError(
                f"log_extra({name!r}, ...): podsrl's table of completions has a column of that"
                " name, which says whether or by which rule the update sees a rollout; choose"
                " another"
            )
    taken: Columns = {EXTRA + name: pending.pop(name) for name in list(pending)}
    for name, values in taken.items():
        if len(values or ()) != rollouts:
            raise RewardError(
                f"log_extra({name.removeprefix(EXTRA)!r}, ...) got {len(values or ())} values"
                f" for {rollouts} rollouts; give one value per rollout, once"
            )
    return taken


def extra_logs_of(columns: Columns) -> dict[str, list[Any]]:
    """The columns of these rows that `take_extra_logs` took."""
    return {
        name.removeprefix(EXTRA): list(values or ())
        for name, values in columns.items()
        if name.startswith(EXTRA)
    }


def filled(columns: Columns, names: Iterable[str], rollouts: int) -> Columns:
    """The columns of the first rollouts, with all columns that any process has.

    Args:
        columns: Those of this process; the rollouts at their end may be padding.
        names: The columns that any process has. One that this process lacks holds None here.
        rollouts: The number of rollouts without padding.
    """
    full: Columns = {}
    for name, values in columns.items():
        full[name] = None if values is None else values[:rollouts]
    for name in names:
        if full.get(name) is None:
            full[name] = [None] * rollouts
    return full


def numbers_of(columns: Columns, cut_off: np.ndarray) -> np.ndarray:
    """The numbers of each rollout that every process knows beside its rewards, shape (rollouts, 3).

    Its tokens with those of its prompt, whether TRL's loss leaves it out because it was cut off,
    and whether it has an image.
    """
    completions = columns["completion_ids"] or ()
    prompts = columns["prompt_ids"] or ()
    tokens = [len(c) + len(p) for c, p in zip(completions, prompts, strict=True)]
    images = columns["images"] or [None] * len(tokens)
    return np.array([tokens, cut_off, list(map(bool, images))], dtype=np.int64).T


def in_words(name: str, values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """The values of a column, each with what its user calls it."""
    for value in values:
        if name == "row":
            for field, of_field in value.items():
                yield f"the field {field!r} of a rollout", of_field
        elif name.startswith(EXTRA):
            yield f"what log_extra({name.removeprefix(EXTRA)!r}, ...) was given", value
        else:
            yield f"the {name} of a rollout", value


def dataset_images(rows: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """The images of dataset rows, a list per row or None, as TRL reads its two columns."""
    if "images" in rows[0]:
        images = [row.get("images") for row in rows]
        return None if all(of_row == [] for of_row in images) else images
    if "image" in rows[0]:
        return [None if row.get("image") is None else [row["image"]] for row in rows]
    return None


def refuse_mixed_images(images: Any, in_dataset: bool) -> Any:
    """The kept rollouts' images as TRL would have them of these rows alone, a list per rollout.

    Args:
        images: Those of the rollouts that this process keeps, a list per rollout or None.
        in_dataset: Whether the dataset rows that TRL was given had images. TRL would put these in
            the place of none.

    Raises:
        UnsupportedError: No kept rollout has an image, and others of the dataset rows have.
    """
    if images is None or any(images):
        return images
    if in_dataset:
        raise UnsupportedError(
            "no rollout that this process keeps has an image, but others that it generated have;"
            " TRL can't train on such rows. Train on prompts with images and without in runs of"
            " their own, or on one process with one prompt per batch"
        )
    return None
