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
        """Tell where all that is kept differs in one part of the reward, and not in another.

        Such as a length penalty where all answers are wrong.
        """
        rewards = rollouts.rewards
        weights_F = rewards.reward_weights_F
        has_chosen = not np.array_equal(rewards.selection_weights_F, weights_F)
        if has_chosen or not names_F:
            return

        # Whether a part differs within any prompt, and how closely the update follows it.
        highest_P_F = np.fmax.reduce(rewards.by_function_P_N_F, axis=1)
        lowest_P_F = np.fmin.reduce(rewards.by_function_P_N_F, axis=1)
        varies_F = (highest_P_F > lowest_P_F).any(axis=0)
        correlations_F = [metrics[f"pods/correlation/{name}"] for name in names_F]
        follows_F = np.abs(correlations_F)

        is_left_out_F = (weights_F != 0) & varies_F & (follows_F <= _NOT_FOLLOWED)
        if not is_left_out_F.any() or follows_F.max() < _FOLLOWED:
            return

        followed = names_F[int(follows_F.argmax())]
        first = int(is_left_out_F.argmax())
        left_out = names_F[first]
        by_the_others_F = np.where(follows_F < _FOLLOWED, weights_F, 0.0).tolist()
        self._tell_once(
            "one part",
            step,
            f"what is kept differs in {followed!r}, and not in {left_out!r}, which varies too"
            f" (pods/correlation/{left_out} is {correlations_F[first]:.2f}); if {left_out!r} should"
            f" decide, selection_weights={by_the_others_F} selects by it",
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
