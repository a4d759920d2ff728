"""`PODSConfig`: TRL's `GRPOConfig` with how many rollouts to generate and which to keep."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trl import GRPOConfig

from podsrl.errors import InvalidInputError
from podsrl.prompts import resolve_prompt_rule
from podsrl.rules import register_rule
from podsrl.selection import Selection, are_weights


def described(default: Any, meaning: str) -> Any:
    """A field of a config with this default, and this help on the command line."""
    return field(default=default, metadata={"help": meaning})


#: The `prompt_selection` that leaves the choice of prompts to TRL.
UNIFORM = "uniform"
#: What TRL's users call the fields of a selection.
_NAMES = {
    "num_kept": "num_generations",
    "rule": "downsampling_rule",
    "baseline": "advantage_baseline",
}


@dataclass
class PODSConfig(GRPOConfig):
    """Configuration of `PODSTrainer`: everything in TRL's `GRPOConfig`, and the fields below.

    `num_generations` keeps TRL's meaning, completions per prompt *in the update* (m), so batch
    size, gradient accumulation and memory mean what they mean for `GRPOTrainer`. No default of
    TRL's is changed.

    Raises:
        InvalidInputError: m > n, m < 2 (`Selection` says when 1 is allowed), an unknown baseline,
            a combination that has no defined meaning.
        UnknownNameError: There is no such rule.
    """

    num_rollouts: int | None = described(
        None,
        "n: completions per prompt that are generated and scored; n >= num_generations (m, what the"
        " update sees). Default: 4 x num_generations.",
    )
    downsampling_rule: str = described(
        "max_variance",
        "Which rollouts to keep. To begin with: max_reward with num_generations=1, num_rollouts=4"
        " and advantage_baseline='group' keeps the best of four, which learned most on a language"
        " model (docs/methods.md). A group rule keeps m of each prompt: max_variance, max_reward,"
        " random, percentile, balanced. A batch rule, such as max_contrast, keeps m per prompt on"
        " average, any number of each. Your own: a name you registered, 'file.py:function',"
        " 'module:function'.",
    )
    advantage_baseline: str = described(
        "kept",
        "Rewards that advantages are normalised with: 'kept' (the m kept ones, as in the paper) or"
        " 'group' (all n).",
    )
    selection_weights: list[float] | None = described(  # noqa: RUF009 (it gives a field)
        None,
        "Weight of each reward function when choosing what to keep, in their order; training still"
        " uses reward_weights. Default: the same weights.",
    )
    skip_zero_advantage: bool | None = described(
        None,
        "Leave kept rows of advantage 0 out of the update's passes: the same gradient, sooner. It"
        " needs beta=0, no entropy option, no loss_type bnpo. Default: on, where so and n > m.",
    )
    prompt_selection: str = described(
        UNIFORM,
        "Which prompts to generate for. 'uniform': TRL's own order. By the rewards of their earlier"
        " rollouts: 'thompson' (the largest contrast that is likely), 'skip' (those that taught"
        " nothing come more rarely). Your own: 'file.py:function', 'module:function'.",
    )
    rollout_log: bool = described(
        True, "Write every rollout, kept or not, to parquet under output_dir/rollouts."
    )
    rollout_log_max_rows: int = described(
        1_000_000,
        "Bound of the rollout log: above it every second logged step is deleted, so that the log"
        " still spans the whole run.",
    )

    _in_pods_trainer = False  # while `PODSTrainer` constructs TRL's

    def __post_init__(self) -> None:
        rule: Any = self.downsampling_rule
        if callable(rule):  # by name, so that the config can be saved and a run resumed
            qualified = getattr(rule, "__qualname__", None)
            if qualified is None:
                raise InvalidInputError(f"a rule is a function with a name; got {rule!r}")
            name = f"{rule.__module__}:{qualified}"
            register_rule(name, rule)
            self.downsampling_rule = name
        if self.num_rollouts is None and isinstance(self.num_generations, int):
            self.num_rollouts = 4 * self.num_generations
        selection = self.selection()
        if self.prompt_selection != UNIFORM:
            resolve_prompt_rule(self.prompt_selection)
        self._check_as_grpo()
        self._check_fields(selection.across_prompts)

    @property
    def place_model_on_device(self) -> bool | None:
        """TRL's; every trainer reads it while it is constructed, and only `PODSTrainer` may."""
        if not self._in_pods_trainer:
            raise InvalidInputError(
                "PODSConfig selects rollouts with PODSTrainer only, and another trainer was given"
                " it: `from podsrl.trl import PODSTrainer`, or give TRL's own trainer a GRPOConfig"
            )
        return super().place_model_on_device

    def selection(self) -> Selection:
        """How this config selects rollouts; TRL's reward functions are weighted by the trainer."""
        return Selection(
            num_rollouts=self.num_rollouts,  # type: ignore[arg-type]
            num_kept=self.num_generations,  # type: ignore[arg-type]
            rule=self.downsampling_rule,
            baseline=self.advantage_baseline,  # type: ignore[arg-type]
            seed=self.seed,
            names=_NAMES,
        )

    def settings(self) -> dict[str, Any]:
        """All fields as plain values, without those that are the library's own business."""
        return {name: value for name, value in self.to_dict().items() if not name.startswith("_")}

    def _check_as_grpo(self) -> None:
        """TRL's own checks. It wants two rows per prompt; with a batch rule one may be the mean."""
        m, evaluated = int(self.num_generations or 0), self.num_generations_eval
        self.num_generations, self.num_generations_eval = max(2, m), evaluated or m
        try:
            super().__post_init__()
        except ValueError as error:
            rows, least = self.generation_batch_size or 0, self.num_generations
            if rows % least == 0 or "divisible by num_generations" not in str(error):
                raise
            pairs = ", as TRL's own check asks for two of a prompt" if m == 1 else ""
            raise InvalidInputError(
                f"num_generations={m} needs a multiple of {least} rows per generation{pairs}; got"
                f" {rows}. Rows are generation_batch_size, by default per_device_train_batch_size x"
                " gradient_accumulation_steps x processes. Change one of these, or num_generations"
            ) from error
        self.num_generations, self.num_generations_eval = m, evaluated

    def _check_fields(self, across_prompts: bool) -> None:
        """Our own, and what they mean together with TRL's."""
        rows = self.rollout_log_max_rows
        if not isinstance(rows, int) or rows < 1:
            raise InvalidInputError(
                f"rollout_log_max_rows must be an integer of at least 1, got {rows!r};"
                " rollout_log=False switches the log off"
            )
        weights = self.selection_weights
        if weights is not None and not (isinstance(weights, list) and are_weights(weights)):
            raise InvalidInputError(
                "selection_weights must be a list with one finite number per reward function, not"
                f" all of them 0; got {weights!r}"
            )
        needs_all = bool(self.beta) or self.loss_type == "bnpo" or self.top_entropy_quantile < 1
        needs_all |= bool(vars(self).get("entropy_coef") or vars(self).get("use_adaptive_entropy"))
        if self.skip_zero_advantage is None:
            self.skip_zero_advantage = not needs_all and self.num_rollouts != self.num_generations
        if self.skip_zero_advantage and needs_all:
            raise InvalidInputError(
                "skip_zero_advantage leaves out rows without gradient: it needs beta=0, no entropy option,"
                f" no loss_type='bnpo'; got beta={self.beta}, loss_type={self.loss_type!r}"
            )
        aggregation = self.multi_objective_aggregation
        by_group = self.advantage_baseline == "group"
        if (across_prompts or by_group) and aggregation != "sum_then_normalize":
            field = "advantage_baseline" if by_group else "downsampling_rule"
            raise InvalidInputError(
                f"{field}={getattr(self, field)!r} needs multi_objective_aggregation="
                f"'sum_then_normalize', got {aggregation!r}"
            )
        if by_group and self.scale_rewards == "batch":
            raise InvalidInputError("advantage_baseline='group' needs scale_rewards group or none")


def check_arguments(args: Any, reward_funcs: Any, environments: Any, dataset: Any) -> None:
    """Check what `PODSTrainer` is given; environments may add reward functions of their own."""
    if not isinstance(args, PODSConfig):
        raise InvalidInputError(
            f"PODSTrainer needs args=podsrl.trl.PODSConfig(...), got {type(args).__name__};"
            " PODSConfig takes every field of GRPOConfig"
        )
    if isinstance(dataset, Mapping):
        raise InvalidInputError(
            f"train_dataset is a {type(dataset).__name__} of {', '.join(map(str, dataset))}; give"
            " one of its datasets, such as train_dataset=dataset['train']"
        )
    prompts = int(args.generation_batch_size or 0) // int(args.num_generations or 1)
    if hasattr(dataset, "__len__") and len(dataset) < prompts:
        raise InvalidInputError(
            f"train_dataset has {len(dataset)} prompts, and one generation takes {prompts} (rows /"
            " num_generations): TRL would train on nothing. Give more prompts, lower"
            " per_device_train_batch_size or gradient_accumulation_steps, or raise num_generations"
        )
    parts, steps = getattr(dataset, "num_shards", 0), int(args.steps_per_generation or 1)
    if not hasattr(dataset, "__len__") and 1 < args.world_size <= parts:
        # each process has parts of its own, and TRL repeats prompts as if they were divided
        again = math.gcd(args.num_iterations * steps, args.world_size) > 1
        cut = args.per_device_train_batch_size * steps % int(args.num_generations or 1)
        if again or cut or parts % args.world_size:
            raise InvalidInputError(
                f"train_dataset is streamed in {parts} parts to {args.world_size} processes: TRL"
                " would train on some of its prompts several times and never see others. Load it"
                " whole, or stream it in fewer parts than processes"
            )
    functions = len(reward_funcs) if isinstance(reward_funcs, list) else 1
    weights = args.selection_weights
    if environments is None and weights is not None and len(weights) != functions:
        raise InvalidInputError(
            f"selection_weights has {len(weights)} numbers for {functions} reward functions;"
            " give one for each, in their order, environments' own rewards last"
        )
