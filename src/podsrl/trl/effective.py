"""What a config became in a trainer: a value of its own, which is logged and saved."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podsrl.hosts import passes_in_words
from podsrl.methods import complete_settings
from podsrl.selection import Selection
from podsrl.trl.config import PODSConfig, why_all_rows_pass


@dataclass(frozen=True)
class EffectiveSettings:
    """How a trainer selects, and what that rests on.

    Args:
        method: The name of the method that the settings are; "custom" if they are none's.
        selection: What is generated and kept.
        selection_weights: The weight of each reward function in what is selected by.
        reward_weights: The weight of each reward function in what is trained on.
        reward_functions: The names of the reward functions.
        skip_zero_advantage: Whether passes of rows without gradient are spared.
        why_all_pass: Why they are not, for the log.
        has_own_advantages: Whether podsrl computes the advantages, and not TRL.
    """

    method: str
    selection: Selection
    selection_weights: tuple[float, ...]
    reward_weights: tuple[float, ...]
    reward_functions: tuple[str, ...]
    skip_zero_advantage: bool
    why_all_pass: str
    has_own_advantages: bool

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is dropped, so that every value stays TRL's own."""
        return self.selection.num_rollouts == self.selection.num_kept

    @property
    def passes_in_words(self) -> str:
        """Which rows have a pass, for the log."""
        return passes_in_words(self.skip_zero_advantage, self.why_all_pass)

    def as_fields(self) -> dict[str, Any]:
        """As fields of a run's config.yaml, by the names of `PODSConfig`."""
        return {
            "method": self.method,
            "skip_zero_advantage": self.skip_zero_advantage,
            "reward_functions": list(self.reward_functions),
            "reward_weights": list(self.reward_weights),
        }


def effective_settings(
    args: PODSConfig, trainer: Any, reward_weights: Sequence[float], reward_functions: Sequence[str]
) -> EffectiveSettings:
    """What a config became with a model and reward functions.

    Args:
        args: The user's config, which is not changed.
        trainer: TRL's, once it is constructed: it knows whether the model is a mixture of experts,
            or the loss Liger's.
        reward_weights: TRL's, one for each function.
        reward_functions: Their names.
    """
    selection = args.selection()
    keeps_all = selection.num_rollouts == selection.num_kept
    why_all_pass = why_all_rows_pass(args) or _why_of_model(trainer)
    skip = bool(args.skip_zero_advantage) and not why_all_pass
    if not skip and not why_all_pass:
        why_all_pass = "skip_zero_advantage=False"

    # TRL's advantages can't be used where rows are dropped: they compare m rows of each prompt, and
    # a batch rule keeps other numbers of them. Nor where passes are spared: in float32 the mean of
    # eight rewards of 0.1 differs from 0.1, so that no row would have the advantage 0.
    sums_first = args.multi_objective_aggregation == "sum_then_normalize"
    return EffectiveSettings(
        method=_method_name(args),
        selection=selection,
        selection_weights=tuple(args.selection_weights or reward_weights),
        reward_weights=tuple(reward_weights),
        reward_functions=tuple(reward_functions),
        skip_zero_advantage=skip,
        why_all_pass=why_all_pass,
        has_own_advantages=sums_first and (skip or not keeps_all),
    )


def _why_of_model(trainer: Any) -> str:
    """What of the model or its loss gives every row a gradient; "" if nothing does."""
    if getattr(trainer, "aux_loss_enabled", False):
        return "a mixture of experts has a loss of its own"
    if getattr(trainer, "use_liger_kernel", False):  # before TRL 1.16
        return "Liger's loss takes all rows"
    return ""


def _method_name(args: PODSConfig) -> str:
    """The method's name, also where the user gave none and the settings are those of one."""
    return complete_settings(
        args.method,
        num_rollouts=args.num_rollouts,
        num_kept=args.num_generations,
        rule=args.downsampling_rule,
        baseline=args.advantage_baseline,
    ).name
