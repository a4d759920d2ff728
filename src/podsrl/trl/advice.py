"""What would cost a day in silence, said once."""

from collections.abc import Mapping, Sequence
from typing import Any

from podsrl.trl.messages import logger
from podsrl.trl.rollouts import Rollouts

_FLAT = 10  # steps without contrast after which that is said


class Advice:
    """Looks at each generation, and says once what is likely a mistake."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._taught_at: int | None = None  # the last step in which a group had contrast

    def look(self, of: Rollouts, names_F: Sequence[str], found: Mapping[str, float]) -> None:
        """Tell of rollouts to which one of `names_F` gave None, of masked rows, of no contrast."""
        step = of.step + 1
        for name, count in zip(names_F, of.partly.sum(dim=(0, 1)).tolist(), strict=False):
            self._once(
                f"reward function {name!r} gave no reward to {count} of {of.rewards_P_N.numel()}"
                " rollouts, and others did: such rollouts are kept last", name, step, bool(count),
            )  # fmt: skip
        rows = found.get("pods/masked_rows", 0)
        self._once(
            f"vLLM's importance correction masked {rows:.0f} rows after they were selected;"
            " vllm_importance_sampling_mode='token_truncate' masks none", "/masked", step, rows > 0,
        )  # fmt: skip
        teaches = found["pods/zero_advantage_rows"] < found["pods/kept_rollouts"]
        if teaches or self._taught_at is None:
            self._taught_at = step - (not teaches)
            self._told.discard("/flat")
        self._once(
            f"for {_FLAT} steps the kept rewards of every prompt were equal, so nothing was"
            " learned; `pods inspect` shows the rollouts. Where prompts are conversations, a reward"
            " function gets lists of messages: the text is completion[-1]['content']",
            "/flat", step, step - self._taught_at >= _FLAT,
        )  # fmt: skip

    def _once(self, said: str, about: str, step: int, is_so: Any) -> None:
        if is_so and about not in self._told:
            self._told.add(about)
            logger.warning("step %d: %s", step, said)
