"""What would cost a day in silence, said once."""

from collections.abc import Mapping, Sequence

import numpy as np

from podsrl.trl.generation import Rollouts
from podsrl.trl.messages import logger

_STEPS_WITHOUT_CONTRAST = 10  # after which that is said
_FIRST_STEPS = 5  # in which a part of the reward that is not followed is told
#: Correlations of the update with a part of the reward that it follows, and with one that it
#: does not.
_FOLLOWED, _NOT_FOLLOWED = 0.9, 0.1


class Advice:
    """Looks at each generation, and says once what is likely a mistake."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._last_step_with_contrast: int | None = None

    def look(
        self,
        rollouts: Rollouts,
        kept_P_N: np.ndarray,
        judged_F: Sequence[str],
        metrics: Mapping[str, float],
    ) -> None:
        """Look at the rollouts of a generation and at its metrics.

        Args:
            rollouts: All n of each prompt.
            kept_P_N: True for those that the update sees.
            judged_F: The names of the reward functions of which None is told; () for none.
            metrics: What `pods_metrics` found.
        """
        step = rollouts.step + 1
        self._tell_of_partly_scored(rollouts, judged_F, step)
        if step <= _FIRST_STEPS:
            self._tell_of_one_part(rollouts, judged_F, metrics, step)

        masked = metrics.get("pods/masked_rows", 0)
        if masked > 0:
            self._tell_once(
                "masked rows",
                step,
                f"vLLM's importance correction masked {masked:.0f} rows after they were selected;"
                " vllm_importance_sampling_mode='token_truncate' masks none",
            )

        self._tell_of_no_contrast(has_contrast(rollouts.rewards.total_P_N, kept_P_N), step)

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

    def _tell_of_one_part(
        self, rollouts: Rollouts, names_F: Sequence[str], metrics: Mapping[str, float], step: int
    ) -> None:
        """Where all that is kept differs in one part, such as a length penalty of wrong answers."""
        rewards = rollouts.rewards
        weights_F = rewards.reward_weights_F
        if not np.array_equal(rewards.selection_weights_F, weights_F):
            return  # it was chosen what to select by

        parts_F_P_N = np.moveaxis(rewards.by_function_P_N_F, -1, 0)
        varies_F = (np.fmax.reduce(parts_F_P_N, -1) > np.fmin.reduce(parts_F_P_N, -1)).any(axis=1)
        follows_F = [abs(metrics[f"pods/correlation/{name}"]) for name in names_F]
        left_out = [
            name
            for name, follows, varies, weight in zip(
                names_F, follows_F, varies_F, weights_F, strict=False
            )
            if weight and varies and follows <= _NOT_FOLLOWED
        ]
        if not left_out or max(follows_F) < _FOLLOWED:
            return
        selects_F = [
            float(weight) if follows < _FOLLOWED else 0.0
            for weight, follows in zip(weights_F, follows_F, strict=True)
        ]
        self._tell_once(
            "one part",
            step,
            f"what is kept differs in {names_F[int(np.argmax(follows_F))]!r}, and not in"
            f" {left_out[0]!r}, which varies too (pods/correlation/{left_out[0]} is"
            f" {metrics[f'pods/correlation/{left_out[0]}']:.2f}); if {left_out[0]!r} should decide,"
            f" selection_weights={selects_F} selects by it",
        )

    def _tell_of_no_contrast(self, has_any: bool, step: int) -> None:
        if self._last_step_with_contrast is None:
            self._last_step_with_contrast = step - 1
            if not has_any:
                self._tell_once(
                    "no contrast at first",
                    step,
                    "all kept rewards of a prompt are equal, for every prompt, so this step teaches"
                    " nothing. That is usual where right answers are rare; if it stays so, look at"
                    " the rollouts with `pods inspect`",
                )

        if has_any:
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


def has_contrast(rewards_P_N: np.ndarray, kept_P_N: np.ndarray) -> bool:
    """Whether the kept rewards of any prompt differ, by more than float32 rounds them.

    The advantages don't tell: TRL's own are computed in float32, where the mean of eight rewards of
    0.1 is not 0.1.

    >>> kept = np.ones((1, 8), dtype=bool)
    >>> has_contrast(np.full((1, 8), 0.1), kept), has_contrast(np.arange(8.0)[None], kept)
    (False, True)
    """
    counts_P_N = kept_P_N & ~np.isnan(rewards_P_N)
    highest_P = np.where(counts_P_N, rewards_P_N, -np.inf).max(axis=1, initial=-np.inf)
    lowest_P = np.where(counts_P_N, rewards_P_N, np.inf).min(axis=1, initial=np.inf)
    known_P = counts_P_N.any(axis=1)

    size_P = np.maximum(np.abs(highest_P[known_P]), np.abs(lowest_P[known_P]))
    spread_P = highest_P[known_P] - lowest_P[known_P]
    return bool((spread_P > 4 * np.finfo(np.float32).eps * size_P).any())
