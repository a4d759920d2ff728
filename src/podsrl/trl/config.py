"""`PODSConfig`: TRL's `GRPOConfig` with how many rollouts to generate and which to keep."""

import math
from dataclasses import dataclass
from typing import Any

from trl import GRPOConfig

from podsrl.downsampling import register_rule
from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.selection import Options, check, described
from podsrl.trl.clock import CLOCKS

AUTO = "auto"

#: What other hosts call some of our fields.
_OPTIONS = {
    "m": "num_generations",
    "rule": "downsampling_rule",
    "baseline": "advantage_baseline",
    "scope": "selection_scope",
}


@dataclass
class PODSConfig(GRPOConfig):
    """Configuration of `PODSTrainer`: everything in TRL's `GRPOConfig`, and the fields below.

    `num_generations` keeps TRL's meaning, completions per prompt *in the update* (m), so batch
    size, gradient accumulation and memory mean what they mean for `GRPOTrainer`. No default of
    TRL's is changed; the paper's settings are in `podsrl/configs/paper`.

    Raises:
        InvalidInputError: m > n, m < 2 (m < 1 with `selection_scope="batch"`), an unknown rule or
            baseline, a combination that has no defined meaning.
    """

    num_rollouts: int | str | None = described(
        None,
        "n: completions per prompt that are generated and scored; n >= num_generations"
        " (m, what the update sees). Default: 4 x num_generations. 'auto' measures in the first"
        " steps and chooses.",
    )
    max_num_rollouts: int = described(128, "The largest n that num_rollouts='auto' considers.")
    downsampling_rule: str = described(
        "max_variance",
        "Which m of n to keep: max_variance, max_reward, random, percentile, a name you"
        " registered, 'file.py:function' or 'module:function'.",
    )
    advantage_baseline: str = described(
        "kept",
        "Rewards that advantages are normalised with: 'kept' (the m kept ones, as in"
        " the paper) or 'group' (all n).",
    )
    selection_weights: list[float] | None = described(
        None,
        "Weight of each reward function when choosing what to keep, in their order;"
        " training still uses reward_weights. Default: the same weights.",
    )
    selection_scope: str = described(
        "prompt",
        "'prompt': num_generations rollouts of each prompt; 'batch': as many in all,"
        " any number of each prompt, where rewards differ most. With num_generations = 1 there"
        " are as many prompts as rows, and those with the clearest contrast are trained on.",
    )
    rollouts_per_round: int | None = described(
        None,
        "r: generate r rollouts of each prompt, and the other n - r only where the m"
        " that are kept can still improve; m <= r < n. Default: all n at once.",
    )
    reward_range: list[float] | None = described(
        None,
        "With rollouts_per_round: the lowest and the highest reward there can be (of"
        " the weighted sum), such as 0 1. The stop is exact with it.",
    )
    stop_at: float | None = described(
        None,
        "With rollouts_per_round: stop at this share of the largest possible standard"
        " deviation of the kept rewards. The kept rows' distribution is then approximate.",
    )
    rollout_log: bool = described(
        True, "Write every rollout, kept or not, to parquet under output_dir/rollouts."
    )
    rollout_log_max_rows: int = described(
        1_000_000,
        "Bound of the rollout log: above it every second logged step is deleted, so"
        " that the log still spans the whole run.",
    )
    training_clock: str = described(
        "wall",
        "What training time is measured in: 'wall', or 'cpu', the seconds that this"
        " process computed. 'cpu' is for comparisons on a shared machine, in one thread and"
        " without a GPU.",
    )
    fast_generation: bool | None = described(
        None,
        "Generate with transformers so that each prompt is read once and ended rows"
        " leave the batch: the same distribution, other random numbers than TRL's. By default"
        " where n > m; n = m without it is GRPOTrainer bit for bit.",
    )

    def __post_init__(self) -> None:
        rule: Any = self.downsampling_rule
        if callable(rule):  # by name, so that the config can be saved and a run resumed
            qualified = getattr(rule, "__qualname__", None)
            if qualified is None:
                raise InvalidInputError(f"a rule is a function with a name; got {rule!r}")
            name = f"{rule.__module__}:{qualified}"
            register_rule(name, rule)
            self.downsampling_rule = name
        if isinstance(self.num_rollouts, str) and self.num_rollouts.isdecimal():
            self.num_rollouts = int(self.num_rollouts)  # from a command line
        if self.num_rollouts is None and isinstance(self.num_generations, int):
            self.num_rollouts = 4 * self.num_generations
        self._check_options()
        if self.training_clock not in CLOCKS:
            raise InvalidInputError(
                f"unknown training_clock {self.training_clock!r}; allowed: {', '.join(CLOCKS)}"
            )
        if self.fast_generation is None:
            self.fast_generation = self.most_rollouts > (self.num_generations or 0)
        self._check_as_grpo()
        self._check_combinations()

    @property
    def most_rollouts(self) -> int:
        """The largest n that may be generated."""
        n = self.num_rollouts
        return self.max_num_rollouts if isinstance(n, str) else n or 0

    def plain(self) -> dict[str, Any]:
        """All fields as plain values, without those that are the library's own business."""
        return {name: value for name, value in self.to_dict().items() if not name.startswith("_")}

    def _check_as_grpo(self) -> None:
        """TRL's own checks. It wants two rows per prompt; across the batch one may be the mean."""
        m, evaluated = int(self.num_generations or 0), self.num_generations_eval
        self.num_generations, self.num_generations_eval = max(2, m), evaluated or m
        try:
            super().__post_init__()
        except ValueError as error:
            rows, least = self.generation_batch_size or 0, self.num_generations
            if rows % least == 0 or "divisible by num_generations" not in str(error):
                raise
            pairs = ", because prompts are trained on in pairs of rows" if m == 1 else ""
            raise InvalidInputError(
                f"num_generations={m} needs a multiple of {least} rows per generation{pairs}; got"
                f" {rows}. Rows are generation_batch_size, by default per_device_train_batch_size x"
                " gradient_accumulation_steps x processes. Change one of these, or num_generations"
            ) from error
        self.num_generations, self.num_generations_eval = m, evaluated

    def _check_options(self) -> None:
        n_name = "max_num_rollouts" if self.num_rollouts == AUTO else "num_rollouts"
        for name in (n_name, "num_generations", "rollout_log_max_rows"):
            if not isinstance(getattr(self, name), int):
                also = " or 'auto'" if name == "num_rollouts" else ""
                got = getattr(self, name)
                raise InvalidInputError(f"{name} must be an integer{also}; got {got!r}")
        if self.rollout_log_max_rows < 1:
            raise InvalidInputError(
                f"rollout_log_max_rows = {self.rollout_log_max_rows} must be at least 1;"
                " rollout_log=False switches the log off"
            )
        own = {name: name for name in ("rollouts_per_round", "reward_range", "stop_at")}
        names = {**own, **_OPTIONS}
        given: Any = {option: getattr(self, name) for option, name in names.items()}
        check(Options(**given), self.most_rollouts, {**names, "n": n_name})
        weights = self.selection_weights
        if weights is not None and not (
            isinstance(weights, list)
            and all(isinstance(w, int | float) and math.isfinite(w) for w in weights)
            and any(weights)
        ):
            raise InvalidInputError(
                "selection_weights must be a list with one finite number per reward function, not"
                f" all of them 0; got {weights!r}"
            )
        if self.rollouts_per_round is not None and self.num_rollouts == AUTO:
            raise InvalidInputError("rollouts_per_round needs a number as num_rollouts, not 'auto'")

    def _check_combinations(self) -> None:
        """Of our fields with TRL's."""
        aggregation = self.multi_objective_aggregation
        if self.selection_scope == "batch" and aggregation != "sum_then_normalize":
            raise InvalidInputError(
                "selection_scope='batch' is defined for multi_objective_aggregation"
                f"='sum_then_normalize', got {aggregation!r}"
            )
        if self.advantage_baseline == "group" and (
            self.scale_rewards == "batch" or aggregation != "sum_then_normalize"
        ):
            raise InvalidInputError(
                "advantage_baseline='group' is defined for scale_rewards 'group' or 'none' with"
                " multi_objective_aggregation 'sum_then_normalize'; got"
                f" {self.scale_rewards!r} and {aggregation!r}. Use"
                " advantage_baseline='kept' with those."
            )
        if self.rollouts_per_round is not None and "seed" in (self.generation_kwargs or {}):
            raise InvalidInputError(
                "with a seed in generation_kwargs a prompt's second round would repeat its first;"
                " leave it out"
            )


def check_arguments(
    args: Any, reward_funcs: Any, tools: Any = None, environments: Any = None, dataset: Any = None
) -> None:
    """Check what `PODSTrainer` is given; environments may add reward functions of their own.

    Raises:
        InvalidInputError: `args` is no `PODSConfig`, or has a wrong number of selection weights;
            too few prompts.
        UnsupportedError: rounds with tools or environments.
    """
    if not isinstance(args, PODSConfig):
        raise InvalidInputError(
            f"PODSTrainer needs args=podsrl.trl.PODSConfig(...), got {type(args).__name__};"
            " PODSConfig takes every field of GRPOConfig"
        )
    if args.rollouts_per_round is not None and (tools or environments):
        raise UnsupportedError(
            "rollouts_per_round works with one answer per rollout, not with tools or environments:"
            " TRL resets these for all rollouts before it generates; leave rollouts_per_round out"
        )
    prompts = int(args.generation_batch_size or 0) // int(args.num_generations or 1)
    if hasattr(dataset, "__len__") and len(dataset) < prompts:
        raise InvalidInputError(
            f"train_dataset has {len(dataset)} prompts, and one generation takes {prompts}"
            " (rows per generation / num_generations): TRL would train on nothing. Give more"
            " prompts, lower per_device_train_batch_size or gradient_accumulation_steps, or raise"
            " num_generations"
        )
    functions = len(reward_funcs) if isinstance(reward_funcs, list) else 1
    weights = args.selection_weights
    if environments is None and weights is not None and len(weights) != functions:
        raise InvalidInputError(
            f"selection_weights has {len(weights)} numbers for {functions} reward functions;"
            " give one for each, in their order, environments' own rewards last"
        )
