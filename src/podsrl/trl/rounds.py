"""`rollouts_per_round`: which prompts go on to their next round."""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import gather_object

from podsrl.downsampling import can_improve, refuse_outside
from podsrl.trl import vllm
from podsrl.trl.batch import Batch
from podsrl.trl.config import PODSConfig

logger = logging.getLogger(__name__)


class Rounds:
    """Says which prompts of a batch go on. What it is told decides, so processes agree.

    Args:
        args: of the trainer.

    Attributes:
        seen: without `reward_range`, lowest and highest reward so far; NaN before any.
        in_any_order: a prompt goes on when its own round has ended, not when those of all have.
    """

    in_any_order = False

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
        if args.reward_range is not None:
            refuse_outside(rewards_P_N, args.reward_range, batch.step + 1)
        else:
            low, high = self.seen
            self.seen = (
                float(np.fmin(low, np.fmin.reduce(rewards_P_N, axis=None))),
                float(np.fmax(high, np.fmax.reduce(rewards_P_N, axis=None))),
            )
        m, limits = int(args.num_generations or 0), args.reward_range or self.seen
        open_P = can_improve(rewards_P_N, m, limits, args.stop_at)
        ended_P = batch.generated_P_N.all(dim=1).cpu().numpy()
        return np.flatnonzero(open_P & ~ended_P).tolist()


@contextmanager
def unlogged(trainer: Any) -> Iterator[dict[str, list[Any]]]:
    """What TRL and reward functions log inside is left out, except for the tokens seen so far.

    Later rounds are of the harder prompts. Gives what reward functions logged.
    """
    pending: dict[str, list[Any]] = defaultdict(list)
    logged: dict[str, dict[str, list[Any]]] = {"train": defaultdict(list)}
    with patch.multiple(trainer, _pending_metrics=pending, _metrics=logged):
        yield pending
    trainer._metrics["train"]["num_tokens"] = logged["train"]["num_tokens"]


def why_in_order(trainer: Any) -> str | None:
    """Why a prompt's next round waits for the first rounds of all, in a run with vLLM, if it does.

    Without waiting, every process generates and judges its own prompts by itself.
    """
    args, world = trainer.args, trainer.accelerator.num_processes
    prompts = args.generation_batch_size // trainer.num_generations
    if args.reward_range is None:
        return "no reward_range is given"
    if trainer.rollout_func is not None:
        return "rollout_func generates"
    if world == 1:
        return None
    if prompts % world:
        return f"{prompts} prompts can't be shared equally by {world} processes"
    if any(isinstance(function, torch.nn.Module) for function in trainer.reward_funcs):
        return "a reward model may be spread over processes"
    return vllm.why_not_apart(trainer.vllm_generation)


def generate_in_any_order(
    trainer: Any, batch: Batch, prompts: list[Any], generate: Callable[..., Any]
) -> None:
    """Generate and score a batch in rounds with `generate`, TRL's; no prompt waits for another.

    Each process does this for its own prompts. They meet when all rounds of all have ended.
    """
    own, state = batch.of_this_process(), trainer.state
    tokens_of_later_rounds = 0

    def ended(groups: list[int], first: bool) -> list[int]:
        nonlocal tokens_of_later_rounds
        before = state.num_input_tokens_seen
        with unlogged(trainer) as pending:
            rows = own.first_round(groups, prompts) if first else own.next_round(groups)
            trainer._generate_round(own, *rows)
        if first:
            for name, values in pending.items():  # TRL takes their mean: one for each prompt
                trainer._pending_metrics[name] += values * len(groups)
        else:
            tokens_of_later_rounds += state.num_input_tokens_seen - before
        state.num_input_tokens_seen = before  # TRL counts those of all first rounds at the end
        return [group for group in trainer.rounds.goes_on(own) if group in groups]

    with (
        trainer.clock.phase("generate"),
        patch.multiple(trainer, num_generations=own.asked, _batch=own),
        vllm.as_prompts_end(trainer.vllm_generation, own.n - own.first, ended),
    ):
        generate(prompts)
    with trainer.clock.phase("select"):
        batch.join(own, trainer.reward_weights)
        state.num_input_tokens_seen += sum(gather_object([tokens_of_later_rounds]))
        trainer._metrics["train"]["num_tokens"] = [state.num_input_tokens_seen]
