"""TRL's environments, which stay with the process that generated with them."""

from collections.abc import Sequence
from typing import Any

from podsrl.trl.exchange import share_of_places
from podsrl.trl.generation import Selected

#: What TRL's trainer holds of each row while it generates, where a run uses it.
_OF_EACH_ROW = ("environments", "_sync_tool_dicts", "_async_tool_dicts")


def keep_environments(trainer: Any, selected: Selected, rows: list[Any]) -> None:
    """Leave TRL's method with what belongs to the kept rollouts.

    TRL resets an environment per row *before* it generates, and so it is given n rows of each
    prompt, and goes on with m. TRL needs environments until the rewards are there, which is over:
    a kept rollout that is trained on by another process than the one that made it has None.

    Args:
        trainer: TRL's, whose lists are replaced by those of the kept rollouts.
        selected: What is kept.
        rows: The dataset rows that TRL's method iterates over; shortened in place, as TRL holds no
            other reference to them.
    """
    places = share_of_places(selected.kept_P_N.size, selected.rank, selected.world)
    here = {place: i for i, place in enumerate(places)}
    of_kept = [here.get(place) for place in selected.places[selected.share]]

    for name in _OF_EACH_ROW:
        live: Sequence[Any] | None = getattr(trainer, name, None)
        if live is not None:
            setattr(trainer, name, [None if i is None else live[i] for i in of_kept])
    trainer._batch_environments = selected.columns["environment_name"]
    rows[:] = selected.columns["row"] or ()  # TRL holds this very list


def same_tools_for_all(trainer: Any, rows: int) -> dict[str, list[Any]]:
    """TRL's tool dictionaries, one for each of n rows where TRL made them for its own m."""
    if not trainer.tools or trainer.environment_factories is not None:
        return {}
    names = ("_sync_tool_dicts", "_async_tool_dicts")
    return {name: [getattr(trainer, name)[0]] * rows for name in names}
