"""Environments: TRL resets them per row *before* it generates, and so is given n of each prompt."""

from typing import Any

from podsrl.trl.rollouts import Kept, share_of_rows


def keep(trainer: Any, kept: Kept, rows: list[Any]) -> None:
    """Shorten to the kept rollouts, in place, what TRL's method holds of the rows it was given.

    Environments and their methods stay with the rank that generated with them. TRL needs them until
    the rewards are there, so a kept rollout that is trained on elsewhere has None.
    """
    places = share_of_rows(kept.kept_P_N.numel(), kept.rank, kept.world)
    here = {place: i for i, place in enumerate(places)}
    of_kept = [here.get(place) for place in kept.places[kept.share]]
    for name in ("environments", "_sync_tool_dicts", "_async_tool_dicts"):
        live = getattr(trainer, name, None)  # TRL sets what this run uses
        if live is not None:
            setattr(trainer, name, [None if i is None else live[i] for i in of_kept])
    trainer._batch_environments = kept.columns["environment"]
    rows[:] = kept.columns["row"] or ()
