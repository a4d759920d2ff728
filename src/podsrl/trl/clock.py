"""The seconds of an optimiser step, by phase."""

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import TrainerCallback

from podsrl.rollout_log.run_folder import PHASES


class PhaseClock(TrainerCallback):
    """Times every optimiser step, from its first micro-batch to the end of the optimiser's step.

    Evaluation, logging and checkpoints happen between steps and are left out. What a step spends
    outside `phase(...)` blocks is its update: log-probs, forward, backward, optimiser.
    """

    def __init__(self) -> None:
        self.now = now  # the laboratory measures the processor's time in its place
        self.training_seconds = 0.0  # of all steps so far, kept across resumes
        self.last_step: dict[str, float] = {}  # seconds of the last finished step, by phase
        self.spent: defaultdict[str, float] = defaultdict(float)  # of the step, by phase
        self._began: float | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the block's seconds as phase `name` of the step; not those of phases inside."""
        began = self.now()
        spent_before = sum(self.spent.values())
        try:
            yield
        finally:
            inside = sum(self.spent.values()) - spent_before
            self.spent[name] += self.now() - began - inside

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Forget the peak of memory of an earlier run in this process."""
        if torch.cuda.is_initialized():
            torch.cuda.reset_peak_memory_stats()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the step's clock."""
        self.spent.clear()
        self._began = self.now()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop the step's clock and split it into phases."""
        if self._began is None:
            return
        total = self.now() - self._began
        self._began = None
        self.training_seconds += total

        *timed, rest = PHASES
        self.last_step = {phase: self.spent.get(phase, 0.0) for phase in timed}
        self.last_step[rest] = total - sum(self.last_step.values())


def now() -> float:
    """Seconds on a monotonic clock, once the accelerator has finished what it was given."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def peak_memory() -> int:
    """Peak bytes: allocated on the GPU since training began, or resident in this process so far."""
    if torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)  # kilobytes on Linux
