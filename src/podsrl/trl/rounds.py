"""`rollouts_per_round`: which prompts go on to their next round."""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from accelerate import PartialState

from podsrl.downsampling import can_improve, refuse_outside
from podsrl.trl import vllm
from podsrl.trl.batch import Batch
from podsrl.trl.config import PODSConfig

logger = logging.getLogger(__name__)


class Rounds:
    """Says which prompts of a batch go on. What it is told decides, so all processes agree.

    Args:
        args: of the trainer.

    Attributes:
        seen: lowest and highest reward so far; NaN before any.
    """

    def __init__(self, args: PODSConfig) -> None:
        self.args = args
        if args.stop_at is not None and PartialState().is_main_process:
            logger.warning(
                "stop_at = %g stops early by rewards that more rollouts might have changed: the"
                " kept rows' distribution is approximately that of all n, not exactly",
                args.stop_at,
            )
        self.seen = (math.nan, math.nan)

    def goes_on(self, batch: Batch) -> list[int]:
        """The prompts that generate the rest of their rollouts, after a round.

        Raises:
            RewardError: a reward outside `reward_range`.
        """
        args = self.args
        rewards_P_N = batch.rewards_to_select_by(args.selection_weights).double().cpu().numpy()
        low, high = self.seen
        self.seen = (
            float(np.fmin(low, np.fmin.reduce(rewards_P_N, axis=None))),
            float(np.fmax(high, np.fmax.reduce(rewards_P_N, axis=None))),
        )
        if args.reward_range is not None:
            refuse_outside(rewards_P_N, args.reward_range, batch.step + 1)
        m, limits = int(args.num_generations or 0), args.reward_range or self.seen
        open_P = can_improve(rewards_P_N, m, limits, args.stop_at)
        ended_P = batch.generated_P_N.all(dim=1).cpu().numpy()
        return np.flatnonzero(open_P & ~ended_P).tolist()


@contextmanager
def unlogged(trainer: Any) -> Iterator[None]:
    """What TRL and reward functions log inside is left out, except for the tokens seen so far.

    Later rounds are of the harder prompts.
    """
    pending: dict[str, list[Any]] = defaultdict(list)
    logged: dict[str, dict[str, list[Any]]] = {"train": defaultdict(list)}
    with patch.multiple(trainer, _pending_metrics=pending, _metrics=logged):
        yield
    trainer._metrics["train"]["num_tokens"] = logged["train"]["num_tokens"]


def in_any_order(trainer: Any) -> bool:
    """Does each prompt go on when its own round has ended, and not when those of all have?

    With vLLM, where one process has all rollouts of a prompt and can judge it without the others.
    """
    return (
        trainer.rounds is not None
        and trainer.args.reward_range is not None
        and trainer.use_vllm
        and trainer.accelerator.num_processes == 1
        and trainer.rollout_func is None
    )


def generate_in_any_order(
    trainer: Any, batch: Batch, prompts: list[Any], generate: Callable[..., Any]
) -> None:
    """Generate and score a batch in rounds with `generate`, TRL's; no prompt waits for another."""

    def ended(groups: list[int], first: bool) -> list[int]:
        if first:
            counted = trainer.state.num_input_tokens_seen
            metrics: dict[str, Any] = {"train": defaultdict(list)}
            pending: dict[str, list[Any]] = defaultdict(list)
            with patch.multiple(trainer, _metrics=metrics, _pending_metrics=pending):
                trainer._generate_round(batch, *batch.first_round(groups, prompts))
            trainer.state.num_input_tokens_seen = counted  # TRL counts and logs them at the end
            for name, values in pending.items():  # TRL takes their mean: one for each prompt
                trainer._pending_metrics[name] += values * len(groups)
        else:
            with unlogged(trainer):
                trainer._generate_round(batch, *batch.next_round(groups))
        return [group for group in trainer.rounds.goes_on(batch) if group in groups]

    with (
        trainer.clock.phase("generate"),
        patch.object(trainer, "num_generations", batch.asked),
        vllm.as_prompts_end(trainer.vllm_generation, batch.n - batch.first, ended),
    ):
        generate(prompts)
