"""The config of an arm: what the script set, what the method is, what a comparison needs."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from transformers import SchedulerType
from trl import GRPOConfig

from podslab.comparison.arms import OF_THE_METHOD
from podslab.engine.budget import NO_LIMIT
from podslab.own_script.job import MINIBATCHES, YOURS, ScriptJob, StepSizes
from podsrl.errors import InvalidInputError, PodsError
from podsrl.methods import method_of, resolve_method
from podsrl.trl import PODSConfig
from podsrl.trl.config import why_all_rows_pass

#: TRL's defaults.
_NUM_GENERATIONS = 8
_ROWS_OF_PASS = 8
#: What a comparison decides, so that all arms have the same budget and measure.
_DECIDED = (
    "output_dir",
    "seed",
    "max_steps",
    "num_train_epochs",
    "eval_strategy",
    "eval_steps",
    "eval_on_start",
    "save_strategy",
    "save_steps",
    "save_total_limit",
    "save_only_model",
    "load_best_model_at_end",
    "push_to_hub",
    "logging_strategy",
    "logging_steps",
    "resume_from_checkpoint",
    "num_generations_eval",
    "per_device_eval_batch_size",
    "lr_scheduler_type",
    "lr_scheduler_kwargs",
    "warmup_steps",
    "warmup_ratio",
    # TRL's evaluation would ask for other questions, or for fewer.
    "dataloader_persistent_workers",
    "dataloader_drop_last",
    "run_name",
    "disable_tqdm",
)


@dataclass(frozen=True)
class GivenSettings:
    """The settings that a script gave its config.

    Args:
        values: By field; those that it left out are not there.
        rows_of_a_prompt: The rows of a prompt that the script trains on.
        steps_per_generation: The micro-batches of a process that are generated at once.
        own_method: The method that its settings are; "grpo" where they are TRL's.
        attributes: What the script's config has beside the fields of TRL and podsrl, such as the
            fields of a class of its own.
    """

    values: Mapping[str, Any]
    rows_of_a_prompt: int = _NUM_GENERATIONS
    steps_per_generation: int = 1
    own_method: str = "grpo"
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def of_method(self, method: str) -> dict[str, Any]:
        """The fields that decide how an arm generates and selects; a None is TRL's default.

        PODS keeps as many rows of a prompt as the script trains on, so that all batches of rows
        are as large as the script's. A method with sizes of its own has those.
        """
        if method == YOURS:
            return {name: self.values[name] for name in OF_THE_METHOD if name in self.values}
        if method == MINIBATCHES:
            updates = self._rollouts_of_pods // self._rows_of_grpo
            return {
                **self._of_grpo(),
                "steps_per_generation": updates * self.steps_per_generation,
                "generation_batch_size": None,
            }

        # One row of a prompt is a batch rule's; these two compare rows of the same prompt.
        if self.rows_of_a_prompt < 2:
            return {"method": method}
        if method == "grpo":
            return self._of_grpo()
        if method == "pods":
            rows, rollouts = self._rows_of_grpo, self._rollouts_of_pods
            return {"method": method, "num_generations": rows, "num_rollouts": rollouts}
        return {"method": method}

    def of_sizes(self, sizes: StepSizes) -> dict[str, Any]:
        """The fields of a step whose cost is measured: GRPO, or PODS, at these sizes.

        All rows have a pass, so that costs do not depend on the rewards of a few steps.
        """
        rows = self._rows_of_grpo
        rollouts = rows * sizes.rollouts_per_row
        if sizes.rollouts_per_row == 1:
            passes = self._other_passes() if sizes.other_passes else {}
            return {**self._of_grpo(), **passes, "skip_zero_advantage": False}
        if not sizes.trains_on_all:
            return {
                "method": "pods",
                "num_generations": rows,
                "num_rollouts": rollouts,
                "skip_zero_advantage": False,
            }

        accumulation = int(self.values.get("gradient_accumulation_steps") or 1)
        larger = {"gradient_accumulation_steps": accumulation * sizes.rollouts_per_row}
        for name in ("steps_per_generation", "generation_batch_size"):
            if self.values.get(name):
                larger[name] = int(self.values[name]) * sizes.rollouts_per_row
        return {
            "method": "grpo",
            "num_generations": rollouts,
            "num_rollouts": rollouts,
            "skip_zero_advantage": False,
            **larger,
        }

    def _other_passes(self) -> dict[str, Any]:
        """The same rows in twice as many passes of half the size, or the other way round.

        Raises:
            InvalidInputError: Neither the rows of a pass nor the passes are even.
        """
        rows = int(self.values.get("per_device_train_batch_size") or _ROWS_OF_PASS)
        passes = int(self.values.get("gradient_accumulation_steps") or 1)
        if rows % 2 == 0:
            rows //= 2
            passes *= 2
            change = Fraction(2)
        elif passes % 2 == 0:
            rows *= 2
            passes //= 2
            change = Fraction(1, 2)
        else:
            raise InvalidInputError(
                f"{passes} passes of {rows} rows can't be made into passes of another size"
            )
        fields = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": passes}
        if given := self.values.get("steps_per_generation"):
            fields["steps_per_generation"] = int(given * change)
        return fields

    @property
    def warmup_steps(self) -> int:
        """The steps in which the script's learning rate rises; 0 where it gives a share of them."""
        given = float(self.values.get("warmup_steps") or 0)
        return int(given) if given >= 1 else 0

    @property
    def warmup_share(self) -> float:
        """The share of all steps in which the script's learning rate rises; 0 with a number.

        TRL's config takes it as `warmup_steps` below 1; older ones had `warmup_ratio`.
        """
        if self.warmup_steps:
            return 0.0
        return float(self.values.get("warmup_steps") or self.values.get("warmup_ratio") or 0)

    @property
    def _rows_of_grpo(self) -> int:
        rows = self.rows_of_a_prompt
        return rows if rows > 1 else _NUM_GENERATIONS

    @property
    def _rollouts_of_pods(self) -> int:
        """The script's own, where it drops rows; else by the paper's ratio."""
        rollouts = self.values.get("num_rollouts")
        if rollouts is None or rollouts <= self._rows_of_grpo:
            return self._rows_of_grpo * resolve_method("pods").rollouts_per_kept
        return int(rollouts)

    def _of_grpo(self) -> dict[str, Any]:
        rows = self._rows_of_grpo
        return {"method": "grpo", "num_generations": rows, "num_rollouts": rows}


def config_of(given: GivenSettings, job: ScriptJob) -> PODSConfig:
    """The config of a run.

    Rows without gradient are spared their pass in every method, GRPO included, wherever that
    changes nothing, and prompts are read once. So what a comparison finds follows from the choice
    of rows alone. The script's own settings stay as they are.

    Raises:
        InvalidInputError: The method's sizes do not fit the script's batch; the message says so.
    """
    config = _build(given, job, {})
    if job.method == YOURS:
        return config
    extra = {}
    may_spare = job.sizes is None and not why_all_rows_pass(config)
    if may_spare and not config.skip_zero_advantage:
        extra["skip_zero_advantage"] = True
    if config.read_prompts_once is None:
        extra["read_prompts_once"] = True
    return _build(given, job, extra)


def _build(given: GivenSettings, job: ScriptJob, extra: Mapping[str, Any]) -> PODSConfig:
    of_method = given.of_sizes(job.sizes) if job.sizes else given.of_method(job.method)
    kept = {
        name: value
        for name, value in given.values.items()
        if name not in _DECIDED and name not in OF_THE_METHOD and name not in of_method
    }
    if job.learning_rate is not None:
        kept["learning_rate"] = job.learning_rate

    try:
        config = PODSConfig(
            **kept,
            **of_method,
            **extra,
            **_schedule(given),
            output_dir=job.folder,
            seed=job.seed,
            max_steps=NO_LIMIT,
            eval_strategy="no",
            save_strategy="no",  # the budget says when
            save_total_limit=1,
            logging_steps=1,
            num_generations_eval=job.answers,
            per_device_eval_batch_size=_evaluation_batch(given, job.answers),
            run_name=f"{Path(job.folder).parent.name}-seed-{job.seed}",
            disable_tqdm=True,
        )
    except (PodsError, ValueError) as error:
        what = f"n = {job.sizes.rollouts_per_row} m" if job.sizes else f"method {job.method}"
        raise InvalidInputError(f"{what}: {error}") from error

    # The script's own trainer and rewards may read them.
    for name, value in given.attributes.items():
        if name not in vars(config):
            setattr(config, name, value)
    return config


def _schedule(given: GivenSettings) -> dict[str, Any]:
    """A rate that stays, since a budget of time leaves the number of steps open."""
    if given.warmup_steps:
        schedule = SchedulerType.CONSTANT_WITH_WARMUP
        return {"lr_scheduler_type": schedule, "warmup_steps": given.warmup_steps}
    return {"lr_scheduler_type": SchedulerType.CONSTANT}


def _evaluation_batch(given: GivenSettings, answers: int) -> int:
    """A multiple of the answers to a question, so that those of one are in one batch.

    At least as many as PODS generates at once for a batch of the script's.
    """
    rows = int(given.values.get("per_device_train_batch_size") or 8) * given.steps_per_generation
    at_once = rows * resolve_method("pods").rollouts_per_kept
    return answers * max(1, at_once // answers)


class _Remembering:
    """A config that knows what it was given.

    A dataclass of the script's own has an `__init__` of its own, and calls `__post_init__` as its
    base does. There all fields are as they were given, and TRL has not completed them yet.
    """

    _fields: ClassVar[tuple[Field[Any], ...]]  # those of TRL or podsrl

    def __post_init__(self) -> None:
        self._given = {
            known.name: getattr(self, known.name)
            for known in self._fields
            if _differs(getattr(self, known.name), _default(known))
        }
        super().__post_init__()  # type: ignore[misc]
        # What the script sets afterwards counts as given, too.
        self._completed = {known.name: getattr(self, known.name) for known in self._fields}


def _default(known: Field[Any]) -> Any:
    return known.default if known.default_factory is MISSING else known.default_factory()


def _differs(value: Any, other: Any) -> bool:
    return value is not other and value != other


class RememberingGRPOConfig(_Remembering, GRPOConfig):
    """TRL's config in a script that is compared."""

    _fields = fields(GRPOConfig)


class RememberingPODSConfig(_Remembering, PODSConfig):
    """Our config in a script that is compared."""

    _fields = fields(PODSConfig)


def given_settings(args: Any) -> GivenSettings:
    """Read the settings that a script gave its trainer's config; None is one of defaults.

    Raises:
        InvalidInputError: It is no config of TRL's `GRPOTrainer`, or was made before the script.
    """
    if args is None:
        return GivenSettings({})
    if not isinstance(args, _Remembering):
        raise InvalidInputError(
            "pods compare can't see what the script gave its config, a"
            f" {type(args).__name__}: construct a GRPOConfig of trl, or a PODSConfig"
        )

    values = dict(args._given)
    for name, completed in args._completed.items():
        now = getattr(args, name, None)
        if _differs(now, completed):
            values[name] = now
    attributes = {
        name: value
        for name, value in vars(args).items()
        if name not in args._completed and not name.startswith("_")
    }
    config: Any = args
    own_method = method_of(config.selection()) if isinstance(config, PODSConfig) else "grpo"
    return GivenSettings(
        values=values,
        rows_of_a_prompt=int(config.num_generations),
        steps_per_generation=int(config.steps_per_generation),
        own_method=own_method,
        attributes=attributes,
    )
