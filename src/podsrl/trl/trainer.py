"""`PODSTrainer`: TRL's `GRPOTrainer` that generates n rollouts per prompt and trains on m."""

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, ParamSpec

from trl import GRPOTrainer

from podsrl.errors import InvalidInputError, MissingDependencyError, suggestion
from podsrl.methods import method_of
from podsrl.trl.checkpoint import last_complete, tell_of_passed_over
from podsrl.trl.checks import (
    asks_for_group_size,
    check_arguments,
    check_callbacks,
    check_environments,
    check_first_prompt,
    check_model,
    check_parameters,
    reads_num_generations,
    told_apart,
)
from podsrl.trl.config import PODSConfig, constructing_pods_trainer
from podsrl.trl.down_sampling import DownSampling
from podsrl.trl.messages import logger, show_messages
from podsrl.trl.recorder import PAPER
from podsrl.trl.reporting import beside_the_training_table, write_to_tensorboard
from podsrl.trl.seam import (
    Seam,
    engine_for_rollouts,
    refuse_what_stands_behind,
    tell_of_replaced_trainer,
)
from podsrl.trl.steady import input_hooks_replaced, loaders_forgotten
from podsrl.trl.traces import log_traces

_Parameters = ParamSpec("_Parameters")
#: Rollouts generated for each kept one from which on a mistyped number is likelier than a wish; the
#: paper's sizes go to 16.
_MANY = 64


def with_parameters_of(
    original: Callable[_Parameters, Any],
) -> Callable[[Callable[..., None]], Callable[_Parameters, None]]:
    """Show editors, type checkers and `inspect` the parameters of `original`.

    So what a version of the host adds is known without being listed here.
    """

    def decorate(function: Callable[..., None]) -> Callable[_Parameters, None]:
        return update_wrapper(function, original, assigned=(), updated=())

    return decorate


def _refuse_unknown(kwargs: dict[str, Any]) -> None:
    """Refuse a mistyped argument, before what it was meant for is missed."""
    known = list(inspect.signature(GRPOTrainer.__init__).parameters)
    for name in kwargs:
        if name not in known:
            hint = suggestion(name, known)
            raise InvalidInputError(f"PODSTrainer has no argument {name!r}; {hint}")


class PODSTrainer(Seam):
    """GRPO with rollout down-sampling (PODS, arXiv 2504.13818).

    Use it as `trl.GRPOTrainer`, with a `PODSConfig`. For each prompt `num_rollouts` completions are
    generated and scored once, and the rule keeps `num_generations` of them. The rest (padding, old
    and reference log-probs, loss) is TRL's own code on the kept rows.

    Overrides in a subclass and settings by a callback work as with TRL's trainer. docs/trl.md lists
    them, and says what is refused.

    TRL's metrics (`reward`, `completions/*`, ...) describe all n rollouts. Metrics under `pods/`
    compare kept and dropped rollouts. With n = m and no option of podsrl the trainer equals
    `GRPOTrainer`, bit for bit. A step without any scored rollout, or with a gradient of NaN, does
    not change the weights, except with DeepSpeed.

    Attributes:
        pods: The state of podsrl: `settings`, `state` with its counters, `recorder`, `clock`.

    Raises:
        InvalidInputError: `args` is not a `PODSConfig`, or arguments can't be combined.
        RewardError: While training, a reward function raised or returned something that is no
            reward.
    """

    @with_parameters_of(GRPOTrainer.__init__)
    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: PODSConfig | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        *more: Any,
        **kwargs: Any,
    ) -> None:
        args = PODSConfig() if args is None else args
        _refuse_unknown(kwargs)
        check_model(model, reward_funcs)
        check_callbacks(kwargs.get("callbacks"))
        check_arguments(args, reward_funcs, kwargs.get("environment_factory"), train_dataset)
        functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
        if kwargs.get("rollout_func") is None:  # it may add columns
            check_parameters(functions, train_dataset, "train_dataset")
            evaluated = eval_dataset if isinstance(eval_dataset, dict) else {"": eval_dataset}
            for name, dataset in evaluated.items():
                where = f"eval_dataset[{name!r}]" if name else "eval_dataset"
                check_parameters(functions, dataset, where)

        engine = engine_for_rollouts(int(args.num_rollouts or 0), int(args.num_generations or 0))
        try:
            with engine, constructing_pods_trainer():
                super().__init__(
                    model, reward_funcs, args, train_dataset, eval_dataset, *more, **kwargs
                )
        except ImportError as error:  # such as TRL's that vLLM is not there
            raise MissingDependencyError(str(error)) from error

        check_arguments(args, self.reward_funcs, None, None)  # now with those of environments
        self.reward_func_names = told_apart(self.reward_func_names)
        show_messages()
        refuse_what_stands_behind(self)
        if self.accelerator.is_main_process:
            tell_of_replaced_trainer()
        self.pods = DownSampling(self, args)
        if self.environment_factories is not None:
            check_environments(self.pods.host.environment_pool, train_dataset, "train_dataset")
        elif kwargs.get("rollout_func") is None:
            check_first_prompt(train_dataset, self.processing_class)
        self._pods_check_reward_functions()
        self._pods_tell_of_many()

        self._pods_name_method()
        if args.push_to_hub and args.rollout_log and self.accelerator.is_main_process:
            logger.info("push_to_hub uploads every rollout, too; rollout_log=False writes none")

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """TRL's, from a whole checkpoint; then the run's folder says that it is complete."""
        if resume_from_checkpoint is True:
            # After a kill while saving, the newest checkpoint is not whole, and TRL would take it.
            newest = last_complete(str(self.args.output_dir))
            tell_of_passed_over(str(self.args.output_dir), newest)
            resume_from_checkpoint = True if newest is None else str(newest)

        # Of an earlier `train()`: counters, the place in TRL's buffer, what was still to be logged.
        pods = self.pods
        pods.state.reset()
        pods.completions = pods.traced = None
        pods.host.go_on_from(0, pods.host.buffered_batches)
        pods.host.pending_extra_logs.clear()
        try:
            with input_hooks_replaced(self.model):
                output = super().train(resume_from_checkpoint, *args, **kwargs)
            if self.state.global_step == 0 and self.state.max_steps > 0:
                raise InvalidInputError(
                    "training ended before its first step: the dataset has fewer prompts than one"
                    f" generation takes ({pods.prompts_of_generation}). Give more prompts, or"
                    " smaller batches"
                )
            pods.recorder.finish(self.state.global_step, pods.clock.training_seconds)
            return output
        finally:
            pods.recorder.close()

    def get_eval_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's; it is of one evaluation."""
        with loaders_forgotten(self.accelerator):
            return super().get_eval_dataloader(*args, **kwargs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's; its table has the dropped rollouts, too, and the columns `kept` and `rule`."""
        pods = self.pods
        if not self.model.training:
            writes = self.log_completions and self.accelerator.is_main_process
            folder = str(self.args.output_dir)
            with beside_the_training_table(folder, self.state.global_step, bool(writes)):
                super().log(logs, start_time)
            return
        of_step = self.accelerator.is_main_process and "loss" in logs  # and not the totals
        if pods.completions is None:
            super().log(logs, start_time)
        else:
            with pods.host.logging(pods.completions):
                super().log(logs, start_time)
        if pods.completions is not None and of_step:
            callbacks = self.callback_handler.callbacks
            write_to_tensorboard(callbacks, pods.completions, self.state.global_step)
        if pods.traced is not None and of_step:
            log_traces(pods.traced, self.state.global_step)

    # Names of ours on TRL's class have one prefix; all else is in `pods`.

    def _pods_check_reward_functions(self) -> None:
        """Tell of a likely mistake of a reward function."""
        selection = self.pods.settings.selection
        for function, name in zip(self.reward_funcs, self.reward_func_names, strict=True):
            if not selection.keeps_all and reads_num_generations(function):
                logger.warning(
                    "reward function %r reads num_generations (%d), and %d rollouts of a prompt are"
                    " generated here: it is given that number as num_rollouts",
                    name,
                    selection.num_kept,
                    selection.num_rollouts,
                )
            rounds = self.pods.settings.rounds
            cuts_groups = rounds is not None and not rounds.of_whole_groups
            if cuts_groups and asks_for_group_size(function):
                raise InvalidInputError(
                    f"reward function {name!r} asks for num_rollouts, so it compares the rollouts"
                    " of a prompt; with rollouts_per_round they come in rounds, and the reward of"
                    " each has to follow from that rollout alone. Leave rollouts_per_round out"
                )

    def _pods_tell_of_many(self) -> None:
        """Tell of many rollouts for each kept one, before hours go into the first step."""
        selection = self.pods.settings.selection
        if (
            not self.accelerator.is_main_process
            or selection.num_rollouts < _MANY * selection.num_kept
        ):
            return
        prompts = self.pods.prompts_of_generation
        logger.warning(
            "num_rollouts=%d is %d times num_generations=%d: %d prompts have %d rollouts generated"
            " and scored before the first step. If that is not what you want, lower it",
            selection.num_rollouts,
            selection.num_rollouts // selection.num_kept,
            selection.num_kept,
            prompts,
            prompts * selection.num_rollouts,
        )

    def _pods_name_method(self) -> None:
        """Say on the model's card what it was trained with, and which paper is cited for it."""
        selection = self.pods.settings.selection
        if selection.keeps_all:
            return  # TRL's own says GRPO
        if method_of(selection) == "pods":
            self.pods.host.name_on_card("PODS", PAPER)
        else:
            self.pods.host.name_on_card(f"GRPO on rows chosen by {selection.rule}", {})
