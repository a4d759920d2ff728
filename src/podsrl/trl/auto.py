"""`num_rollouts: auto`: measure in the first steps, choose n, say so, and stay with it."""

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback

from podsrl.errors import InvalidInputError
from podsrl.recommend import (
    Costs,
    Timing,
    candidates,
    grid,
    measured,
    measuring_schedule,
    recommend,
)
from podsrl.trl.clock import PHASES

if TYPE_CHECKING:
    from podsrl.trl.selection import Selection
    from podsrl.trl.trainer import PODSTrainer

logger = logging.getLogger(__name__)


class AutoRollouts(TrainerCallback):
    """Sets `trainer.num_rollouts`, generation by generation, until n is chosen.

    The measuring generations are training like all others. Each n is measured twice, the largest
    first, so that one too large for the memory fails at once. The rewards of all of them, which
    every rank has, give the signal; the seconds of the main process give the cost, and what it
    chooses is everyone's.

    Attributes:
        candidates: the n to choose from: m, 2m, 4m, ... up to `max_num_rollouts`.
        schedule: n of each measuring generation.
        chosen: n, once it is.
        reason: why, in a sentence.
    """

    def __init__(self, trainer: "PODSTrainer") -> None:
        self.trainer = trainer
        m = trainer.num_generations
        self.candidates = candidates(m, trainer.args.most_rollouts)
        self.schedule = measuring_schedule(self.candidates)
        self.chosen: int | None = None
        self.reason = ""
        self._timings: list[Timing] = []
        self._rewards: list[list[float]] = []  # of each group
        self._spent: defaultdict[str, float] = defaultdict(float)  # since the last generation began
        self._tokens: list[int] = []
        trainer.num_rollouts = self.schedule[0]
        if len(self.candidates) == 1:
            self._settle(m, f"n = m = {m}: max_num_rollouts allows no other")
        else:
            self._say(
                "num_rollouts auto: the first %d generations measure n = %s",
                *(len(self.schedule), ", ".join(map(str, dict.fromkeys(self.schedule)))),
            )

    def observe(self, selection: "Selection") -> None:
        """Remember the rewards and lengths of a generation."""
        if self.chosen is None:
            self._rewards.extend(selection.rewards_P_N.double().tolist())
            self._tokens.extend(len(ids) for ids in selection.rollouts["completion_ids"] or ())

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count the step's seconds; when the next step generates again, go on to the next n."""
        if self.chosen is not None:
            return
        for phase, seconds in self.trainer.clock.last_step.items():
            self._spent[phase] += seconds
        every = (self.trainer.args.steps_per_generation or 1) * self.trainer.num_iterations
        if self.trainer._step % every:
            return
        tokens = sum(self._tokens) / max(1, len(self._tokens))
        n, m = self.trainer.num_rollouts, self.trainer.num_generations
        generate, score, select, update = (self._spent[phase] for phase in PHASES)
        self._timings.append(Timing(n, m, generate, score, select, update, tokens))
        self._spent.clear()
        self._tokens.clear()
        if len(self._timings) < len(self.schedule):
            self.trainer.num_rollouts = self.schedule[len(self._timings)]
        else:
            self._choose()

    def state(self) -> dict[str, Any]:
        """All of it as plain values, for a checkpoint."""
        return {
            "num_rollouts": self.trainer.num_rollouts,
            "chosen": self.chosen,
            "reason": self.reason,
            "timings": [tuple(timing) for timing in self._timings],
            "rewards": self._rewards,
            "spent": dict(self._spent),
            "tokens": self._tokens,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.trainer.num_rollouts = state["num_rollouts"]
        self.chosen, self.reason = state["chosen"], state["reason"]
        self._timings = [Timing(*timing) for timing in state["timings"]]
        self._rewards, self._tokens = state["rewards"], state["tokens"]
        self._spent = defaultdict(float, state["spent"])

    def _choose(self) -> None:
        decided: list[Any] = [None]
        if self.trainer.accelerator.is_main_process:
            decided = [self._best()]
        if self.trainer.accelerator.num_processes > 1:
            broadcast_object_list(decided)
        self._settle(*decided[0])

    def _best(self) -> tuple[int, str]:
        m = self.trainer.num_generations
        try:
            population = measured(self._rewards, self.trainer._rule)
        except InvalidInputError as error:  # the trainer warns of each such step
            return m, f"n = m = {m}: {error}"
        costs = Costs.of_timings(self._timings)
        choice = recommend(grid(population, costs, self.candidates, [m]))
        return choice.cell.n, choice.reason

    def _settle(self, n: int, reason: str) -> None:
        self.trainer.num_rollouts = self.chosen = n
        self.reason = reason
        self._timings, self._rewards = [], []
        self._say("num_rollouts auto: %s", reason)

    def _say(self, message: str, *values: Any) -> None:
        if self.trainer.accelerator.is_main_process:
            logger.info(message, *values)
