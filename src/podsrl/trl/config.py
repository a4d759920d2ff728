"""`PODSConfig`: TRL's `GRPOConfig` with how many rollouts to generate and which to keep."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trl import GRPOConfig

from podsrl.advantages import BASELINES
from podsrl.downsampling import register_rule, resolve_rule
from podsrl.errors import InvalidInputError
from podsrl.trl.clock import CLOCKS

AUTO = "auto"

if TYPE_CHECKING:
    NumRollouts = int | str
else:

    def NumRollouts(text: str) -> int | str:  # noqa: N802
        """The field's type for argument parsers, which of a union would see one member only."""
        try:
            return int(text)
        except ValueError:
            return text  # "auto", or refused by PODSConfig


@dataclass
class PODSConfig(GRPOConfig):
    """Configuration of `PODSTrainer`: everything in TRL's `GRPOConfig`, and the fields below.

    `num_generations` keeps TRL's meaning, completions per prompt *in the update* (m), so batch
    size, gradient accumulation and memory mean what they mean for `GRPOTrainer`. The defaults are
    the paper's: n = 64, m = 16, max_variance, GRPO loss, no KL term.

    Raises:
        InvalidInputError: m > n, m < 2, an unknown rule or baseline, a combination that has no
            defined meaning.
    """

    num_generations: int | None = field(
        default=16,
        metadata={
            "help": "m: completions per prompt that the update sees, TRL's meaning unchanged."
        },
    )
    num_rollouts: NumRollouts = field(
        default=64,
        metadata={
            "help": "n: completions per prompt that are generated and scored; n >= m. 'auto'"
            " measures in the first steps and chooses."
        },
    )
    max_num_rollouts: int = field(
        default=128, metadata={"help": "The largest n that num_rollouts='auto' considers."}
    )
    downsampling_rule: str = field(
        default="max_variance",
        metadata={
            "help": "Which m of n to keep: max_variance, max_reward, random, percentile, a name you"
            " registered, 'file.py:function' or 'module:function'."
        },
    )
    advantage_baseline: str = field(
        default="kept",
        metadata={
            "help": "Rewards that advantages are normalised with: 'kept' (the m kept ones, as in"
            " the paper) or 'group' (all n)."
        },
    )
    rollout_log: bool = field(
        default=True,
        metadata={
            "help": "Write every rollout, kept or not, to parquet under output_dir/rollouts."
        },
    )
    rollout_log_max_rows: int = field(
        default=1_000_000,
        metadata={
            "help": "Bound of the rollout log: above it every second logged step is deleted, so"
            " that the log still spans the whole run."
        },
    )
    training_clock: str = field(
        default="wall",
        metadata={
            "help": "What training time is measured in: 'wall', or 'cpu', the seconds that this"
            " process computed. 'cpu' is for comparisons on a shared machine, in one thread and"
            " without a GPU."
        },
    )
    fast_generation: bool | None = field(
        default=None,
        metadata={
            "help": "Generate with transformers so that each prompt is read once and ended rows"
            " leave the batch: the same distribution, other random numbers than TRL's. By default"
            " where n > m; n = m without it is GRPOTrainer bit for bit."
        },
    )
    gradient_accumulation_steps: int = field(
        default=2,
        metadata={
            "help": "With the default batch of 8 this makes one prompt's 16 kept rollouts per step."
        },
    )
    loss_type: str = field(
        default="grpo",
        metadata={"help": "The paper's loss; every loss of GRPOConfig is allowed."},
    )

    def __post_init__(self) -> None:
        rule: Any = self.downsampling_rule
        if callable(rule):  # by name, so that the config can be saved and a run resumed
            name = f"{getattr(rule, '__module__', '')}:{getattr(rule, '__qualname__', '')}"
            register_rule(name, rule)
            self.downsampling_rule = name
        self._check_sizes()
        if self.training_clock not in CLOCKS:
            raise InvalidInputError(
                f"unknown training_clock {self.training_clock!r}; allowed: {', '.join(CLOCKS)}"
            )
        if self.fast_generation is None:
            self.fast_generation = self.most_rollouts > (self.num_generations or 0)
        super().__post_init__()
        resolve_rule(self.downsampling_rule)
        self._check_advantages()

    @property
    def most_rollouts(self) -> int:
        """The largest n that may be generated."""
        return self.max_num_rollouts if isinstance(self.num_rollouts, str) else self.num_rollouts

    def _check_sizes(self) -> None:
        m = self.num_generations
        n_name = "max_num_rollouts" if self.num_rollouts == AUTO else "num_rollouts"
        for name in (n_name, "num_generations", "rollout_log_max_rows"):
            if not isinstance(getattr(self, name), int):
                also = " or 'auto'" if name == "num_rollouts" else ""
                given = getattr(self, name)
                raise InvalidInputError(f"{name} must be an integer{also}; got {given!r}")
        if m is None or m < 2:
            raise InvalidInputError(
                f"num_generations (m) = {m} rollouts show no contrast; allowed: m >= 2"
            )
        if self.most_rollouts < m:
            raise InvalidInputError(
                f"can't keep num_generations (m) = {m} of {n_name} (n) = {self.most_rollouts};"
                f" allowed: 2 <= m <= n. Set {n_name}={m} or more (n = m is plain GRPO)."
            )
        if self.rollout_log_max_rows < 1:
            raise InvalidInputError(
                f"rollout_log_max_rows = {self.rollout_log_max_rows} must be at least 1;"
                " rollout_log=False switches the log off"
            )

    def _check_advantages(self) -> None:
        if self.advantage_baseline not in BASELINES:
            raise InvalidInputError(
                f"unknown advantage_baseline {self.advantage_baseline!r}; allowed: {BASELINES}"
            )
        if self.advantage_baseline == "group" and (
            self.scale_rewards == "batch"
            or self.multi_objective_aggregation != "sum_then_normalize"
        ):
            raise InvalidInputError(
                "advantage_baseline='group' is defined for scale_rewards 'group' or 'none' with"
                " multi_objective_aggregation 'sum_then_normalize'; got"
                f" {self.scale_rewards!r} and {self.multi_objective_aggregation!r}. Use"
                " advantage_baseline='kept' with those."
            )
