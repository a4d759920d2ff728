"""One instrument for every trainer: the seconds of a step, by phase.

It wraps the methods that TRL and transformers have for both, so that PODS and TRL's own trainer are
measured alike; nothing is taken from PODS's own clock.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any

import torch
from trl import GRPOTrainer

from podsrl.trl import PODSTrainer

#: What a step consists of; "other" is what is left: batches, padding, metrics, logs, callbacks.
PHASES = ("generate", "score", "select", "log-probs", "update", "other")
#: What is neither generating, scoring nor updating.
BOOKKEEPING = ("select", "other")


class Probe:
    """Seconds by phase, each moment counted once: an inner phase is taken out of the outer one."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._clock = clock
        self._phases = ["other"]
        self._since = clock()

    def reset(self) -> None:
        """Begin a turn."""
        self.seconds.clear()
        self._since = self._clock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the block as phase `name`."""
        self.settle()
        self._phases.append(name)
        try:
            yield
        finally:
            self.settle()
            self._phases.pop()

    def settle(self) -> None:
        """Count what has passed so far to the current phase."""
        now = self._clock()
        self.seconds[self._phases[-1]] += now - self._since
        self._since = now

    def watch(self, trainer: GRPOTrainer) -> None:
        """Wrap what a trainer calls while it trains; once in a process, before training."""
        self._wrap(GRPOTrainer, "_generate", "generate")
        self._wrap(GRPOTrainer, "_calculate_rewards", "score")

        # What our trainer does around these two is selecting.
        for name in ("_generate", "_calculate_rewards"):
            if name in vars(PODSTrainer):
                self._wrap(PODSTrainer, name, "select")

        # Old and reference log-probs are computed without gradients, those of the loss with them.
        self._wrap(
            GRPOTrainer,
            "_get_per_token_logps_and_entropies",
            "log-probs",
            when=lambda: not torch.is_grad_enabled(),
        )

        self._wrap(GRPOTrainer, "_compute_loss", "update")
        self._wrap(GRPOTrainer, "_clip_grad_norm", "update")
        self._wrap(trainer.accelerator, "backward", "update")
        self._wrap(trainer.model, "zero_grad", "update")
        self._wrap(GRPOTrainer, "create_optimizer", "other", then=self._watch_optimizer)

    def _watch_optimizer(self, optimizer: Any) -> None:
        self._wrap(optimizer, "step", "update")

    def _wrap(
        self,
        owner: Any,
        name: str,
        phase: str,
        when: Callable[[], bool] = lambda: True,
        then: Callable[[Any], None] = lambda result: None,
    ) -> None:
        """Count the calls of a method as a phase, where `when` says so; `then` gets the result."""
        original = getattr(owner, name)

        @wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.phase(phase) if when() else nullcontext():
                result = original(*args, **kwargs)
            then(result)
            return result

        setattr(owner, name, wrapped)
