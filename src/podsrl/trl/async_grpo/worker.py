"""TRL's asynchronous rollout worker, with n rollouts per prompt of which m go to the trainer."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import trl
from packaging.version import Version
from trl.experimental.async_grpo import AsyncGRPOConfig
from trl.experimental.async_grpo.async_rollout_worker import AsyncRolloutWorker
from trl.trainer.utils import get_callable_name

from podsrl.errors import InvalidInputError, UnsupportedError, fields_named
from podsrl.methods import complete_selection, selection_from_options
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.rollout_log.writer import RolloutLog
from podsrl.rules import resolve_rule
from podsrl.selection import Selected, Selection
from podsrl.trl.async_grpo.loop import SelectingLoop, rollouts_of, weights_of
from podsrl.trl.async_grpo.scored_groups import ScoredGroups
from podsrl.trl.checks import refuse_twice
from podsrl.trl.generation import KeptRows
from podsrl.trl.messages import logger, show_messages
from podsrl.trl.recorder import rollout_columns
from podsrl.trl.reporting import Advice, pods_metrics

#: Metrics and groups that wait for the trainer to log them, at most. No system allows much more.
MOST_METRICS = 30_000


class PODSRolloutWorker(AsyncRolloutWorker):
    """Takes the place of an `AsyncGRPOTrainer`'s rollout worker: n rollouts per prompt, m sent.

    Construct it between the trainer and `trainer.train()`. It does all that TRL's own would do, as
    that was set up by the trainer. TRL's metrics of rewards and tools describe all n rollouts,
    those under `pods/` what is sent. With n = m the trainer gets what TRL's own worker sends.

    Args:
        trainer: The `AsyncGRPOTrainer`; its `num_generations` is m, rollouts per prompt in the
            update, and its `max_inflight_tasks` counts these, too: n/m as many are under way.
        num_rollouts: The number n of rollouts per prompt; default 4m, or as the method says.
        window: The number of prompts among which a batch rule chooses at once; default: those of
            an optimiser step.
        rollout_log: As in `PODSConfig`, and so is `rollout_log_max_rows`.
        options: `method`, and `rule`, `baseline`, `seed` (default: args.seed) and
            `selection_weights` (by name of the reward function), as in `podsrl.Selection`.

    Raises:
        InvalidInputError: Another trainer, a size out of range, an unknown option, a wrong value.
        UnknownNameError: There is no such rule.
        UnsupportedError: TRL before 1.16.
    """

    _loop_cls = SelectingLoop
    args: Any
    metrics_queue: Any

    def __init__(
        self,
        trainer: Any,
        num_rollouts: int | None = None,
        *,
        window: int | None = None,
        rollout_log: bool = True,
        rollout_log_max_rows: int = 1_000_000,
        **options: Any,
    ) -> None:
        theirs = _worker_of_trl(trainer)
        self._trainer = trainer
        self.args = trainer.args
        self.selection = _selection(self.args, num_rollouts, options)
        self.num_rollouts = self.selection.num_rollouts
        window = self._checked_window(window)
        if theirs is None:  # only the first process has one
            return

        super().__init__(**self._given_to_trl(theirs, window))
        show_messages()
        self._tokenizer = theirs._loop_kwargs["processing_class"]
        self._log_rows = rollout_log_max_rows if rollout_log else 0
        self._log: RolloutLog | None = None
        self._run = RunFolder(str(self.args.output_dir))
        self._advice = Advice()

        # What is scored goes through this queue, too. TRL's own has fewer places, and whatever
        # finds none is dropped, so that a trainer which never logs holds up nothing.
        self._queue_of_child = self._mp_ctx.Queue(maxsize=MOST_METRICS)
        self.metrics_queue = self._queue_of_child
        trainer.rollout_worker = self
        trainer.rollout_queue = self.rollout_buffer
        trainer._trained_groups = TrainedGroups()

    def _checked_window(self, window: Any) -> int:
        """The number of prompts whose rows are kept at once, completed and checked.

        Raises:
            InvalidInputError: It is no such number, or leaves fewer than two rows to compare.
        """
        m = self.args.num_generations
        across = self.selection.across_prompts
        if window is None:
            rows = self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps
            rows *= self._trainer.accelerator.num_processes
            window = max(1, rows // m) if across else 1
        if not isinstance(window, int) or window < 1 or (across and window * m < 2):
            raise InvalidInputError(
                f"window={window!r} with num_generations={m}; a batch rule needs an integer, and"
                " window x num_generations rows to keep, at least 2 to compare with each other"
            )
        return window

    def _given_to_trl(self, theirs: AsyncRolloutWorker, window: int) -> dict[str, Any]:
        """The arguments of TRL's worker, with n rollouts of a prompt under way for each m."""
        # TRL's own defaults, which a worker of the user's own may leave to it
        options = {"environment_factory": None, "max_inflight_tasks": 128, **theirs._loop_kwargs}
        names_F = [get_callable_name(function) for function in options["reward_funcs"]]
        refuse_twice(names_F)
        if options["environment_factory"] is None:  # whose own rewards go by names of their classes
            weights_of(self.selection, names_F)

        m = self.args.num_generations
        in_flight = options["max_inflight_tasks"]
        options["num_generations"] = self.num_rollouts
        options["max_inflight_tasks"] = -(-in_flight * self.num_rollouts // m)
        options["selection"] = self.selection
        options["window"] = window
        return options

    def start(self) -> None:
        """TRL's; then what is scored is also logged."""
        self.metrics_queue = self._queue_of_child
        self._trainer._trained_groups.clear()  # of an earlier `train()`, which had its own numbers

        if self._log_rows:
            self._run.lock()
        super().start()
        self.metrics_queue = ScoredGroups(self._queue_of_child, self._summarise)

        if self._log_rows:
            if done := self._trainer.state.global_step:
                self._run.truncate_after(done)
            elif (moved := self._run.set_aside()) is not None:
                logger.warning("%s was used before; its records are in %s", self._run.path, moved)
            self._log = RolloutLog(self._run, self._log_rows)

    def stop(self) -> None:
        """TRL's, except that it would wait forever for a process that has died."""
        process = self._process
        if process is not None and self._failed_event.is_set():
            process.join(timeout=15)
        if process is not None and not process.is_alive():
            self._process = None
        super().stop()
        if self._log is not None:
            self._log.close()
            if self._log.error is not None:
                logger.warning("some rollouts could not be written: %s", self._log.error)
        self._run.unlock()

    def _summarise(self, records: list[dict[str, Any]]) -> dict[str, float]:
        """The metrics of the groups that were scored since the last log."""
        step = max(1, self._trainer.state.global_step)
        kept_P_N = np.array([record["kept"] for record in records])
        rollouts = rollouts_of(records, step - 1)
        kept = KeptRows(rollouts, Selected(self.selection, rollouts.rewards, kept_P_N))
        advantages_P_N = np.where(
            kept_P_N, np.array([record["advantages"] for record in records]), 0.0
        )

        if self._log is not None:
            columns = rollout_columns(kept, advantages_P_N, self._tokenizer)
            groups, n = kept_P_N.shape
            self._log.write(step, columns, groups=groups, rollouts=groups * n)
            if self._trainer.control.should_save:  # what is logged before a checkpoint stays
                self._log.flush()
        metrics = pods_metrics(kept, advantages_P_N)
        self._advice.look(kept, metrics)
        self._advice.end_step(step)
        return metrics


class TrainedGroups(set[int]):
    """The numbers of the prompts that were trained on, by which TRL resumes and ends an epoch.

    TRL adds those of a batch when it is fetched, and its dataloader fetches one batch ahead. A run
    that is resumed would never train on the prompts of that one. So a batch counts from when the
    one after it is fetched, which is before it is trained on and before any checkpoint after it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ahead: set[int] = set()

    def update(self, *groups: Iterable[int]) -> None:
        """Count the batch before; remember this one."""
        super().update(self._ahead)
        self._ahead = set().union(*groups)

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self._ahead = set()


def _worker_of_trl(trainer: Any) -> AsyncRolloutWorker | None:
    """TRL's own worker, which is to be replaced; any other one is refused."""
    if Version(trl.__version__) < Version("1.16"):
        raise UnsupportedError(
            f"PODSRolloutWorker needs trl >= 1.16, and {trl.__version__} is installed:"
            " pip install 'trl>=1.16,<1.17'"
        )
    theirs = getattr(trainer, "rollout_worker", "no worker")
    if theirs is not None and type(theirs) is not AsyncRolloutWorker:
        raise InvalidInputError(
            "PODSRolloutWorker needs an AsyncGRPOTrainer with TRL's own rollout worker, got"
            f" {type(trainer).__name__} with {theirs}; PODSTrainer selects rollouts by itself"
        )
    return theirs


def _selection(
    args: AsyncGRPOConfig, num_rollouts: int | None, options: Mapping[str, Any]
) -> Selection:
    """The selection that the worker's options and the trainer's config ask for."""
    if "m" in options:
        raise InvalidInputError(
            f"m={options['m']!r} is num_generations of AsyncGRPOConfig; set that"
        )
    if num_rollouts is None:
        with fields_named({"num_kept": "num_generations"}):
            num_rollouts = complete_selection(
                options.get("method"), num_kept=args.num_generations, rule=options.get("rule")
            ).num_rollouts
    options = {"m": args.num_generations, "seed": args.seed, **options}
    selection = selection_from_options(options, num_rollouts, where="", n_name="num_rollouts")

    # Another process knows only the rules of podsrl by name, so a registered one goes as it is.
    if ":" not in str(selection.rule):
        selection = replace(selection, rule=resolve_rule(selection.rule))
    return selection
