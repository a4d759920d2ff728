"""The settings of a trainer's selection, completed from the trainer for each generation.

A callback may change the trainer or its `args` in the middle of a run. What it changes counts from
the next generation on, or is refused by its name.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch

from podsrl.errors import InvalidInputError
from podsrl.hosts import passes_in_words
from podsrl.methods import method_of, resolve_method
from podsrl.selection import Selection
from podsrl.trl.config import PODSConfig, check_advantages, why_all_rows_pass
from podsrl.trl.rounds import Rounds
from podsrl.trl.seam import Changes, Seam


@dataclass(frozen=True)
class Settings:
    """The settings of a trainer's selection, complete.

    Args:
        selection: What is generated and kept.
        reward_functions: The names of the reward functions.
        reward_weights: The weight of each of them in what is trained on.
        selection_weights: The weight of each of them in what is selected by.
        aggregation: TRL's multi_objective_aggregation.
        scale_rewards: What TRL divides advantages by: the deviation of a "group", of the "batch",
            or "none".
        why_all_pass: Why every kept row has a pass; "" where rows without gradient are spared.
        read_prompts_once: Whether a prompt is read once for all its rollouts, where it can be.
        rounds: How rollouts are generated in rounds; None: all at once.
    """

    selection: Selection
    reward_functions: tuple[str, ...]
    reward_weights: tuple[float, ...]
    selection_weights: tuple[float, ...]
    aggregation: str
    scale_rewards: Literal["group", "batch", "none"]
    why_all_pass: str
    read_prompts_once: bool
    rounds: Rounds | None

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is dropped, so that every value stays TRL's own."""
        return self.selection.keeps_all

    @property
    def normalises_first(self) -> bool:
        """Whether TRL normalises each function's rewards, and then sums them."""
        return self.aggregation == "normalize_then_sum"

    @property
    def skip_zero_advantage(self) -> bool:
        """Whether passes of rows without gradient are spared."""
        return not self.why_all_pass

    @property
    def has_own_advantages(self) -> bool:
        """Whether podsrl computes the advantages, and not TRL.

        TRL's advantages can't be used where rows are dropped: they compare m rows of each prompt,
        and a batch rule keeps other numbers of them. Nor where passes are spared: in float32 the
        mean of eight rewards of 0.1 differs from 0.1, so that no row would have the advantage 0.
        """
        if self.normalises_first:
            return False
        return self.skip_zero_advantage or not self.keeps_all

    @property
    def passes_in_words(self) -> str:
        """The rows that have a pass, in words for the log."""
        return passes_in_words(self.skip_zero_advantage, self.why_all_pass)

    def in_words(self) -> dict[str, str]:
        """Every setting as text, by its name."""
        return {name: str(value) for name, value in self._by_name().items()}

    def changes_from(self, before: "Settings") -> list[str]:
        """The changes since other settings, in words for the log."""
        now, then = self._by_name(), before._by_name()
        return [
            f"{name} is {value} (before: {then[name]})"
            for name, value in now.items()
            if value != then[name]
        ]

    def _by_name(self) -> dict[str, Any]:
        """Every setting as a plain value."""
        values = {**vars(self.selection), **vars(self)}
        rounds = values.pop("rounds")
        values |= dict.fromkeys(("rollouts_per_round", "prompts_per_round", "reward_bounds"))
        values |= rounds.settings if rounds is not None else {}
        for name in ("selection", "chosen_rule", "method", "why_all_pass"):
            values.pop(name, None)
        return {**values, "passes": self.passes_in_words}

    def as_fields(self) -> dict[str, Any]:
        """As fields of a run's config.yaml, by the names of `PODSConfig`."""
        return {
            "method": method_of(self.selection),
            "skip_zero_advantage": self.skip_zero_advantage,
            "read_prompts_once": self.read_prompts_once,
            "reward_functions": list(self.reward_functions),
            "reward_weights": list(self.reward_weights),
        }


class SettingsOfTrainer:
    """Completes the settings of a trainer, once for each generation.

    Args:
        trainer: TRL's trainer, constructed.
    """

    def __init__(self, trainer: Seam) -> None:
        self._trainer = trainer
        self._rows_of_prompt = trainer.num_generations
        self._method = trainer.args.method
        self._last: tuple[tuple[Any, ...], Selection] | None = None

    def complete(self, changes: Changes) -> Settings:
        """The settings that the trainer and its config ask for now.

        Args:
            changes: What a subclass or a user has put before TRL's methods.

        Raises:
            InvalidInputError: A change that can't count in the middle of a run, or that is not
                allowed.
        """
        trainer = self._trainer
        args = trainer.args
        self._refuse_changes(args)

        functions = tuple(trainer.reward_func_names)
        if not isinstance(trainer.reward_weights, torch.Tensor):
            raise InvalidInputError(
                f"the trainer's reward_weights are {trainer.reward_weights!r}, and TRL multiplies"
                " them as a tensor: set torch.tensor([...])"
            )
        reward_weights = tuple(trainer.reward_weights.tolist())
        selection_weights = tuple(args.selection_weights or reward_weights)
        for name, weights in (
            ("reward_weights", reward_weights),
            ("selection_weights", selection_weights),
        ):
            if len(weights) != len(functions):
                raise InvalidInputError(
                    f"{name} has {len(weights)} numbers for {len(functions)} reward functions; give"
                    " one for each, in their order"
                )

        selection = self._selection(args)
        check_advantages(
            selection, trainer.multi_objective_aggregation, trainer.scale_rewards, args.method
        )
        return Settings(
            selection=selection,
            reward_functions=functions,
            reward_weights=reward_weights,
            selection_weights=selection_weights,
            aggregation=trainer.multi_objective_aggregation,
            scale_rewards=trainer.scale_rewards,
            why_all_pass=_why_all_pass(trainer, args, selection, changes),
            read_prompts_once=_reads_once(args, selection),
            rounds=args.rounds(),
        )

    def _selection(self, args: PODSConfig) -> Selection:
        """The config's selection; the same object, with its rule, as long as nothing changes."""
        asked = (
            args.num_rollouts,
            args.num_generations,
            args.downsampling_rule,
            args.advantage_baseline,
            args.seed,
        )
        if self._last is None or self._last[0] != asked:
            self._last = (asked, args.selection())
        return self._last[1]

    def _refuse_changes(self, args: PODSConfig) -> None:
        """Refuse what was changed in a run, and would count in one place and not in another."""
        trainer = self._trainer
        for owner, rows in (
            ("the trainer's num_generations", trainer.num_generations),
            ("args.num_generations", args.num_generations),
        ):
            if rows != self._rows_of_prompt:
                raise InvalidInputError(
                    f"{owner} was changed from {self._rows_of_prompt} to {rows}: TRL's sampler was"
                    f" made for {self._rows_of_prompt} rows of a prompt. args.num_rollouts may"
                    " change in a run; for other rows of a prompt make a new trainer"
                )
        if args.method != self._method:
            raise InvalidInputError(
                f"args.method was changed from {self._method!r} to {args.method!r}, and a method is"
                " completed when its config is made: change downsampling_rule, advantage_baseline"
                " or num_rollouts"
            )


def _why_all_pass(trainer: Seam, args: PODSConfig, selection: Selection, changes: Changes) -> str:
    """Why every kept row has a pass; "" where rows without gradient are spared."""
    if args.skip_zero_advantage is False:
        return "skip_zero_advantage=False"
    why = why_all_rows_pass(trainer) or _why_of_model(trainer)
    if why or args.skip_zero_advantage:
        return why

    # By default, only where nobody could notice.
    if changes.sees_rows:
        return f"{changes.sees_rows} may count on every row; skip_zero_advantage=True spares them"
    method = resolve_method(args.method or "pods")
    spares = method.spares_passes(drops=not selection.keeps_all)
    return "" if spares else "skip_zero_advantage is off where nothing is dropped"


def _reads_once(args: PODSConfig, selection: Selection) -> bool:
    """Whether prompts are read once; by default where rollouts are dropped, else all is TRL's."""
    asked = args.read_prompts_once
    return not selection.keeps_all if asked is None else asked


def _why_of_model(trainer: Any) -> str:
    """The part of the model or its loss that gives every row a gradient; "" if there is none."""
    if getattr(trainer, "aux_loss_enabled", False):
        return "a mixture of experts has a loss of its own"
    if getattr(trainer, "use_liger_kernel", False):  # before TRL 1.16
        return "Liger's loss takes all rows"
    return ""
