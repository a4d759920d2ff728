"""`PODSConfig`: TRL's `GRPOConfig` with how many rollouts to generate and which to keep."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import update_wrapper
from typing import Any

from trl import GRPOConfig

from podsrl.errors import InvalidInputError, fields_named, suggestion
from podsrl.methods import METHODS, complete_selection, resolve_method
from podsrl.rewards import are_weights, is_number
from podsrl.rules import RULES, register_rule
from podsrl.selection import Selection
from podsrl.trl.allowed import refuse_values
from podsrl.trl.rounds import PromptRounds, RolloutRounds, Rounds
from podsrl.trl.seam import swapped


def described(default: Any, meaning: str) -> Any:
    """A field of a config with this default, and this help on the command line."""
    return field(default=default, metadata={"help": meaning})


#: What TRL's users call the fields of a selection.
FIELD_NAMES = {
    "num_kept": "num_generations",
    "rule": "downsampling_rule",
    "baseline": "advantage_baseline",
}

_in_pods_trainer: ContextVar[bool] = ContextVar("_in_pods_trainer", default=False)


@contextmanager
def constructing_pods_trainer() -> Iterator[None]:
    """Inside, a `PODSConfig` may be read by the trainer that is constructed."""
    token = _in_pods_trainer.set(True)
    try:
        yield
    finally:
        _in_pods_trainer.reset(token)


@dataclass
class PODSConfig(GRPOConfig):
    """Configuration of `PODSTrainer`: all fields of TRL's `GRPOConfig`, and the fields below.

    The defaults are the paper's method (arXiv 2504.13818): 32 rollouts are generated for each
    prompt, and the update sees the 8 whose rewards have the largest variance.

    `num_generations` is m, the completions per prompt *in the update*. So batch size, gradient
    accumulation and memory mean what they mean for `GRPOTrainer`. The defaults of TRL's other
    fields are TRL's.

    Raises:
        InvalidInputError: m > n, m < 2 (`podsrl.Selection` says when 1 is allowed), an unknown
            baseline, settings that contradict the method, or settings that can't be combined.
        UnknownNameError: There is no such method or rule.
    """

    method: str | None = described(
        None,
        "A method by its name; fields that you set override it. Default: pods, the paper's method."
        f" Others: {', '.join(name for name in METHODS if name != 'pods')}. docs/methods.md says"
        " what each does.",
    )
    num_rollouts: int | None = described(
        None,
        "n: completions per prompt that are generated and scored, at least num_generations (m)."
        " Default: 4 x num_generations, or the method's.",
    )
    num_generations: int | None = described(
        None,
        "m: completions per prompt that the update sees; with a batch rule the mean over prompts."
        " Default: 8, or the method's.",
    )
    downsampling_rule: str | None = described(
        None,
        "The rule that chooses the kept rollouts. Default: max_variance, or the method's. A prompt"
        " rule keeps m of each prompt: max_variance, max_reward, random, percentile, balanced. A"
        " batch rule, such as max_contrast, keeps m per prompt on average. Your own rule: a"
        " registered name, 'file.py:function' or 'module:function'.",
    )
    advantage_baseline: str | None = described(
        None,
        "The rewards with which a reward is compared: 'kept' (the m kept ones, as in the paper) or"
        " 'group' (all n). Default: kept, or the method's.",
    )
    selection_weights: list[float] | None = described(  # noqa: RUF009 (it gives a field)
        None,
        "Weights of the reward functions for the selection; training still uses reward_weights."
        " Default: reward_weights.",
    )
    skip_zero_advantage: bool | None = described(
        None,
        "Skip the forward and backward pass of rows with advantage 0: the same gradient in less"
        " time. It needs beta=0, no entropy option, no loss_type bnpo, no loss of a subclass."
        " Default: on if n > m, where possible.",
    )
    read_prompts_once: bool | None = described(
        None,
        "Without vLLM: prefill a prompt once for all its rollouts. It gives the same tokens in less"
        " time. Default: on if n > m, where possible. True: also with n = m, with a warning if it"
        " is not possible.",
    )
    rollouts_per_round: int | None = described(
        None,
        "Generate the n rollouts of a prompt in rounds of this many, and stop when further rollouts"
        " can't change the choice. Kept rollouts have the same distribution. docs/trl.md says when"
        " it pays. Default: all n at once.",
    )
    prompts_per_round: int | None = described(
        None,
        "With the rule dynamic_sampling: generate the n rollouts of this many prompts at a time,"
        " until groups with contrast fill the batch. Default: all prompts at once.",
    )
    reward_bounds: list[float] = field(
        default_factory=lambda: [0.0, 1.0],
        metadata={
            "help": "The lowest and the highest possible reward, for rollouts_per_round; a reward"
            " outside them is an error. Default: 0 1."
        },
    )
    rollout_log: bool = described(
        True, "Write every rollout, kept or not, to parquet under output_dir/rollouts."
    )
    rollout_log_max_rows: int = described(
        1_000_000,
        "The largest number of rows in the rollout log. With more rows every second logged step is"
        " deleted, so that the log still spans the whole run.",
    )
    rollout_log_tokens: int = described(
        0,
        "Log the log-probability and the entropy of the first tokens of each completion, this many."
        " vLLM gives no entropies. Default: 0, none.",
    )
    rollout_log_images: int = described(
        0,
        "Log at most this many images of each rollout, in a small size. Default: 0, none.",
    )

    log_traces: bool = described(
        False,
        "With report_to='trackio': log the rollouts of each logged step as Trackio's traces, kept"
        " and dropped, with the rule and the advantage.",
    )
    rollout_log_columns: list[str] | None = described(  # noqa: RUF009 (it gives a field)
        None,
        "Columns of the dataset to log with each rollout, if they hold texts, numbers, True or"
        " False. Default: all such columns, with the first 1,000 characters of a text; []: none.",
    )

    def __post_init__(self) -> None:
        refuse_values(self)
        self._register_callable_rule()
        selection = self._complete_by_method()
        self._check_as_grpo()
        self._check_fields_of_ours()
        self._check_skip_zero_advantage()
        check_advantages(
            selection, self.multi_objective_aggregation, str(self.scale_rewards), self.method
        )
        self.rounds()

    @property
    def place_model_on_device(self) -> bool | None:
        """TRL's; every trainer reads it while it is constructed, and only `PODSTrainer` may.

        Any other trainer would train on m rollouts of each prompt and drop none, in silence.
        """
        if not _in_pods_trainer.get():
            raise InvalidInputError(
                "PODSConfig selects rollouts with PODSTrainer only, and another trainer was given"
                " it: `from podsrl.trl import PODSTrainer`, or give TRL's own trainer a GRPOConfig"
            )
        return super().place_model_on_device

    def selection(self) -> Selection:
        """The selection of this config; TRL's reward functions are weighted by the trainer."""
        with fields_named(FIELD_NAMES):
            return complete_selection(
                self.method,
                num_rollouts=self.num_rollouts,
                num_kept=self.num_generations,
                rule=self.downsampling_rule,
                baseline=self.advantage_baseline,
                seed=self.seed,
            )

    def rounds(self) -> Rounds | None:
        """The rounds in which rollouts are generated; None generates all at once.

        Raises:
            InvalidInputError: Rounds don't go together with other settings, or bounds are none.
        """
        rollouts = self.rollouts_per_round
        prompts = self.prompts_per_round
        if rollouts is not None:
            if problem := self._why_no_rounds_of_rollouts(rollouts):
                raise InvalidInputError(f"rollouts_per_round={rollouts!r}: {problem}")
            low, high = self.reward_bounds
            return RolloutRounds(rollouts, (float(low), float(high)))
        if prompts is not None:
            if problem := self._why_no_rounds_of_prompts(prompts):
                raise InvalidInputError(f"prompts_per_round={prompts!r}: {problem}")
            return PromptRounds(prompts)
        return None

    def _why_no_rounds_of_prompts(self, prompts: Any) -> str:
        """The obstacle to rounds of prompts; "" if there is none."""
        selection = self.selection()
        if selection.chosen_rule.is_full is None:
            known = [name for name, rule in RULES.items() if rule.is_full is not None]
            return (
                f"what {selection.rule!r} keeps is not decided by the first prompts; allowed with"
                f" {', '.join(known)}. rollouts_per_round is for rules that choose of each prompt"
            )
        most = int(self.generation_batch_size or 0) // int(self.num_generations or 1)
        if not isinstance(prompts, int) or isinstance(prompts, bool) or not 1 <= prompts < most:
            return (
                f"allowed is an integer of 1 <= prompts_per_round < {most}, the prompts of a"
                " generation (rows / num_generations)"
            )
        return ""

    def _why_no_rounds_of_rollouts(self, rollouts: Any) -> str:
        """The obstacle to rounds of rollouts; "" if there is none."""
        if self.prompts_per_round is not None:
            return "prompts_per_round is set, too; give one of them"

        selection = self.selection()
        n = selection.num_rollouts
        if not isinstance(rollouts, int) or isinstance(rollouts, bool) or not 1 <= rollouts < n:
            return f"allowed is an integer of 1 <= rollouts_per_round < num_rollouts = {n}"
        if selection.keeps_all:
            return "with num_rollouts = num_generations every rollout is kept, and all are needed"

        return self._why_not_decided_early(selection) or self._why_no_bounds()

    def _why_not_decided_early(self, selection: Selection) -> str:
        """The reason why no choice is decided early; "" if there is none."""
        if selection.baseline == "group" and not self._compares_with_rounds(selection):
            return (
                "advantage_baseline='group' compares with all n rollouts; after stopping there are"
                " fewer, so it would be another baseline. Use 'kept', or generate all at once;"
                " method='reinforce-ada' compares with what its rounds have generated"
            )
        if selection.chosen_rule.kept_at_bounds is None:
            known = [name for name, rule in RULES.items() if rule.kept_at_bounds is not None]
            hint = ""
            if selection.chosen_rule.is_full is not None:
                hint = ". prompts_per_round generates in rounds of prompts"
            return (
                f"what {selection.rule!r} keeps is decided when all n are there, so no round could"
                f" be saved; rules that are decided earlier: {', '.join(known)}{hint}"
            )
        return ""

    def _why_no_bounds(self) -> str:
        """The reason why the rewards have no bounds to decide by; "" if they have."""
        if self.multi_objective_aggregation != "sum_then_normalize":
            return (
                "it needs multi_objective_aggregation='sum_then_normalize': what is normalised over"
                " a group has no bounds, and changes with every rollout"
            )

        bounds = self.reward_bounds
        are_two = isinstance(bounds, list | tuple) and len(bounds) == 2
        if not (are_two and all(map(is_number, bounds)) and bounds[0] < bounds[1]):
            return f"reward_bounds must be two numbers, the lower one first; got {bounds!r}"
        return ""

    @staticmethod
    def _compares_with_rounds(selection: Selection) -> bool:
        """Whether the settings are those of a method whose baseline is over what rounds made."""
        method = METHODS.get(selection.method)
        if method is None or not method.compares_with_rounds:
            return False
        published = method.selection
        return (selection.rule, selection.baseline) == (published.rule, published.baseline)

    def settings(self) -> dict[str, Any]:
        """All fields as plain values, without those that are the library's own business."""
        return {name: value for name, value in self.to_dict().items() if not name.startswith("_")}

    def _register_callable_rule(self) -> None:
        """A rule that is a function becomes a registered name, which a saved config can hold."""
        rule: Any = self.downsampling_rule
        if not callable(rule):
            return
        qualified = getattr(rule, "__qualname__", None)
        if qualified is None:
            raise InvalidInputError(f"a rule is a function with a name; got {rule!r}")
        name = f"{rule.__module__}:{qualified}"
        register_rule(name, rule)
        self.downsampling_rule = name

    def _complete_by_method(self) -> Selection:
        """Fields that were not given become those of the method, as TRL completes its own.

        Where the rollouts alone are given, the rows of a prompt stay what they are without them.
        """
        method = resolve_method(self.method or "pods")
        if self.num_generations is None and self.num_rollouts is not None and not method.keeps_all:
            self.num_generations = method.selection.num_kept

        selection = self.selection()
        self.num_rollouts = selection.num_rollouts
        self.num_generations = selection.num_kept
        self.downsampling_rule = selection.rule  # type: ignore[assignment]
        self.advantage_baseline = selection.baseline
        return selection

    def _check_as_grpo(self) -> None:
        """TRL's own checks and completions.

        They want two rows of each prompt, and with a baseline over the group, or a batch rule, one
        is enough. So where m is 1 they see a 2, and evaluation, whose default is m, is told apart.
        """
        m = int(self.num_generations or 0)
        seen = max(2, m)
        try:
            with swapped(
                self, num_generations=seen, num_generations_eval=self.num_generations_eval or m
            ):
                super().__post_init__()
        except ValueError as error:
            rows = self.generation_batch_size or 0
            if rows % seen == 0 or "divisible by num_generations" not in str(error):
                raise
            raise InvalidInputError(self._why_not_divisible(m, seen, rows)) from error

    def _why_not_divisible(self, m: int, seen: int, rows: int) -> str:
        """TRL's error about rows that are no multiple of m, with the numbers that would do."""
        pairs = ", as TRL's own check asks for two of a prompt" if m == 1 else ""
        divisors = [d for d in range(2, int(self.num_rollouts or 0) + 1) if rows % d == 0]
        return (
            f"num_generations={m} needs a multiple of {seen} rows per generation{pairs}; got"
            f" {rows} rows: {self._rows_in_words()}. Change one of these, or num_generations;"
            f" allowed here: {', '.join(map(str, divisors)) or 'none'}"
        )

    def _rows_in_words(self) -> str:
        """The factors of the number of rows of a generation."""
        steps = int(self.steps_per_generation or 1)
        processes = self.world_size
        if self.generation_batch_size != self.per_device_train_batch_size * steps * processes:
            return "generation_batch_size"
        return (
            "per_device_train_batch_size x steps_per_generation (by default"
            " gradient_accumulation_steps) x processes ="
            f" {self.per_device_train_batch_size} x {steps} x {processes}"
        )

    def _check_fields_of_ours(self) -> None:
        """Refuse wrong values of podsrl's own fields; those of a selection are checked before."""
        for name in ("skip_zero_advantage", "read_prompts_once", "rollout_log", "log_traces"):
            value = getattr(self, name)
            if not isinstance(value, bool | None):
                raise InvalidInputError(f"{name} must be True or False; got {value!r}")

        if self.log_traces and "trackio" not in (self.report_to or ()):
            raise InvalidInputError(
                "log_traces=True logs to Trackio, so it needs report_to='trackio'; got"
                f" report_to={self.report_to!r}"
            )

        self._check_rollout_log()

        weights = self.selection_weights
        if weights is not None and not (isinstance(weights, list) and are_weights(weights)):
            raise InvalidInputError(
                "selection_weights must be a list with one finite number per reward function, not"
                f" all of them 0; got {weights!r}"
            )

    def _check_rollout_log(self) -> None:
        """Refuse wrong values of the fields of the rollout log."""
        rows = self.rollout_log_max_rows
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
            raise InvalidInputError(
                f"rollout_log_max_rows must be an integer of at least 1, got {rows!r};"
                " rollout_log=False switches the log off"
            )

        for name in ("rollout_log_tokens", "rollout_log_images"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise InvalidInputError(f"{name} must be an integer of at least 0; got {value!r}")
            if value and not self.rollout_log:
                raise InvalidInputError(f"{name}={value} needs rollout_log=True")

        columns = self.rollout_log_columns
        if columns is not None and not (
            isinstance(columns, list) and all(isinstance(name, str) for name in columns)
        ):
            raise InvalidInputError(
                "rollout_log_columns must be a list of names of the dataset's columns; got"
                f" {columns!r}"
            )

    def _check_skip_zero_advantage(self) -> None:
        why_all_pass = why_all_rows_pass(self)
        if self.skip_zero_advantage and why_all_pass:
            raise InvalidInputError(
                "skip_zero_advantage leaves out rows without gradient: it needs beta=0, no entropy"
                f" option, no loss_type='bnpo'; got {why_all_pass}"
            )


def check_advantages(
    selection: Selection, aggregation: str, scale_rewards: str, method: str | None = None
) -> None:
    """Refuse what has no meaning for rows across prompts, a baseline over the group, or weights.

    Args:
        selection: How rollouts are selected.
        aggregation, scale_rewards: TRL's multi_objective_aggregation and scale_rewards.
        method: The method that the user named, for the message.
    """
    by_group = selection.baseline == "group"
    is_unbalanced = not selection.advantages_sum_to_zero
    named = f"method={method!r}, which has " if method else ""
    if by_group:
        named += f"advantage_baseline={selection.baseline!r}"
    else:
        named += f"downsampling_rule={selection.rule!r}"

    if (selection.across_prompts or is_unbalanced) and aggregation != "sum_then_normalize":
        raise InvalidInputError(
            f"{named} needs multi_objective_aggregation='sum_then_normalize', got {aggregation!r}"
        )
    if is_unbalanced and scale_rewards == "batch":
        raise InvalidInputError(f"{named} needs scale_rewards 'group' or 'none', got 'batch'")


_init_by_fields = PODSConfig.__init__

#: What users of other trainers, or readers of the paper, call the fields.
OTHER_NAMES = {
    "n": "num_rollouts",
    "m": "num_generations",
    "rule": "downsampling_rule",
    "down_sampling_rule": "downsampling_rule",
    "baseline": "advantage_baseline",
    "skip_fillers": "skip_zero_advantage",
    "group_size": "num_rollouts",
    "num_samples": "num_rollouts",
    "rollout_n": "num_rollouts",
    "lr": "learning_rate",
    "epochs": "num_train_epochs",
    "batch_size": "per_device_train_batch_size",
    "max_new_tokens": "max_completion_length",
    "max_tokens": "max_completion_length",
    "kl_coef": "beta",
    "clip_range": "epsilon",
}


def _init_by_known_fields(self: PODSConfig, *args: Any, **kwargs: Any) -> None:
    """Take the fields by name; of one that there is not, the message names the nearest."""
    known = [field.name for field in fields(PODSConfig)]
    for name in kwargs:
        if name not in known:
            meant = OTHER_NAMES.get(name)
            hint = f"did you mean {meant!r}?" if meant else suggestion(name, known, "see its docs")
            raise InvalidInputError(f"PODSConfig has no field {name!r}; {hint}")
    _init_by_fields(self, *args, **kwargs)


PODSConfig.__init__ = update_wrapper(  # type: ignore[method-assign]
    _init_by_known_fields, _init_by_fields
)


def why_all_rows_pass(args: Any) -> str:
    """The setting of TRL's that gives every row a gradient; "" if none does.

    Args:
        args: A config, or a trainer: both have these names, and a trainer's are those that count.
    """
    if args.beta:
        return f"beta={args.beta}, whose KL term has a gradient everywhere"
    if args.loss_type == "bnpo":
        return "loss_type='bnpo', which divides by the tokens of each micro-batch"
    if args.top_entropy_quantile < 1:
        return f"top_entropy_quantile={args.top_entropy_quantile}, which looks at all rows"
    for name in ("entropy_coef", "use_adaptive_entropy"):  # not in every version of TRL
        if getattr(args, name, None):
            return f"{name}, whose term has a gradient everywhere"
    return ""
