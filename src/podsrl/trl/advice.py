"""What would cost a day in silence, said once."""

from collections.abc import Mapping, Sequence
from typing import Any

from podsrl.trl.messages import logger
from podsrl.trl.rollouts import Rollouts

_FLAT = 10  # steps without contrast after which that is said


class Advice:
    """Looks at each generation, and says once what is likely a mistake.

    Args:
        tells: Whether this process is the one that speaks.
    """

    def __init__(self, tells: bool = True) -> None:
        self._tells = tells
        self._told: set[str] = set()
        self._taught_at: int | None = None  # the last step in which a group had contrast

    def of_parts(self, rollouts: Rollouts, names_F: Sequence[str]) -> None:
        """Name the functions that gave no reward to rollouts that others scored."""
        said = (
            "step %d: reward function %r gave no reward to %d of %d rollouts, and others did: such"
            " rollouts are kept last. select_partly_scored=True selects them by what others gave"
        )
        counts_F = rollouts.partly.sum(dim=(0, 1)).tolist()
        for name, count in zip(names_F, counts_F, strict=True):
            if count:
                self._once(name, said, rollouts.step + 1, name, count, rollouts.rewards_P_N.numel())

    def of_metrics(self, found: Mapping[str, float], step: int) -> None:
        """Tell of rows that were masked, and of ten steps without contrast."""
        if rows := found.get("pods/masked_rows"):
            said = (
                "step %d: vLLM's importance correction masked %d rows after they were selected;"
                " vllm_importance_sampling_mode='token_truncate' masks none"
            )
            self._once("/masked", said, step, rows)
        if self._taught_at is None:
            self._taught_at = step - 1
        if found["pods/filler_rows"] < found["pods/kept_rollouts"]:
            self._taught_at = step
            self._told.discard("/flat")
        elif step - self._taught_at >= _FLAT:
            said = (
                "step %d: for %d steps the kept rewards of every prompt were equal, so nothing was"
                " learned; `pods inspect` shows the rollouts. Where prompts are conversations, a"
                " reward function gets lists of messages: the text is completion[-1]['content']"
            )
            self._once("/flat", said, step, step - self._taught_at)

    def _once(self, about: str, message: str, *values: Any) -> None:
        if self._tells and about not in self._told:
            self._told.add(about)
            logger.warning(message, *values)
