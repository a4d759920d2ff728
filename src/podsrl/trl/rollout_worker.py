"""TRL's asynchronous rollout worker, with n rollouts per prompt of which m go to the trainer."""

import queue
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import trl
from packaging.version import Version
from trl.experimental.async_grpo import AsyncGRPOConfig
from trl.experimental.async_grpo.async_rollout_worker import AsyncRolloutWorker
from trl.trainer.utils import get_callable_name

from podsrl.errors import InvalidInputError, UnsupportedError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.rollout_log.writer import RolloutLog
from podsrl.rules import resolve_rule
from podsrl.selection import Selection
from podsrl.trl.advice import Advice
from podsrl.trl.messages import logger, show_messages
from podsrl.trl.metrics import pods_metrics
from podsrl.trl.recorder import rollout_columns
from podsrl.trl.rewards import refuse_twice
from podsrl.trl.rollout_loop import SCORED, SelectingLoop, rollouts_of, weights_of
from podsrl.trl.rollouts import Kept


class PODSRolloutWorker(AsyncRolloutWorker):
    """Takes the place of an `AsyncGRPOTrainer`'s rollout worker: n rollouts per prompt, m sent.

    Construct it between the trainer and `trainer.train()`. It does all that TRL's own would do, as
    that was set up by the trainer. TRL's metrics of rewards and tools describe all n rollouts,
    those under `pods/` what is sent. With n = m the trainer gets what TRL's own worker sends.

    Args:
        trainer: The `AsyncGRPOTrainer`; its `num_generations` is m, rollouts per prompt in the
            update, and its `max_inflight_tasks` counts these, too: n/m as many are under way.
        num_rollouts: The number n of rollouts per prompt; default 4m.
        window: Of how many prompts a batch rule keeps rows at once; default: an optimiser step's.
        rollout_log: As in `PODSConfig`, and so is `rollout_log_max_rows`.
        options: `rule`, `baseline`, `seed` (default: args.seed) and `selection_weights` (by name of
            the reward function), as in `podsrl.Selection`.

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
        if Version(trl.__version__) < Version("1.16"):
            has = f"PODSRolloutWorker needs trl >= 1.16, and {trl.__version__} is installed"
            raise UnsupportedError(f"{has}: pip install 'trl>=1.16,<1.17'")
        theirs = getattr(trainer, "rollout_worker", "no worker")
        if theirs is not None and type(theirs) is not AsyncRolloutWorker:
            raise InvalidInputError(
                "PODSRolloutWorker needs an AsyncGRPOTrainer with TRL's own rollout worker, got"
                f" {type(trainer).__name__} with {theirs}; PODSTrainer selects rollouts by itself"
            )
        self._trainer, self.args = trainer, trainer.args
        m = self.args.num_generations
        self.num_rollouts = 4 * m if num_rollouts is None else num_rollouts
        self.selection = _selection(self.args, self.num_rollouts, options)
        across = self.selection.across_prompts
        rows = self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps
        if window is None:
            rows *= trainer.accelerator.num_processes
            window = max(1, rows // m) if across else 1
        if not isinstance(window, int) or window < 1 or (across and window * m < 2):
            raise InvalidInputError(
                f"window={window!r} with num_generations={m}; a batch rule needs an integer, and"
                " window x num_generations rows to keep, at least 2 to compare with each other"
            )
        if theirs is None:  # only the first process has one
            return
        # TRL's own defaults, which a worker of the user's own may leave to it
        given = {"environment_factory": None, "max_inflight_tasks": 128, **theirs._loop_kwargs}
        names = [get_callable_name(function) for function in given["reward_funcs"]]
        refuse_twice(names)
        if given["environment_factory"] is None:  # whose own rewards go by names of their classes
            weights_of(self.selection, names)
        given["num_generations"] = self.num_rollouts
        given["max_inflight_tasks"] = -(-given["max_inflight_tasks"] * self.num_rollouts // m)
        given |= {"selection": self.selection, "window": window}
        super().__init__(**given)
        show_messages()
        self._tokenizer = given["processing_class"]
        self._log_rows = rollout_log_max_rows if rollout_log else 0
        self._log: RolloutLog | None = None
        self._run = RunFolder(str(self.args.output_dir))
        self._advice = Advice()
        # what is scored goes there, too; TRL's own drops what it has no place for
        self._queue_of_child = self.metrics_queue = self._mp_ctx.Queue()
        trainer.rollout_worker, trainer.rollout_queue = self, self.rollout_buffer

    def start(self) -> None:
        """TRL's; then what is scored is also logged."""
        self.metrics_queue = self._queue_of_child
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
        self._run.unlock()

    def _summarise(self, records: list[dict[str, Any]]) -> dict[str, float]:
        """The metrics of the groups that were scored since the last log."""
        step, names = max(1, self._trainer.state.global_step), records[0]["names"]
        kept_P_N = torch.tensor([record["kept"] for record in records])
        kept = Kept(rollouts_of(records, step - 1), kept_P_N, rank=0, world=1)
        advantages_K = torch.tensor([record["advantages"] for record in records])[kept_P_N]
        if self._log is not None:
            self._log.write(step, rollout_columns(kept, advantages_K, self._tokenizer, names))
        found = pods_metrics(kept, advantages_K, names, self.selection.baseline)
        judged = names if self.num_rollouts > self.args.num_generations else ()
        self._advice.look(kept.of, judged, found)
        return found


class ScoredGroups:
    """TRL's queue of metrics for the trainer's `log`, which empties it; groups become metrics."""

    def __init__(self, items: Any, summarise: Callable[[list[dict[str, Any]]], dict]) -> None:
        self._items, self._summarise = items, summarise
        self._records: list[dict[str, Any]] = []

    def get_nowait(self) -> dict[str, Any]:
        """The next metrics; `queue.Empty` if there are none."""
        while True:
            try:
                item = self._items.get_nowait()
            except queue.Empty:
                if not self._records:
                    raise
                records, self._records = self._records, []
                return self._summarise(records)
            self._records.extend(item.pop(SCORED, []))
            if item:
                return item


def _selection(args: AsyncGRPOConfig, n: int, given: Mapping[str, Any]) -> Selection:
    if "m" in given:
        raise InvalidInputError(f"m={given['m']!r} is num_generations of AsyncGRPOConfig; set that")
    wanted = {"m": args.num_generations, "seed": args.seed, **given}
    selection = Selection.from_options(wanted, n, where="", n_name="num_rollouts")
    if ":" not in str(selection.rule):  # one that was registered is unknown in another process
        selection = replace(selection, rule=resolve_rule(selection.rule))
    return selection
