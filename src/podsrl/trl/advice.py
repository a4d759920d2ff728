"""What would cost a day in silence, said once."""

from collections.abc import Mapping, Sequence

from podsrl.trl.generation import Rollouts
from podsrl.trl.messages import logger

_STEPS_WITHOUT_CONTRAST = 10  # after which that is said


class Advice:
    """Looks at each generation, and says once what is likely a mistake."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._last_step_with_contrast: int | None = None

    def look(
        self, rollouts: Rollouts, judged_F: Sequence[str], metrics: Mapping[str, float]
    ) -> None:
        """Look at the rollouts of a generation and at its metrics.

        Args:
            rollouts: All n of each prompt.
            judged_F: The names of the reward functions of which None is told; () for none.
            metrics: What `pods_metrics` found.
        """
        step = rollouts.step + 1
        self._tell_of_partly_scored(rollouts, judged_F, step)

        masked = metrics.get("pods/masked_rows", 0)
        if masked > 0:
            self._tell_once(
                "masked rows",
                step,
                f"vLLM's importance correction masked {masked:.0f} rows after they were selected;"
                " vllm_importance_sampling_mode='token_truncate' masks none",
            )

        has_contrast = metrics["pods/zero_advantage_rows"] < metrics["pods/kept_rollouts"]
        self._tell_of_no_contrast(has_contrast, step)

    def _tell_of_partly_scored(
        self, rollouts: Rollouts, judged_F: Sequence[str], step: int
    ) -> None:
        rewards = rollouts.rewards
        count_F = rewards.partly_scored_P_N_F.sum(axis=(0, 1)).tolist()
        for name, count in zip(judged_F, count_F, strict=False):
            if count:
                self._tell_once(
                    f"partly scored by {name}",
                    step,
                    f"reward function {name!r} gave no reward to {count} of"
                    f" {rewards.total_P_N.size} rollouts, and others did: such rollouts are kept"
                    " last",
                )

    def _tell_of_no_contrast(self, has_contrast: bool, step: int) -> None:
        if self._last_step_with_contrast is None:
            self._last_step_with_contrast = step - 1
        if has_contrast:
            self._last_step_with_contrast = step
            self._told.discard("no contrast")  # it is told again if it comes again
        elif step - self._last_step_with_contrast >= _STEPS_WITHOUT_CONTRAST:
            self._tell_once(
                "no contrast",
                step,
                f"for {_STEPS_WITHOUT_CONTRAST} steps the kept rewards of every prompt were equal,"
                " so nothing was learned; `pods inspect` shows the rollouts. Where prompts are"
                " conversations, a reward function gets lists of messages: the text is"
                " completion[-1]['content']",
            )

    def _tell_once(self, about: str, step: int, message: str) -> None:
        if about not in self._told:
            self._told.add(about)
            logger.warning("step %d: %s", step, message)
