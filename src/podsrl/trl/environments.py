"""TRL's environments, which stay with the process that generated with them."""

from collections.abc import Sequence
from typing import Any

from podsrl.trl.columns import Columns
from podsrl.trl.generation import Selected

#: What TRL's trainer holds of each row while it generates, where a run uses it.
_OF_EACH_ROW = ("environments", "_sync_tool_dicts", "_async_tool_dicts")


def keep_environments(trainer: Any, selected: Selected, columns: Columns, rows: list[Any]) -> None:
    """Leave TRL's method with what belongs to the rows of this process.

    TRL resets an environment per row *before* it generates, and so it is given n rows of each
    prompt, and goes on with m. TRL needs environments until the rewards are there, which is over.
    So they never travel, which sandboxes and browsers could not: a row that moved has None.

    Args:
        trainer: TRL's, whose lists are replaced by those of the rows.
        selected: What is kept.
        columns: Those of the rows of this process.
        rows: The dataset rows that TRL's method iterates over; shortened in place, as TRL holds no
            other reference to them.
    """
    index_of_place = {place: index for index, place in enumerate(selected.rollouts.share)}
    indices = [index_of_place.get(place) for place in selected.own_places]  # None: made elsewhere

    for name in _OF_EACH_ROW:
        generated: Sequence[Any] | None = getattr(trainer, name, None)
        if generated is not None:
            of_rows = [None if index is None else generated[index] for index in indices]
            setattr(trainer, name, of_rows)
    trainer._batch_environments = columns["environment_name"]
    rows[:] = columns["row"] or ()  # TRL holds this very list


def same_tools_for_all(trainer: Any, rows: int) -> dict[str, list[Any]]:
    """TRL's tool dictionaries, one for each of n rows where TRL made them for its own m."""
    if not trainer.tools or trainer.environment_factories is not None:
        return {}
    names = ("_sync_tool_dicts", "_async_tool_dicts")
    return {name: [getattr(trainer, name)[0]] * rows for name in names}
